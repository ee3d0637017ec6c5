//===- CutLayer.h - Splits a layer at some operations -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used by `spmd-tile-products`, which computes a layer's products by row tiles
// in the caller and needs the rest of the layer as functions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::spmd {

/// One of the consecutive steps of a layer that was split at some of its matrix
/// products. A step is either one of these products, or a call of a function
/// with the operations before, between or after them.
struct LayerStep {
  /// The matrix product of this step. Null if the step calls the function
  /// `piece` instead.
  mlir::Operation *product = nullptr;
  nn::FuncOp piece;
  /// The values of the layer that the function `piece` takes as arguments, and
  /// the values that it returns.
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Splits a layer at some of its matrix products. The operations before,
/// between and after them are copied into new functions, which are added to
/// `symbols`. The layer itself does not change. Returns all steps in order.
llvm::SmallVector<LayerStep>
cutLayer(nn::FuncOp layer, llvm::ArrayRef<mlir::Operation *> products,
         mlir::SymbolTable &symbols);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H
