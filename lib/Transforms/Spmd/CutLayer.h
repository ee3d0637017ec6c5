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
  /// What the results of a call of `piece` are if the call is skipped, as in
  /// CallOp::getPasses.
  llvm::SmallVector<int64_t> passes;
};

/// Splits a layer at some of its matrix products. The operations before,
/// between and after them are copied into new functions, which are added to
/// `symbols`. The layer itself does not change. Returns all steps in order.
///
/// `passes` says what the layer's results are if its call is skipped, as in
/// CallOp::getPasses; it is empty if the call is never skipped. A function that
/// computes a result also takes the argument of the layer that the result then
/// equals.
llvm::SmallVector<LayerStep>
cutLayer(nn::FuncOp layer, llvm::ArrayRef<mlir::Operation *> products,
         llvm::ArrayRef<int64_t> passes, mlir::SymbolTable &symbols);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H
