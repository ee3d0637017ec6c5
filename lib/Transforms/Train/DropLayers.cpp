//===- DropLayers.cpp - Lets training steps skip layers -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `train-drop-layers`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Scalars.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Common/TokenRegions.h"
#include "heddle/Transforms/Train/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINDROPLAYERS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

/// Finds the additions in a layer function that add a branch to the residual
/// stream.
///
/// A value belongs to the stream if it depends on the layer's input without a
/// matrix product or attention between them, and to a branch if there is one
/// between them. An addition of the two is residual, and its sum belongs to the
/// stream. This covers layers that norm before their branches, after the
/// additions, or after both, and layers that compute both branches from the
/// same input.
class Residuals {
public:
  /// An addition, and the number of the operand that is the branch.
  using Addition = std::pair<nn::AddOp, unsigned>;

  Residuals(nn::FuncOp layer, unsigned input) {
    Block &body = layer.getBody().front();
    kinds[body.getArgument(input)] = Kind::Stream;
    for (Operation &op : body)
      visit(op);
  }

  llvm::ArrayRef<Addition> additions() const { return found; }

private:
  enum class Kind { Other, Stream, Branch };

  void visit(Operation &op) {
    Kind kind = Kind::Other;
    for (Value operand : op.getOperands())
      kind = std::max(kind, kinds.lookup(operand));
    if (kind == Kind::Stream && isProduct(&op))
      kind = Kind::Branch;
    if (auto add = dyn_cast<nn::AddOp>(op)) {
      Kind lhs = kinds.lookup(add.getLhs()), rhs = kinds.lookup(add.getRhs());
      if (std::min(lhs, rhs) == Kind::Stream &&
          std::max(lhs, rhs) == Kind::Branch) {
        found.push_back({add, rhs == Kind::Branch ? 1 : 0});
        kind = Kind::Stream;
      }
    }
    for (Value result : op.getResults())
      kinds[result] = kind;
  }

  DenseMap<Value, Kind> kinds;
  SmallVector<Addition> found;
};

struct DropLayers : heddle::impl::TrainDropLayersBase<DropLayers> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    if (!config::dropsLayers(strategy))
      return;
    lastCondition = {};
    conditions.clear();
    known.clear();
    scaled.clear();
    for (auto step : model.getOps<nn::StepOp>())
      if (step.getKind() == nn::ProgramKind::Train &&
          failed(drop(model, step, strategy)))
        return signalPassFailure();
    numDropped += conditions.size();
    eraseUncalled(model);
  }

