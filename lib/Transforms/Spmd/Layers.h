//===- Layers.h - The layers around an operation ----------------*- C++ -*-===//
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

/// The nearest instance of a layer before or behind an operation of the same
/// block, or null.
inline nn::CallOp neighbour(mlir::Operation *op, bool before) {
  while ((op = before ? op->getPrevNode() : op->getNextNode()))
    if (auto call = llvm::dyn_cast<nn::CallOp>(op))
      return call;
  return {};
}

/// Waits for stores of a block: each is done before the layer after the next
/// one begins, or at the block's end.
void flushBehindLayers(mlir::Block &block,
                       llvm::SmallVector<mlir::Operation *> stores);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_LAYERS_H
