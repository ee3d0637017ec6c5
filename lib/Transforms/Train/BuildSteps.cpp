//===- BuildSteps.cpp - Step programs from forward functions --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Train/Passes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINBUILDSTEPS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

/// Moves the body of `function` to the builder's place; gives its results.
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
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      strategy = model.getStrategy().getValue();
      SmallVector<nn::FuncOp> programs;
      for (auto function : model.getOps<nn::FuncOp>())
        if (function.getProgram())
          programs.push_back(function);
      for (nn::FuncOp function : programs) {
        if (*function.getProgram() == "generate")
          buildGenerate(function);
        else
          buildLoss(model, function);
        function.erase();
      }
    }
  }

private:
  /// A step like the function: for programs that run once, as they are.
  void buildGenerate(nn::FuncOp function) {
    OpBuilder builder(function);
    auto step = builder.create<nn::StepOp>(
        function.getLoc(), *function.getProgram(), *function.getProgram(),
        function.getFunctionType(), function.getArgNamesAttr(),
        function.getResultNamesAttr());
    Block *block = builder.createBlock(
        &step.getBody(), {}, function.getArgumentTypes(),
        SmallVector<Location>(function.getNumArguments(), function.getLoc()));
    auto results = inlineBody(builder, function, block->getArguments());
    builder.create<nn::ReturnOp>(function.getLoc(), results);
  }

  /// The type of a step's input, from that of one micro-batch.
  Type wholeType(Type type, StringRef name, int64_t count) {
    auto tensor = cast<RankedTensorType>(type);
    if (name == "rng")
      return tensor;
    SmallVector<int64_t> shape = {count};
    llvm::append_range(shape, tensor.getShape());
    return RankedTensorType::get(shape, tensor.getElementType());
  }

  /// The state in which the losses of all micro-batches are summed.
  StringAttr addLossState(nn::ModelOp model, StringRef program) {
    OpBuilder builder = OpBuilder::atBlockBegin(model.getBodyBlock());
    auto type = RankedTensorType::get({}, builder.getF32Type());
    auto name = builder.getStringAttr(program + ".loss");
    builder.create<nn::StateOp>(model.getLoc(), name, "accumulator", type);
    return name;
  }

  void buildLoss(nn::ModelOp model, nn::FuncOp function) {
    StringRef kind = *function.getProgram();
    int64_t count = kind == "train" ? strategy.accumulate : 1;
    Location loc = function.getLoc();
    OpBuilder builder(function);

    SmallVector<Type> inputs;
    SmallVector<Attribute> names;
    for (auto [type, name] :
         llvm::zip(function.getArgumentTypes(),
                   function.getArgNamesAttr().getAsRange<StringAttr>())) {
      if (type.isIndex())
        continue;
      inputs.push_back(wholeType(type, name, count));
      names.push_back(name);
    }
    auto lossType = RankedTensorType::get({}, builder.getF32Type());
    auto step = builder.create<nn::StepOp>(
        loc, kind, kind, builder.getFunctionType(inputs, {lossType}),
        builder.getArrayAttr(names), builder.getStrArrayAttr({"loss"}));
    StringAttr loss = addLossState(model, kind);

    Block *body = builder.createBlock(
        &step.getBody(), {}, inputs, SmallVector<Location>(inputs.size(), loc));
    Value zero = builder.create<nn::FillOp>(
        loc, lossType, builder.getF64FloatAttr(0), nullptr);
    builder.create<nn::SetOp>(loc, loss, zero);
    auto loop = builder.create<nn::MicroBatchesOp>(loc, count);
    buildMicroBatch(loop, function, body->getArguments(), loss);
    builder.setInsertionPointAfter(loop);
    Value total = builder.create<nn::GetOp>(loc, lossType, loss);
    builder.create<nn::ReturnOp>(loc, total);
  }

  /// The body of the loop: slices, the forward pass, the sum of its losses.
  void buildMicroBatch(nn::MicroBatchesOp loop, nn::FuncOp function,
                       ValueRange inputs, StringAttr loss) {
    Location loc = function.getLoc();
    OpBuilder builder(&getContext());
    Block *block = builder.createBlock(&loop.getBody(), {},
                                       {builder.getIndexType()}, {loc});
    SmallVector<Value> arguments;
    size_t next = 0;
    for (auto [type, name] :
         llvm::zip(function.getArgumentTypes(),
                   function.getArgNamesAttr().getAsRange<StringAttr>())) {
      if (type.isIndex())
        arguments.push_back(block->getArgument(0));
      else if (name.getValue() == "rng")
        arguments.push_back(inputs[next++]);
      else
        arguments.push_back(builder.create<nn::MicroBatchOp>(
            loc, type, inputs[next++], block->getArgument(0)));
    }
    auto results = inlineBody(builder, function, arguments);
    for (auto [result, name] : llvm::zip(
             results, function.getResultNamesAttr().getAsRange<StringAttr>())) {
      if (name.getValue() != "losses") {
        builder.create<nn::KeepOp>(loc, result, name);
        continue;
      }
      int64_t tokens =
          cast<RankedTensorType>(result.getType()).getNumElements();
      if (loop->getParentOfType<nn::StepOp>().getKind() == "train")
        tokens = strategy.batch * strategy.seq;
      auto lossType = RankedTensorType::get({}, builder.getF32Type());
      Value before = builder.create<nn::GetOp>(loc, lossType, loss);
      Value sum = builder.create<nn::SumOp>(
          loc, lossType, result, before,
          builder.getF64FloatAttr(1.0 / static_cast<double>(tokens)), nullptr);
      builder.create<nn::SetOp>(loc, loss, sum);
    }
    builder.create<nn::ReturnOp>(loc, ValueRange());
  }

  dist::Strategy strategy;
};

} // namespace
