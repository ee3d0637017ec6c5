//===- NarrowGradients.cpp - Keeps gradients in the type they travel in ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ZeroStorage.h"
#include "dialects/Dist/Wire.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDNARROWGRADIENTS
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

/// The operand to which the operation adds what it computes for `result`; null
/// if there is none.
OpOperand *initOf(OpResult result) {
  for (nn::Init &init : nn::initsOf(result.getOwner()))
    if (init.result == result)
      return &init.operand[0];
  return nullptr;
}

/// Whether the value is filled with zeros.
bool isZeros(Value value) {
  auto fill = value.getDefiningOp<nn::FillOp>();
  return fill && fill.getValue().isZero();
}

/// Changes the element type of a model's gradients to a narrower one.
/// Everything between the operation that computes a gradient and the optimizer
/// is changed.
class Narrower {
public:
  Narrower(nn::ModelOp model, FloatType element)
      : model(model), symbols(model), element(element) {
    model.walk(
        [&](nn::CallOp call) { calls[call.getCallee()].push_back(call); });
  }

  /// Counts the summands of a gradient. `within` has the calls, outermost
  /// first, through which the function that contains `value` is reached.
  unsigned countTerms(Value value, SmallVector<nn::CallOp> within = {});
  void narrowAll();

private:
  void narrow(OpOperand &use);
  bool narrowMaker(Value value);
  void narrowArgument(BlockArgument argument);
  void narrowResult(nn::CallOp call, unsigned number);
  RankedTensorType narrowed(Type type) {
    return cast<RankedTensorType>(type).clone(element);
  }

  nn::ModelOp model;
  SymbolTable symbols;
  FloatType element;
  /// The calls of each function, by the function's name.
  llvm::StringMap<SmallVector<nn::CallOp>> calls;
};

} // namespace

unsigned Narrower::countTerms(Value value, SmallVector<nn::CallOp> within) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (within.empty())
      return 1;
    nn::CallOp call = within.pop_back_val();
    return countTerms(call.getOperand(argument.getArgNumber()), within);
  }
  if (isZeros(value))
    return 0;
  auto result = cast<OpResult>(value);
  if (auto add = dyn_cast<nn::AddOp>(result.getOwner()))
    return countTerms(add.getLhs(), within) + countTerms(add.getRhs(), within);
  if (auto call = dyn_cast<nn::CallOp>(result.getOwner())) {
    auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
    within.push_back(call);
    return countTerms(callee.getBody().front().getTerminator()->getOperand(
                          result.getResultNumber()),
                      within);
  }
  OpOperand *init = initOf(result);
  return 1 + (init ? countTerms(init->get(), within) : 0);
}

void Narrower::narrowAll() {
  SmallVector<nn::SetOp> sets;
  llvm::StringSet<> gradients;
  for (auto state : model.getOps<nn::StateOp>())
    if (state.getRole() == nn::StateRole::Gradient) {
      state.setType(narrowed(state.getType()));
      gradients.insert(state.getSymName());
    }
  for (auto bucket : model.getOps<nn::BucketOp>()) {
    StringRef member = statesOf(symbols, bucket.getSymName()).front();
    if (!gradients.contains(member))
      continue;
    bucket.setType(narrowed(bucket.getType()));
    gradients.insert(bucket.getSymName());
  }
  model.walk([&](Operation *op) {
    if (auto get = dyn_cast<nn::GetOp>(op);
        get && gradients.contains(get.getState()))
      get.getValue().setType(narrowed(get.getType()));
    if (auto set = dyn_cast<nn::SetOp>(op);
        set && gradients.contains(set.getState()))
      sets.push_back(set);
  });
  for (nn::SetOp set : sets)
    narrow(set.getValueMutable());
}

