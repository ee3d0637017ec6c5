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
