//===- CarryStores.h - Leaves last stores to the next run -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used by `memory-plan` for a step that ends with stores to files: the step
// need not wait for these stores, because they can continue during the next
// step.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_CARRYSTORES_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_CARRYSTORES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::memory {

/// Lets the writes to files at the end of a step continue during the next step,
/// which waits for them one after the other while its first layers run. `fits`
/// returns whether the step, as it is at the call, fits the memory budget. As
/// many writes continue as fit. Steps of a pipeline stage are not changed.
/// Returns how many writes continue.
size_t carryStores(nn::StepOp step, const mlir::SymbolTable &symbols,
                   llvm::function_ref<bool()> fits);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_CARRYSTORES_H
