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

/// One step of a layer: a product, or a function that computes the operations
/// between two products.
struct LayerStep {
  /// The layer's product; null if this step is the function `piece`.
  mlir::Operation *product = nullptr;
  nn::FuncOp piece;
  /// Values of the layer that the function takes and returns.
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Makes functions of the operations before, between and after the `products`
/// of a layer, and adds them to `symbols`. The layer itself is not changed.
/// Returns the layer's steps in their order.
llvm::SmallVector<LayerStep>
cutLayer(nn::FuncOp layer, llvm::ArrayRef<mlir::Operation *> products,
         mlir::SymbolTable &symbols);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H
