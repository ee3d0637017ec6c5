//===- Prefetch.h - Starts fetches early ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_PREFETCH_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_PREFETCH_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::memory {

/// Moves the fetches of windows on file that a step's updates read: the first
/// ones to the begin of the block, or of the loop before them, and then each to
/// where one stood that is as many windows before it as `fits` allows. `fits`
/// is asked with the fetches in their places, of those that they have at first
/// too: where these do not fit, nothing is moved. No fetch passes a store of
/// the same bytes, nor do the first ones pass what else is fetched or stored.
/// Then those of what layers read, in their order: while one layer runs, that
/// of so many further on, as `fits` and the strategy's limits of parameters
/// allow. What is read twice is fetched again when it was read. Returns how
/// many windows, and layers with fetches, were moved.
size_t prefetch(nn::StepOp step, const mlir::SymbolTable &symbols,
                llvm::function_ref<bool()> fits);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_PREFETCH_H
