//===- Guards.cpp - In which steps commands are executed ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads, writes and verifies the attributes `plan.when` and `plan.unless`.
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanDialect.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::planir;

static constexpr StringRef whenName = "plan.when", unlessName = "plan.unless";

Guard planir::guardOf(Operation *command) {
  if (auto when = command->getAttrOfType<FlatSymbolRefAttr>(whenName))
    return {when, true};
  if (auto unless = command->getAttrOfType<FlatSymbolRefAttr>(unlessName))
    return {unless, false};
  return {};
}

void planir::setGuard(Operation *command, const Guard &guard) {
  command->removeAttr(whenName);
  command->removeAttr(unlessName);
  if (guard)
    command->setAttr(guard.value ? whenName : unlessName, guard.condition);
}

LogicalResult PlanDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (attribute.getName() != whenName && attribute.getName() != unlessName)
    return op->emitOpError("has the unknown attribute ") << attribute.getName();
  if (!isa<CommandOpInterface>(op))
    return op->emitOpError("is no command, so it cannot have ")
           << attribute.getName();
  if (!isa<FlatSymbolRefAttr>(attribute.getValue()))
    return op->emitOpError("needs the name of a condition as ")
           << attribute.getName();
  if (op->hasAttr(whenName) && op->hasAttr(unlessName))
    return op->emitOpError("has both plan.when and plan.unless");
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  llvm::StringMap<ConditionOp> conditions;
  for (auto condition : getOps<ConditionOp>())
    conditions[condition.getSymName()] = condition;
  WalkResult walk = getBody().walk([&](CommandOpInterface command) {
    Guard guard = guardOf(command);
    if (!guard)
      return WalkResult::advance();
    ConditionOp condition = conditions.lookup(guard.condition.getValue());
    auto call = dyn_cast<CallOp>(*command);
    if (!condition)
      command->emitOpError("has the unknown condition ") << guard.condition;
    else if (call &&
             !call.getPath().starts_with(condition.getHolds().getPath()))
      call.emitOpError("has the condition of another layer, ")
          << condition.getHolds().getPath().getValue();
    else
      return WalkResult::advance();
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}
