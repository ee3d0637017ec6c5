//===- Reverse.cpp - Reverse-mode differentiation of a block --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reverse.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::train;

static bool isFloatTensor(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && isa<FloatType>(tensor.getElementType());
}

void Reverse::findActive(Block &block, ArrayRef<Value> seeds) {
  active.insert(seeds.begin(), seeds.end());
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(),
                     [&](Value v) { return active.contains(v); }))
      for (Value result : op.getResults())
        if (isFloatTensor(result))
          active.insert(result);
}

void Reverse::rewriteCalls(Block &block) {
  DenseMap<Key, unsigned> uses;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      if (Key key = keyOf(operand))
        ++uses[key];
  for (auto call : llvm::make_early_inc_range(block.getOps<nn::CallOp>())) {
    if (llvm::none_of(call.getOperands(),
                      [&](Value v) { return active.contains(v); }))
      continue;
    CallKind kind;
    auto model = call->getParentOfType<nn::ModelOp>();
    kind.callee = model.lookupSymbol<nn::FuncOp>(call.getCalleeAttr());
    kind.policy = call.getRecompute().value_or(nn::Recompute::None);
    kind.sums = sums;
    for (Value operand : call.getOperands()) {
      kind.active.push_back(active.contains(operand));
      kind.parameter.push_back(keyOf(operand) != nullptr);
    }
    for (Value result : call.getResults())
      kind.used.push_back(llvm::any_of(result.getUsers(), [](Operation *user) {
        return !isa<nn::KeepOp>(user);
      }));
    // If a parameter is used several times, each later use adds its gradient to
    // the sum of the gradients so far. A call that may be skipped adds to a
    // sum, too, which is then the gradient without the call.
    kind.sums |= call.getWhen().has_value();
    for (Value operand : call.getOperands())
      if (Key key = keyOf(operand))
        kind.sums |= uses.lookup(key) > 1;
    FunctionPair &pair = pairs.get(kind);
    OpBuilder at(call);
    auto saving =
        at.create<nn::CallOp>(call.getLoc(), pair.forward, call.getOperands(),
                              call.getPathAttr(), call.getRecomputeAttr());
    if (call.getWhen()) {
      saving.setWhenAttr(call.getWhenAttr());
      SmallVector<int64_t> passes(*call.getPasses());
      passes.resize(saving.getNumResults(), nn::CallOp::passesNothing);
      saving.setPasses(passes);
    }
    for (auto [old, result] :
         llvm::zip(call.getResults(), saving.getResults())) {
      if (active.contains(old))
        active.insert(result);
      old.replaceAllUsesWith(result);
    }
    rewritten[saving] = &pair;
    call.erase();
  }
}

void Reverse::run(ArrayRef<Operation *> forward, const IRMapping &where) {
  mapping = where;
  for (Operation *op : llvm::reverse(forward)) {
    if (auto call = dyn_cast<nn::CallOp>(op)) {
      if (rewritten.contains(call))
        differentiateCall(call);
      continue;
    }
    auto differentiable = dyn_cast<nn::DifferentiableOpInterface>(op);
    if (!differentiable || llvm::none_of(op->getResults(), [&](Value result) {
          return grads.contains(result);
        }))
      continue;
    if (checkDerivative(differentiable))
      differentiable.buildGradient(builder, *this);
    else
      pairs.failed = true;
  }
}

/// Checks that the operation has a derivative, and that only its first result
/// has a gradient. The other results are statistics, such as the mean of a
/// norm. All results of element-wise operations may have gradients.
bool Reverse::checkDerivative(nn::DifferentiableOpInterface op) {
  for (OpResult result : op->getResults().drop_front())
    if (grads.contains(result) && !op->hasTrait<nn::Elementwise>()) {
      op->emitError("H0354: the loss depends on its result #")
          << result.getResultNumber()
          << ", and only the first has a derivative";
      return false;
    }
  StringRef reason = op.getNotDifferentiableReason();
  if (reason.empty())
    return true;
  op->emitError("H0354: the loss depends on it, and it has no derivative: ")
      << reason;
  return false;
}

/// Casts the value to the type `type`. Returns the value itself if it has this
/// type already.
static Value castTo(OpBuilder &builder, Value value, Type type) {
  if (value.getType() == type)
    return value;
  return builder.create<nn::CastOp>(value.getLoc(), type, value,
                                    /*shardings=*/nullptr);
}

