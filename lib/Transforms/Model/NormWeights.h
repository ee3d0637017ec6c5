//===- NormWeights.h - Weights that are computed for norms ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MODEL_NORMWEIGHTS_H
#define HEDDLE_LIB_TRANSFORMS_MODEL_NORMWEIGHTS_H

#include "dialects/NN/NNDialect.h"

namespace heddle {

/// Whether `op` computes a tensor by which only norms multiply, such as Gemma's
/// 1 + w. It stays f32 in every compute precision: norms compute in f32, and 1 +
/// w, rounded, loses most digits of a small w.
inline bool isNormWeight(mlir::Operation *op) {
  return mlir::isa<nn::MapOp>(op) && !op->use_empty() &&
         llvm::all_of(op->getUses(), [](mlir::OpOperand &use) {
           return mlir::isa<nn::RmsNormOp, nn::LayerNormOp>(use.getOwner()) &&
                  use.getOperandNumber() > 0;
         });
}

} // namespace heddle

#endif // HEDDLE_LIB_TRANSFORMS_MODEL_NORMWEIGHTS_H
