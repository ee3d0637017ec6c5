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

/// Returns the mesh axes that split a tensor, or over which it is a partial
/// sum.
Axes axesOf(dist::TensorShardingAttr sharding);

/// Returns the address at which the memory of kind `memory` begins in an
/// address space of traces. Such an address space contains the device's memory,
/// then the host's memory, then the files of offloaded states. `bytes` has
/// their sizes.
int64_t firstOf(planir::BytesAttr bytes, planir::MemoryKind memory);

/// Returns the first byte of a state or flat tensor in the persistent address
/// space, which contains all memory that lives across steps.
int64_t firstOf(const mlir::SymbolTable &symbols, llvm::StringRef state);

/// Returns the mesh axes that split the rows of the embedding table at byte
/// `begin` of the persistent address space (memory that lives across steps).
std::vector<std::string> rowAxesAt(planir::ProgramOp program, int64_t begin);

/// Returns all states of a program, sorted by their first byte.
std::vector<State> statesOf(planir::ProgramOp program);

/// Returns the parameters and the states that have one element for each element
/// of a parameter, for example gradients. They are sorted by their first byte.
std::vector<Member> membersOf(planir::ProgramOp program);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_PROGRAMSTATES_H
