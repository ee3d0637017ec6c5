//===- VerifyText.h - Whether a plan says what it must ----------*- C++ -*-===//
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

/// Where a state or flat tensor stands.
std::pair<planir::MemoryKind, int64_t> placeOf(const mlir::SymbolTable &symbols,
                                               planir::StateRefOp reference);

/// Checks what needs no knowledge of bytes: states and ports are parts of their
/// wholes, sequences hold commands alone, there is one program of a kind, and
/// commands can reach the memory that they use.
mlir::LogicalResult verifyText(planir::ProgramOp program);

} // namespace heddle::memory

#endif // HEDDLE_TRANSFORMS_MEMORY_VERIFYTEXT_H
