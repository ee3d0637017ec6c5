//===- UpdateCondition.cpp - Whether a step updates parameters ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateCondition.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/PlanFormat/ErrorFeedback.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/Settings/LossScale.h"

using namespace mlir;
using namespace heddle;

nn::StateOp train::addState(nn::StepOp step, StringRef name, Type type) {
  auto model = step->getParentOfType<nn::ModelOp>();
  if (auto known = model.lookupSymbol<nn::StateOp>(name))
    return known;
  return OpBuilder(step).create<nn::StateOp>(step.getLoc(), name,
                                             nn::StateRole::Optimizer, type);
}

void train::addCheckpointedState(nn::StepOp step, StringRef name, Type type,
                                 double first) {
  Builder builder(step.getContext());
  nn::StateOp state = addState(step, name, type);
  state.setCheckpointed(true);
  state.setInitAttr(nn::InitAttr::get(
      step.getContext(), nn::InitKind::Constant, builder.getF64FloatAttr(first),
      builder.getF64FloatAttr(0), /*zeroRow=*/-1));
}

/// Whether a number is neither infinite nor NaN.
static Value isFinite(nn::Scalars &s, Value x) {
  // x - x is 0 for a finite x, and then 1 > x - x. Otherwise x - x is NaN, and
  // the comparison is false.
  return s.isGreater(s.real(1), s.sub(x, x));
}

Value train::finiteOrZero(nn::Scalars &s, Value x) {
  return s.select(isFinite(s, x), x, s.real(0));
}

/// Adds a state that becomes 1 in the first step whose loss or gradient norm
/// is not finite, and returns the state's new value. While the state is 1,
/// steps update nothing. Only the host resets it to 0, after it has read the
/// loss. The host may have submitted the next steps before that, and these
/// steps must not update parameters either.
static Value noteNonfinite(OpBuilder &builder, nn::StepOp step, Value norm,
                           Value loss) {
  Location loc = step.getLoc();
  StringRef name = plan::nonfiniteState;
  train::addState(step, name, norm.getType());
  Value before = builder.create<nn::GetOp>(loc, norm.getType(), name);
  auto note = builder.create<nn::UpdateOp>(
      loc, TypeRange(norm.getType()), name, before, norm, ValueRange(),
      loss ? ValueRange(loss) : ValueRange(), Value(), nullptr);
  Block &block = note.getBody().emplaceBlock();
  nn::Scalars s(loc, step.getContext());
  s.setInsertionPointToEnd(&block);
  Value noted = block.addArgument(s.getF64Type(), loc);
  for (unsigned i = 1; i < note->getNumOperands(); ++i) {
    Value number = block.addArgument(s.getF64Type(), loc);
    noted = s.select(isFinite(s, number), noted, s.real(1));
  }
  s.create<nn::ReturnOp>(noted);
  builder.create<nn::SetOp>(loc, name, note.getNewParameter());
  return note.getNewParameter();
}

/// Advances the states of the loss scale. The state `nonfinite` becomes 1 in a
/// step that overflows with the least scale; the host then ends the run, and
/// the steps that it has already submitted must not update anything. Returns 1
/// if neither this step nor such an earlier step has overflowed, else 0.
///
/// The factor by which the update divides gradients reads the scale of this
/// step, so it must be computed before the scale is overwritten. Therefore it
/// is one of the values that are checked: it is finite if the norm is.
static Value advanceLossScale(OpBuilder &builder, nn::StepOp step, Value norm,
                              Value loss, Value scale, Value factor) {
  Location loc = step.getLoc();
  Type type = norm.getType();
  auto model = step->getParentOfType<nn::ModelOp>();
  std::optional<config::LossScale> rule =
      config::lossScaleOf(model.getStrategy().getValue());
  train::addState(step, plan::nonfiniteState, type);
  StringRef names[] = {plan::lossScaleState, plan::lossScaleLeftState,
                       plan::lossScaleStepsState, plan::nonfiniteState};
  SmallVector<Value> states = {scale};
  for (StringRef name : ArrayRef(names).drop_front())
    states.push_back(builder.create<nn::GetOp>(loc, type, name));
  SmallVector<Value> checked = {norm, factor};
  if (loss)
    checked.push_back(loss);
  auto advance = builder.create<nn::AdvanceLossScaleOp>(
      loc, type, type, type, type, type, states[0], states[1], states[2],
      states[3], checked, builder.getI64IntegerAttr(rule->window),
      builder.getI64IntegerAttr(rule->hysteresis),
      builder.getF64FloatAttr(rule->least),
      rule->isConsecutive ? builder.getUnitAttr() : UnitAttr(), ArrayAttr());
  for (auto [name, next] : llvm::zip(names, advance.getResults()))
    builder.create<nn::SetOp>(loc, name, next);
  return advance.getUpdates();
}

