//===- VerifyText.h - Checks of a plan that need no offsets -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_MEMORY_VERIFYTEXT_H
#define HEDDLE_TRANSFORMS_MEMORY_VERIFYTEXT_H

#include "dialects/Plan/PlanDialect.h"

namespace heddle::memory {

/// Returns the kind of memory and the offset of a state, or of a bucket's flat
/// tensor.
std::pair<planir::MemoryKind, int64_t> placeOf(const mlir::SymbolTable &symbols,
                                               planir::StateRefOp reference);

/// Checks all properties of a plan that do not depend on offsets. The types of
/// states, inputs and outputs must be those of shards. Sequences must consist
/// of commands, and step programs must take no arguments. Commands may use only
/// kinds of memory that they can reach.
mlir::LogicalResult verifyText(planir::ProgramOp program);

} // namespace heddle::memory

#endif // HEDDLE_TRANSFORMS_MEMORY_VERIFYTEXT_H
