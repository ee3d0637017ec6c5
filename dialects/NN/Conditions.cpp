//===- Conditions.cpp - Operations that steps may skip --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads, writes and verifies the conditions of operations: `when` of nn.call,
// and the attribute `nn.when` of other operations.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Conditions.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

static constexpr StringRef whenName = "nn.when";

FlatSymbolRefAttr nn::conditionOf(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op))
    return call.getWhenAttr();
  return op->getAttrOfType<FlatSymbolRefAttr>(whenName);
}

FlatSymbolRefAttr
nn::conditionOf(OpOperand &use,
                function_ref<FlatSymbolRefAttr(Operation *)> ofOperation) {
  FlatSymbolRefAttr condition = ofOperation(use.getOwner());
  auto call = dyn_cast<CallOp>(use.getOwner());
  if (!condition || !call)
    return condition;
  for (auto [result, passed] : llvm::zip(call.getResults(), *call.getPasses()))
    if (passed == int64_t(use.getOperandNumber()))
      for (OpOperand &next : result.getUses())
        if (conditionOf(next, ofOperation) != condition)
          return {};
  return condition;
}

FlatSymbolRefAttr nn::conditionOf(OpOperand &use) {
  return conditionOf(use, [](Operation *op) { return conditionOf(op); });
}

void nn::setCondition(Operation *op, FlatSymbolRefAttr condition) {
  if (condition)
    op->setAttr(whenName, condition);
  else
    op->removeAttr(whenName);
}

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (attribute.getName() != whenName)
    return success();
  if (isa<CallOp, MicroBatchesOp, SymbolOpInterface>(op) ||
      op->hasTrait<OpTrait::IsTerminator>())
    return op->emitOpError("cannot have ") << attribute.getName();
  if (!isa<FlatSymbolRefAttr>(attribute.getValue()))
    return op->emitOpError("needs the name of a condition as ")
           << attribute.getName();
  return success();
}

/// Checks that the condition of a call exists, and that the results of a
/// skipped call have values of their types.
LogicalResult CallOp::verifyCondition(SymbolTableCollection &tables) {
  if (!getWhen())
    return success();
  if (!isa_and_present<ConditionOp>(tables.lookupSymbolIn(
          (*this)->getParentOfType<ModelOp>(), getWhenAttr())))
    return emitOpError("has the unknown condition ") << getWhenAttr();
  ArrayRef<int64_t> passes = getPasses().value_or(ArrayRef<int64_t>());
  if (passes.size() != getNumResults())
    return emitOpError("says for ")
           << passes.size() << " of its " << getNumResults()
           << " results what they are when it is skipped";
  for (auto [result, operand] : llvm::zip(getResults(), passes)) {
    if (operand == passesNothing || operand == passesZeros)
      continue;
    if (operand < 0 || operand >= getNumOperands())
      return emitOpError("passes operand ")
             << operand << ", and it has " << getNumOperands();
    if (getOperand(operand).getType() != result.getType())
      return emitOpError("passes operand ")
             << operand << " of type " << getOperand(operand).getType()
             << " as a result of type " << result.getType();
  }
  return success();
}

/// Checks that all calls of a step with one module path have one condition,
/// which is that of this layer: a layer's forward and backward pass are
/// computed in the same steps.
static LogicalResult verifyLayers(StepOp step,
                                  const llvm::StringMap<ConditionOp> &known) {
  DenseMap<Attribute, CallOp> layers;
  WalkResult walk = step.walk([&](CallOp call) {
    ConditionOp condition =
        call.getWhen() ? known.lookup(*call.getWhen()) : ConditionOp();
    if (condition &&
        !call.getPath().starts_with(condition.getHolds().getPath())) {
      call.emitOpError("has the condition of another layer, ")
          << condition.getHolds().getPath().getValue();
      return WalkResult::interrupt();
    }
    CallOp first = layers.try_emplace(call.getPathAttr(), call).first->second;
    if (first.getWhenAttr() == call.getWhenAttr())
      return WalkResult::advance();
    call.emitOpError("has another condition than an earlier call of ")
        << call.getPathAttr();
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult nn::verifyConditions(ModelOp model) {
  llvm::StringMap<ConditionOp> conditions;
  for (auto condition : model.getOps<ConditionOp>())
    conditions[condition.getSymName()] = condition;
  WalkResult walk = model.walk([&](Operation *op) {
    FlatSymbolRefAttr when = conditionOf(op);
    if (!when || isa<CallOp>(op))
      return WalkResult::advance();
    if (!conditions.contains(when.getValue())) {
      op->emitOpError("has the unknown condition ") << when;
      return WalkResult::interrupt();
    }
    for (OpOperand &use : op->getUses())
      if (conditionOf(use) != when) {
        auto error = use.getOwner()->emitOpError("has not the condition ")
                     << when << " of a value that it uses";
        error.attachNote(op->getLoc()) << "the value is computed here";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  for (auto step : model.getOps<StepOp>())
    if (failed(verifyLayers(step, conditions)))
      return failure();
  return success();
}