Value train::updateCondition(OpBuilder &builder, nn::StepOp step, Value norm,
                             Value lossScale, Value factor) {
  Location loc = step.getLoc();
  auto port = [&](nn::PortRole role) {
    return nn::portOf(step.getOutputs(),
                      step.getBody().front().getTerminator()->getOperands(),
                      role);
  };
  Value loss = port(nn::PortRole::Loss);
  SmallVector<Value> inputs = {
      lossScale ? advanceLossScale(builder, step, norm, loss, lossScale, factor)
                : noteNonfinite(builder, step, norm, loss)};
  if (Value labels = port(nn::PortRole::LossWeight))
    inputs.push_back(labels);
  return nn::buildMap(builder, loc, inputs, [&](nn::Scalars &s, ValueRange x) {
    Value updates = s.real(1);
    if (x.size() > 1)
      updates = s.select(s.isGreater(x[1], s.real(0)), updates, s.real(0));
    // The first input says that the step must update, or that it must not.
    Value noted = s.isGreater(x[0], s.real(0));
    return lossScale ? s.select(noted, updates, s.real(0))
                     : s.select(noted, s.real(0), updates);
  });
}

Value train::readLossScale(OpBuilder &builder, nn::StepOp step) {
  auto model = step->getParentOfType<nn::ModelOp>();
  auto state = model.lookupSymbol<nn::StateOp>(plan::lossScaleState);
  if (!state)
    return {};
  return builder.create<nn::GetOp>(step.getLoc(), state.getType(),
                                   state.getSymName());
}

Value train::gradientFactor(OpBuilder &builder, Value norm, Value limit,
                            Value lossScale) {
  Location loc = norm.getLoc();
  if (!limit)
    return nn::buildMap(
        builder, loc, lossScale,
        [](nn::Scalars &s, ValueRange x) { return s.div(s.real(1), x[0]); });
  SmallVector<Value> operands = {norm, limit};
  if (lossScale)
    operands.push_back(lossScale);
  return nn::buildMap(
      builder, loc, operands, [&](nn::Scalars &s, ValueRange x) -> Value {
        Value length = lossScale ? s.div(x[0], x[2]) : x[0];
        Value ratio = s.div(x[1], s.add(length, s.real(1e-6)));
        Value factor = s.create<arith::MinimumFOp>(ratio, s.real(1));
        return lossScale ? s.div(factor, x[2]) : factor;
      });
}

Value train::keptErrors(OpBuilder &builder, nn::StepOp step, int64_t number,
                        Value condition) {
  Location loc = step.getLoc();
  StringRef name = plan::errorsOfState;
  Type type = condition.getType();
  addCheckpointedState(step, name, type, /*first=*/0);
  auto own = static_cast<double>(number);
  Value before = builder.create<nn::GetOp>(loc, type, name);
  Value kept = nn::buildMap(
      builder, loc, before, [&](nn::Scalars &s, ValueRange x) -> Value {
        Value isEarlier = s.isGreater(s.real(own), x[0]);
        Value isLater = s.isGreater(x[0], s.real(own));
        return s.select(isEarlier, s.real(0),
                        s.select(isLater, s.real(0), s.real(1)));
      });
  auto note = builder.create<nn::UpdateOp>(loc, TypeRange(type), name, before,
                                           before, ValueRange(), ValueRange(),
                                           condition, nullptr);
  Block &block = note.getBody().emplaceBlock();
  nn::Scalars s(loc, step.getContext());
  s.setInsertionPointToEnd(&block);
  block.addArgument(s.getF64Type(), loc);
  block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(s.real(own));
  builder.create<nn::SetOp>(loc, name, note.getNewParameter());
  return kept;
}
