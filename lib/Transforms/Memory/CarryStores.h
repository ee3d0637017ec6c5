//===- CarryStores.h - Stores that the next run waits for -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_CARRYSTORES_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_CARRYSTORES_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::memory {

/// Leaves the last stores to files of a step, behind its last layer, to the
/// next run, which waits for them one after the other while its first layers
/// run. As many as `fits` allows, which is asked with the stores in question
/// left; none of a pipeline stage. Returns how many are left.
size_t carryStores(nn::StepOp step, const mlir::SymbolTable &symbols,
                   llvm::function_ref<bool()> fits);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_CARRYSTORES_H
