//===- Prefetch.h - Starts fetches early ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used by `memory-plan`, which knows how many bytes a step needs: fetches move
// ahead of their use as long as the step fits the memory budget.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_PREFETCH_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_PREFETCH_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::memory {

/// Moves the fetches of offloaded states of a step. `fits` returns whether the
/// step, with its fetches where they are at the call, fits into memory. If the
/// original step does not fit, nothing moves.
///
/// First it moves the fetches of state tiles that optimizer updates read. The
/// fetches of the first tiles move to the beginning of the MLIR block, or to
/// directly before a loop that precedes them. They pass no other fetch or
/// store. Then the fetches of each later tile move to where the fetches of an
/// earlier tile were, as many tiles ahead as `fits` allows. No fetch passes a
/// store of the same bytes.
///
/// Then it moves the fetches of layers, as many layers ahead as `fits` and the
/// user's limits on parameters in memory allow. Parameters that are read twice
/// are fetched again after the first use.
///
/// Returns how many tiles and layers have fetches that moved.
size_t prefetch(nn::StepOp step, const mlir::SymbolTable &symbols,
                llvm::function_ref<bool()> fits);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_PREFETCH_H
