//===- Layers.h - Calls of layers in a block --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_LAYERS_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_LAYERS_H

#include "dialects/NN/NNDialect.h"

namespace heddle::spmd {

/// Returns the nearest call of a layer before or after an operation of the same
/// block, or null.
inline nn::CallOp neighbour(mlir::Operation *op, bool before) {
  while ((op = before ? op->getPrevNode() : op->getNextNode()))
    if (auto call = llvm::dyn_cast<nn::CallOp>(op))
      return call;
  return {};
}

/// Returns the body of a step, then the bodies of the loops and pipeline passes
/// in it.
llvm::SmallVector<mlir::Block *> blocksOf(nn::StepOp step);

/// Inserts waits for the stores of a block. Each store is waited for after the
/// layer that follows it, or at the end of the block: so it overlaps with that
/// layer.
void waitForStores(mlir::Block &block,
                   llvm::SmallVector<mlir::Operation *> stores);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERS_H
