//===- PlanDialect.h - Kernels, commands and memory -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_PLANDIALECT_H
#define HEDDLE_DIALECTS_PLAN_PLANDIALECT_H

#include "dialects/NN/NNDialect.h"
#include "dialects/Pipe/PipeDialect.h"

#include "dialects/Plan/PlanDialect.h.inc"
#include "dialects/Plan/PlanEnums.h.inc"

namespace heddle::planir {

using nn::MemoryKind;

/// A command's read or write of the bytes of one of its operands.
struct Access {
  unsigned operand = 0;
  bool writes = false;
  int64_t bytes = 0;
};

/// In which steps a command is executed: in all steps, or in those in which a
/// condition has a value. A command has the attribute `plan.when` (the
/// condition is true), the attribute `plan.unless` (it is false), or neither.
struct Guard {
  mlir::FlatSymbolRefAttr condition; ///< Null: in all steps.
  bool value = true;

  explicit operator bool() const { return bool(condition); }
  bool operator==(const Guard &other) const {
    return condition == other.condition && value == other.value;
  }
};
Guard guardOf(mlir::Operation *command);
void setGuard(mlir::Operation *command, const Guard &guard);

/// Every kind of memory. The attribute #plan.bytes has one count for each of
/// them, in this order.
inline constexpr MemoryKind memoryKinds[] = {
    MemoryKind::Device, MemoryKind::Host, MemoryKind::Pinned, MemoryKind::File};

} // namespace heddle::planir

#include "dialects/Plan/PlanInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Plan/PlanTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.h.inc"

#endif // HEDDLE_DIALECTS_PLAN_PLANDIALECT_H