void Narrower::narrow(OpOperand &use) {
  Value value = use.get();
  if (getElementTypeOrSelf(value) == element)
    return;
  if (auto cast = value.getDefiningOp<nn::CastOp>();
      cast && getElementTypeOrSelf(cast.getInput()) == element) {
    use.set(cast.getInput());
    if (cast.use_empty())
      cast.erase();
    return;
  }
  if (auto argument = dyn_cast<BlockArgument>(value))
    return narrowArgument(argument);
  if (auto call = value.getDefiningOp<nn::CallOp>())
    return narrowResult(call, cast<OpResult>(value).getResultNumber());
  if (value.hasOneUse() && narrowMaker(value))
    return;
  OpBuilder builder(model.getContext());
  builder.setInsertionPointAfterValue(value);
  use.set(builder.create<nn::CastOp>(value.getLoc(), narrowed(value.getType()),
                                     value, /*shardings=*/nullptr));
}

/// Changes the result type of the operation that computes `value` to the narrow
/// type. Returns false if the operation cannot have such a result.
bool Narrower::narrowMaker(Value value) {
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  auto sums = nn::sumsOf(op);
  bool isSum = llvm::any_of(
      sums, [&](const nn::Init &sum) { return sum.result == value; });
  if (!isSum && !isa<nn::AddOp, nn::CastOp>(op) && !isZeros(value))
    return false;
  value.setType(narrowed(value.getType()));
  if (isa<nn::AddOp>(op))
    for (OpOperand &operand : op->getOpOperands())
      narrow(operand);
  if (OpOperand *init = initOf(result))
    narrow(*init);
  return true;
}

void Narrower::narrowArgument(BlockArgument argument) {
  auto function = cast<nn::FuncOp>(argument.getOwner()->getParentOp());
  argument.setType(narrowed(argument.getType()));
  function.setFunctionType(FunctionType::get(
      model.getContext(), function.getBody().getArgumentTypes(),
      function.getResultTypes()));
  for (nn::CallOp call : calls.lookup(function.getSymName()))
    narrow(call->getOpOperand(argument.getArgNumber()));
}

void Narrower::narrowResult(nn::CallOp call, unsigned number) {
  auto function = symbols.lookup<nn::FuncOp>(call.getCallee());
  Operation *end = function.getBody().front().getTerminator();
  narrow(end->getOpOperand(number));
  function.setFunctionType(FunctionType::get(
      model.getContext(), function.getArgumentTypes(), end->getOperandTypes()));
  for (nn::CallOp caller : calls.lookup(function.getSymName()))
    caller.getResult(number).setType(
        narrowed(end->getOperand(number).getType()));
}

namespace {

struct NarrowGradients
    : heddle::impl::ShardNarrowGradientsBase<NarrowGradients> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
    if (failed(mesh))
      return signalPassFailure();
    FloatType sent = dist::wireType(strategy, Builder(&getContext()));
    bool once = !config::sumsGradients(strategy) &&
                mesh->getSize(dist::AxisRole::Pipeline) == 1;
    // With signs, small tensors are reduced after the check for overflows.
    bool mayOverflow = sent.isF16() && config::sendsSigns(strategy.optimizer);
    if (!isKeptIn(sent, strategy) || !once || mayOverflow ||
        shard::ReplicaAxes(*mesh).ranks == 1)
      return;
    Narrower narrower(model, sent);
    if (mayRound(model, narrower)) {
      narrower.narrowAll();
      ++numModels;
    }
  }

private:
  /// Whether gradients can be stored in the type in which they are sent. Most
  /// of them underflow in a type that needs a loss scale, unless the model
  /// computes in it and so scales the loss.
  static bool isKeptIn(FloatType sent, const dist::Strategy &strategy) {
    const dist::ComputeType *type = dist::findComputeType(sent);
    return type->isNarrow() &&
           (!type->needsLossScale || type->precision == strategy.precision);
  }

  /// Whether gradients may be rounded to the narrow type. Each gradient must be
  /// the sum of at most two values, as for an embedding that is tied to the
  /// head. A longer sum would be rounded several times, once after each
  /// addition.
  bool mayRound(nn::ModelOp model, Narrower &narrower) {
    SymbolTable symbols(model);
    WalkResult walk = model.walk([&](nn::SetOp set) {
      auto state = symbols.lookup<nn::StateOp>(set.getState());
      return state && state.getRole() == nn::StateRole::Gradient &&
                     narrower.countTerms(set.getValue()) > 2
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return !walk.wasInterrupted();
  }
};

} // namespace
