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

/// Returns the nearest call of a layer in the same MLIR block as `op`: the one
/// before `op` if `before` is true, otherwise the one after it. Null if there
/// is none.
inline nn::CallOp neighbour(mlir::Operation *op, bool before) {
  while ((op = before ? op->getPrevNode() : op->getNextNode()))
    if (auto call = llvm::dyn_cast<nn::CallOp>(op))
      return call;
  return {};
}

/// Returns the body of a step, followed by the bodies of its loops, or of the
/// forward and backward passes of a pipeline stage.
llvm::SmallVector<mlir::Block *> blocksOf(nn::StepOp step);

/// Inserts waits for the stores of an MLIR block. The wait for a store comes
/// after the layer that follows the store, so that the store overlaps with this
/// layer. If no layer follows, the wait is at the end of the MLIR block.
void waitForStores(mlir::Block &block,
                   llvm::SmallVector<mlir::Operation *> stores);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERS_H