private:
  /// A call of a layer, and the operand that has the hidden states.
  struct Layer {
    nn::CallOp call;
    unsigned input;
  };

  /// The calls of layers in the body: those of functions that add a branch to
  /// one of their arguments.
  SmallVector<Layer> layersOf(nn::ModelOp model, Block &body) {
    SmallVector<Layer> layers;
    SymbolTable symbols(model);
    for (auto call : body.getOps<nn::CallOp>()) {
      if (call.getNumResults() != 1)
        continue;
      auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
      for (OpOperand &operand : call->getOpOperands()) {
        unsigned number = operand.getOperandNumber();
        if (operand.get().getType() != call.getResult(0).getType() ||
            Residuals(callee, number).additions().empty())
          continue;
        layers.push_back({call, number});
        break;
      }
    }
    return layers;
  }

  LogicalResult drop(nn::ModelOp model, nn::StepOp step,
                     const dist::Strategy &strategy) {
    auto loop = *step.getBody().getOps<nn::MicroBatchesOp>().begin();
    Block &body = loop.getBody().front();
    SmallVector<Layer> layers = layersOf(model, body);
    if (layers.empty())
      return step.emitError("H0355: calls no layer that adds a branch to its "
                            "input, so no layer can be dropped");
    // Train programs of several phases drop the same layers.
    SmallVector<Attribute> paths;
    for (Layer layer : layers)
      paths.push_back(layer.call.getPathAttr());
    if (!conditions.empty() && paths != known)
      return step.emitError("H0355: calls other layers than the first train "
                            "program; programs that drop layers have the same");
    known = paths;
    std::vector<config::LayerDrop> drops;
    if (std::string wrong =
            config::layerDrops(strategy, int64_t(layers.size()), drops);
        !wrong.empty())
      return step.emitError(wrong);
    SmallVector<Value> scales = addScales(step, body, layers.size());
    for (auto [layer, drop, scale] : llvm::zip(layers, drops, scales)) {
      nn::FuncOp &callee = scaled[{layer.call.getCalleeAttr(), layer.input}];
      if (!callee)
        callee = scaleBranches(model, layer);
      replace(model, layer, callee, drop, scale);
    }
    return success();
  }

  /// Adds the step's input with the factors of all layers' branches. Returns
  /// the factor of each layer. Each has the place of a whole member of nn.pack,
  /// so that it is read without a copy.
  SmallVector<Value> addScales(nn::StepOp step, Block &body, size_t layers) {
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    auto number = RankedTensorType::get({}, builder.getF32Type());
    auto all = RankedTensorType::get({int64_t(layers) * nn::paddedElements(1)},
                                     builder.getF32Type());
    Value input = addInput(
        step, nn::PortAttr::get(&getContext(), nn::PortRole::LayerScales), all);
    // Every rank has all factors.
    ArrayAttr none = builder.getArrayAttr({});
    auto everywhere = dist::TensorShardingAttr::get(&getContext(), none, none);
    auto unpack = builder.create<nn::UnpackOp>(
        step.getLoc(), SmallVector<Type>(layers, number), input,
        builder.getArrayAttr(SmallVector<Attribute>(layers, everywhere)));
    return SmallVector<Value>(unpack.getMembers());
  }

  /// Makes a copy of the layer's function that multiplies each branch by a
  /// factor, which is a new last argument.
  nn::FuncOp scaleBranches(nn::ModelOp model, Layer layer) {
    SymbolTable symbols(model);
    auto original = symbols.lookup<nn::FuncOp>(layer.call.getCallee());
    nn::FuncOp function = original.clone();
    function.setSymName((original.getSymName() + ".dropped").str());
    OpBuilder builder(original);
    builder.insert(function);
    symbols.insert(function);
    Location loc = function.getLoc();
    Value scale = function.getBody().front().addArgument(
        RankedTensorType::get({}, builder.getF32Type()), loc);
    for (auto [add, branch] : Residuals(function, layer.input).additions()) {
      builder.setInsertionPoint(add);
      Value operands[] = {add->getOperand(1 - branch), add->getOperand(branch),
                          scale};
      add.getOutput().replaceAllUsesWith(nn::buildMap(
          builder, add.getLoc(), operands, [](nn::Scalars &s, ValueRange x) {
            return s.add(x[0], s.mul(x[1], x[2]));
          }));
      add.erase();
    }
    updateFunctionType(function);
    return function;
  }

  /// The condition of a layer: one for all train programs.
  nn::ConditionOp conditionOf(nn::ModelOp model, nn::CallOp call,
                              const config::LayerDrop &drop) {
    nn::ConditionOp &condition = conditions[call.getPathAttr()];
    if (condition)
      return condition;
    OpBuilder builder(model.getContext());
    if (lastCondition)
      builder.setInsertionPointAfter(lastCondition);
    else
      builder.setInsertionPointToStart(model.getBodyBlock());
    auto optional = [&](double value) {
      return drop.isProgressive ? builder.getF64FloatAttr(value) : FloatAttr();
    };
    condition = builder.create<nn::ConditionOp>(
        call.getLoc(), (call.getPath() + ".kept").str(),
        nn::LayerDropAttr::get(&getContext(), call.getPathAttr(),
                               builder.getF64FloatAttr(drop.rate),
                               optional(drop.theta), optional(drop.gamma)));
    lastCondition = condition;
    return condition;
  }

  /// Replaces a layer's call by a call of `callee` that is skipped in steps
  /// that drop the layer.
  void replace(nn::ModelOp model, Layer layer, nn::FuncOp callee,
               const config::LayerDrop &drop, Value scale) {
    nn::CallOp call = layer.call;
    nn::ConditionOp condition = conditionOf(model, call, drop);
    OpBuilder builder(call);
    SmallVector<Value> operands(call.getOperands());
    operands.push_back(scale);
    auto kept =
        builder.create<nn::CallOp>(call.getLoc(), callee, operands,
                                   call.getPathAttr(), call.getRecomputeAttr());
    kept.setWhen(condition.getSymName());
    kept.setPasses(SmallVector<int64_t>{int64_t(layer.input)});
    call->replaceAllUsesWith(kept);
    call.erase();
  }

  /// The condition of the layer before, after which that of the next layer is
  /// inserted: the runtime writes the factors of layers in this order.
  nn::ConditionOp lastCondition;
  DenseMap<Attribute, nn::ConditionOp> conditions; ///< By the layer's path.
  SmallVector<Attribute> known; ///< The paths of the dropped layers, in order.
  /// The copies of layers with a factor for each branch. The key is the layer's
  /// name and the number of the argument that has the hidden states.
  DenseMap<std::pair<Attribute, unsigned>, nn::FuncOp> scaled;
};

} // namespace
