//===- ProgramStates.h - States of a plan, for traces -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_PROGRAMSTATES_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_PROGRAMSTATES_H

#include "dialects/Plan/PlanFormat.h"
#include "heddle/Transforms/Prove/Traces.h"

namespace heddle::prove {

/// The axes that split a tensor, or over which it is a partial sum.
Axes axesOf(dist::TensorShardingAttr sharding);

/// The first byte of a kind of memory in its Space: the kinds lie one behind
/// the other.
int64_t firstOf(planir::BytesAttr bytes, planir::MemoryKind memory);

/// The first byte of a state or flat tensor, in Space::Persistent.
int64_t firstOf(const mlir::SymbolTable &symbols, llvm::StringRef state);

/// The axes that split the rows of the table that begins at a byte of
/// Space::Persistent.
std::vector<std::string> rowAxesAt(planir::ProgramOp program, int64_t begin);

/// All states of a program, sorted by their first byte.
std::vector<State> statesOf(planir::ProgramOp program);

/// The states that have one element for each element of a parameter, sorted by
/// their first byte.
std::vector<Member> membersOf(planir::ProgramOp program);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_PROGRAMSTATES_H
