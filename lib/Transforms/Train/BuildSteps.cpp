//===- BuildSteps.cpp - Step programs from forward functions --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns each program into an nn.step. A program with a loss becomes a loop over
// micro-batches that adds up weighted losses.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Phases.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINBUILDSTEPS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

/// Copies the body of `function` to the builder's insertion point, with its
/// arguments replaced by `arguments`. Returns the copies of the values that
/// `function` returns.
SmallVector<Value> inlineBody(OpBuilder &builder, nn::FuncOp function,
                              ValueRange arguments) {
  IRMapping mapping;
  mapping.map(function.getArguments(), arguments);
  Block &body = function.getBody().front();
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  return llvm::map_to_vector(body.getTerminator()->getOperands(),
                             [&](Value v) { return mapping.lookup(v); });
}

struct BuildSteps : heddle::impl::TrainBuildStepsBase<BuildSteps> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    strategy = model.getStrategy().getValue();
    SmallVector<nn::FuncOp> programs;
    for (auto function : model.getOps<nn::FuncOp>())
      if (function.getProgram())
        programs.push_back(function);
    for (nn::FuncOp function : programs) {
      if (*function.getProgram() != nn::ProgramKind::Train &&
          *function.getProgram() != nn::ProgramKind::Eval)
        buildPlain(function);
      else if (failed(buildLoss(model, function)))
        return signalPassFailure();
      function.erase();
    }
  }