void Reverse::add(Value operand, Value gradient) {
  auto plus = [&](Value sum, Value more) -> Value {
    if (!sum)
      return more;
    return builder.create<nn::AddOp>(gradient.getLoc(), sum, more,
                                     /*shardings=*/nullptr);
  };
  // If `operand` is a parameter, the operation that computed `gradient` could
  // not add it to the parameter's accumulated gradient. So an nn.add does.
  if (Key key = keyOf(operand)) {
    Value more = castTo(builder, gradient, nn::gradientType(operand.getType()));
    totals[key] = plus(accumulator(operand), more);
    return;
  }
  Value &sum = grads[operand];
  sum = plus(sum, gradient);
}

Value Reverse::accumulator(Value operand) {
  Key key = keyOf(operand);
  if (!key)
    return Value();
  if (Value sum = totals.lookup(key))
    return sum;
  return sums ? initialSum(operand) : Value();
}

void Reverse::setAccumulated(Value operand, Value sum) {
  if (Key key = keyOf(operand)) {
    totals[key] = sum;
    return;
  }
  if (!isActive(operand)) // A frozen weight needs none.
    return;
  // The weight is not a parameter, but is computed from other values. Its
  // gradient is cast to the weight's type. The gradients of the other values
  // are then computed from it.
  add(operand, castTo(builder, sum, operand.getType()));
}

Value Reverse::zeros(Location loc, Type type) {
  return builder.create<nn::FillOp>(loc, type, builder.getF64FloatAttr(0),
                                    /*shardings=*/nullptr);
}

/// Returns, for each gradient that the backward function of a call returns, the
/// backward function's operand that the gradient equals if the call is skipped:
/// for a parameter the sum so far, and for the operand that a result then
/// equals, the result's gradient.
static SmallVector<int64_t> passedGradients(nn::CallOp call,
                                            const FunctionPair &pair) {
  using Kind = BackwardArgument::Kind;
  auto isPassed = [&](const BackwardArgument &argument, unsigned operand) {
    return argument.kind == Kind::Sum
               ? argument.index == operand
               : argument.kind == Kind::ResultGrad &&
                     (*call.getPasses())[argument.index] == operand;
  };
  SmallVector<int64_t> passes;
  for (unsigned operand : pair.gradients) {
    auto found = llvm::find_if(pair.arguments, [&](const auto &argument) {
      return isPassed(argument, operand);
    });
    passes.push_back(found == pair.arguments.end()
                         ? nn::CallOp::passesNothing
                         : found - pair.arguments.begin());
  }
  return passes;
}

void Reverse::differentiateCall(nn::CallOp call) {
  FunctionPair &pair = *rewritten.lookup(call);
  bool wanted = false;
  for (unsigned index = 0; index < pair.numResults; ++index)
    wanted |= grads.contains(call.getResult(index));
  if (!wanted)
    return;
  SmallVector<Value> operands;
  for (const BackwardArgument &argument : pair.arguments) {
    using Kind = BackwardArgument::Kind;
    switch (argument.kind) {
    case Kind::Forward:
      operands.push_back(forward(call.getOperand(argument.index)));
      break;
    case Kind::Saved:
      operands.push_back(forward(call.getResult(argument.index)));
      break;
    case Kind::ResultGrad: {
      Value result = call.getResult(argument.index);
      Value grad = grads.lookup(result);
      operands.push_back(grad ? grad : zeros(call.getLoc(), result.getType()));
      break;
    }
    case Kind::Sum: {
      Value parameter = call.getOperand(argument.index);
      Value sum = accumulator(parameter);
      operands.push_back(
          sum ? sum
              : zeros(call.getLoc(), nn::gradientType(parameter.getType())));
      break;
    }
    }
  }
  auto backward = builder.create<nn::CallOp>(call.getLoc(), pair.backward,
                                             operands, call.getPathAttr());
  if (call.getWhen()) {
    backward.setWhenAttr(call.getWhenAttr());
    backward.setPasses(passedGradients(call, pair));
  }
  for (auto [index, grad] : llvm::zip(pair.gradients, backward.getResults())) {
    Value operand = call.getOperand(index);
    if (keyOf(operand))
      setAccumulated(operand, grad);
    else
      add(operand, grad);
  }
}