private:
  /// Builds a step with the function's body, for programs without
  /// micro-batches.
  void buildPlain(nn::FuncOp function) {
    OpBuilder builder(function);
    auto step = builder.create<nn::StepOp>(
        function.getLoc(),
        *function.getProgram() == nn::ProgramKind::Generate
            ? stringifyProgramKind(*function.getProgram())
            : function.getSymName(),
        *function.getProgram(), function.getFunctionType(),
        function.getInputsAttr(), function.getOutputsAttr());
    Block *block = builder.createBlock(
        &step.getBody(), {}, function.getArgumentTypes(),
        SmallVector<Location>(function.getNumArguments(), function.getLoc()));
    auto results = inlineBody(builder, function, block->getArguments());
    builder.create<nn::ReturnOp>(function.getLoc(), results);
  }

  /// The type of a step's input, where `type` is its type for one micro-batch.
  /// If the input has one entry for each row of the batch, a first dimension
  /// for the `count` micro-batches is added.
  Type wholeType(Type type, nn::PortAttr port, int64_t count) {
    auto tensor = cast<RankedTensorType>(type);
    if (!port.isOfBatch())
      return tensor;
    SmallVector<int64_t> shape = {count};
    llvm::append_range(shape, tensor.getShape());
    return RankedTensorType::get(shape, tensor.getElementType());
  }

  /// Adds a scalar f32 state. Its role is accumulator (summed over
  /// micro-batches) or scalar. Returns its name.
  StringAttr addNumber(nn::ModelOp model, const Twine &name,
                       nn::StateRole role) {
    OpBuilder builder = OpBuilder::atBlockBegin(model.getBodyBlock());
    auto symbol = builder.getStringAttr(name);
    builder.create<nn::StateOp>(model.getLoc(), symbol, role, number());
    return symbol;
  }

  RankedTensorType number() {
    return RankedTensorType::get({}, Float32Type::get(&getContext()));
  }

  nn::PortAttr port(nn::PortRole role) {
    return nn::PortAttr::get(&getContext(), role);
  }

  /// Where the labels of a loss come from. `labels` is the index of the step's
  /// input with the labels. `weights` is the index of the input with the
  /// weights of labels, if there is one. `scale` names the state with the
  /// factor 1 / (count of labels), by which the sum of the loss is multiplied.
  struct Labels {
    unsigned labels;
    std::optional<unsigned> weights;
    StringAttr scale;
  };

  /// Finds the inputs that have the labels of each loss. Loss i uses the i-th
  /// input of labels. If there are fewer such inputs than losses, the remaining
  /// losses use the last one. The inputs of label weights are assigned in the
  /// same way.
  SmallVector<Labels> labelsOf(nn::ModelOp model, nn::StepOp step,
                               int64_t losses) {
    SmallVector<unsigned> labels, weights;
    for (auto [number, input] :
         llvm::enumerate(step.getInputs().getAsRange<nn::PortAttr>())) {
      if (input.getRole() == nn::PortRole::Labels)
        labels.push_back(number);
      if (input.getRole() == nn::PortRole::LabelWeights)
        weights.push_back(number);
    }
    SmallVector<Labels> result;
    for (int64_t loss = 0; loss < losses; ++loss) {
      size_t which = std::min<size_t>(loss, labels.size() - 1);
      if (which < result.size()) {
        result.push_back(result[which]);
        continue;
      }
      std::string suffix = which > 0 ? "." + std::to_string(which) : "";
      std::optional<unsigned> weight;
      if (!weights.empty())
        weight = weights[std::min<size_t>(which, weights.size() - 1)];
      result.push_back({labels[which], weight,
                        addNumber(model, step.getSymName() + ".scale" + suffix,
                                  nn::StateRole::Scalar)});
    }
    return result;
  }

  /// Counts the labels of the whole step before its first micro-batch, and sets
  /// the scale of each loss. Returns the sum of all counts.
  Value countLabels(OpBuilder &builder, Location loc, ArrayRef<Labels> all,
                    ValueRange inputs) {
    Value total;
    llvm::DenseSet<StringAttr> counted;
    for (const Labels &of : all) {
      if (!counted.insert(of.scale).second)
        continue;
      Value count = builder.create<nn::CountLabelsOp>(
          loc, number(), inputs[of.labels],
          of.weights ? inputs[*of.weights] : Value(), ArrayAttr());
      Value scale =
          builder.create<nn::LossScaleOp>(loc, number(), count, ArrayAttr());
      builder.create<nn::SetOp>(loc, of.scale, scale);
      total = total ? builder.create<nn::AddOp>(loc, total, count, nullptr)
                          .getOutput()
                    : count;
    }
    return total;
  }

  LogicalResult buildLoss(nn::ModelOp model, nn::FuncOp function) {
    auto has = [](ArrayAttr ports, nn::PortRole role) {
      return llvm::any_of(
          ports.getAsRange<nn::PortAttr>(),
          [&](nn::PortAttr port) { return port.getRole() == role; });
    };
    if (!has(function.getInputsAttr(), nn::PortRole::Labels) ||
        !has(function.getOutputsAttr(), nn::PortRole::Losses))
      return function.emitError("H0909: has no labels, or no losses of them");
    nn::ProgramKind kind = *function.getProgram();
    int64_t count = kind == nn::ProgramKind::Train ? strategy.accumulate : 1;
    Location loc = function.getLoc();
    OpBuilder builder(function);

    SmallVector<Type> inputs;
    SmallVector<Attribute> ports;
    for (auto [type, port] :
         llvm::zip(function.getArgumentTypes(),
                   function.getInputsAttr().getAsRange<nn::PortAttr>())) {
      if (type.isIndex())
        continue;
      inputs.push_back(wholeType(type, port, count));
      ports.push_back(port);
    }
    auto step = builder.create<nn::StepOp>(
        loc, nn::programName(kind, function.getPhaseAttr()), kind,
        builder.getFunctionType(inputs, {number(), number()}),
        builder.getArrayAttr(ports),
        builder.getArrayAttr(
            {port(nn::PortRole::Loss), port(nn::PortRole::LossWeight)}));
    step.setPhaseAttr(function.getPhaseAttr());
    StringAttr loss = addNumber(model, step.getSymName() + ".loss",
                                nn::StateRole::Accumulator);
    auto outputs = function.getOutputsAttr().getAsRange<nn::PortAttr>();
    SmallVector<Labels> labels =
        labelsOf(model, step, llvm::count_if(outputs, [](nn::PortAttr port) {
                   return port.getRole() == nn::PortRole::Losses;
                 }));

    Block *body = builder.createBlock(
        &step.getBody(), {}, inputs, SmallVector<Location>(inputs.size(), loc));
    Value weight = countLabels(builder, loc, labels, body->getArguments());
    Value zero = builder.create<nn::FillOp>(
        loc, number(), builder.getF64FloatAttr(0), nullptr);
    builder.create<nn::SetOp>(loc, loss, zero);
    auto loop = builder.create<nn::MicroBatchesOp>(loc, count);
    buildMicroBatch(loop, function, body->getArguments(), labels, loss);
    builder.setInsertionPointAfter(loop);
    Value total = builder.create<nn::GetOp>(loc, number(), loss);
    builder.create<nn::ReturnOp>(loc, ValueRange{total, weight});
    return success();
  }

  /// Builds the body of the loop over micro-batches: slices of the inputs, the
  /// weight of each token, the forward pass, and the weighted sum of the
  /// losses.
  void buildMicroBatch(nn::MicroBatchesOp loop, nn::FuncOp function,
                       ValueRange inputs, ArrayRef<Labels> labels,
                       StringAttr loss) {
    Location loc = function.getLoc();
    OpBuilder builder(&getContext());
    Block *block = builder.createBlock(&loop.getBody(), {},
                                       {builder.getIndexType()}, {loc});
    SmallVector<Value> arguments, parts;
    for (auto [type, port] :
         llvm::zip(function.getArgumentTypes(),
                   function.getInputsAttr().getAsRange<nn::PortAttr>())) {
      if (type.isIndex()) {
        arguments.push_back(block->getArgument(0));
        continue;
      }
      Value input = inputs[parts.size()];
      if (port.isOfBatch())
        input = builder.create<nn::MicroBatchOp>(loc, type, input,
                                                 block->getArgument(0));
      parts.push_back(input);
      arguments.push_back(parts.back());
    }
    auto results = inlineBody(builder, function, arguments);
    // Insert the operations that compute token weights after the layers, and
    // before the operations that compute the loss. Elsewhere they could
    // separate operations of the loss that would otherwise share a kernel.
    builder.setInsertionPointToStart(block);
    for (Operation &op : *block)
      if (isa<nn::CallOp, nn::MicroBatchOp>(op))
        builder.setInsertionPointAfter(&op);
    DenseMap<Attribute, Value> known;
    SmallVector<Value> weights;
    for (const Labels &of : labels) {
      Value &weight = known[of.scale];
      if (!weight) {
        auto labelType = cast<RankedTensorType>(parts[of.labels].getType());
        Value scale = builder.create<nn::GetOp>(loc, number(), of.scale);
        weight = builder.create<nn::TokenWeightsOp>(
            loc, labelType.clone(builder.getF32Type()), parts[of.labels], scale,
            of.weights ? parts[*of.weights] : Value(), ArrayAttr());
      }
      weights.push_back(weight);
    }
    builder.setInsertionPointToEnd(block);
    addLosses(builder, function, results, weights, loss);
    builder.create<nn::ReturnOp>(loc, ValueRange());
  }

  /// Adds those of `results` that are losses to the state `loss`. Marks the
  /// other results as values that `--dump` writes.
  void addLosses(OpBuilder &builder, nn::FuncOp function, ValueRange results,
                 ValueRange weights, StringAttr loss) {
    Location loc = function.getLoc();
    Value sum;
    size_t next = 0;
    for (auto [result, port] : llvm::zip(
             results, function.getOutputsAttr().getAsRange<nn::PortAttr>())) {
      if (port.getRole() != nn::PortRole::Losses) {
        builder.create<nn::KeepOp>(loc, result, port.getKey());
        continue;
      }
      if (!sum)
        sum = builder.create<nn::GetOp>(loc, number(), loss);
      sum = builder.create<nn::SumOp>(loc, number(), result, weights[next++],
                                      sum, ArrayAttr());
    }
    builder.create<nn::SetOp>(loc, loss, sum);
  }

  dist::Strategy strategy;
};

} // namespace
