//===- CutLayer.h - A layer in pieces around its products -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"

namespace heddle::spmd {

/// What a layer does next: a function of its own, or one product.
struct LayerStep {
  mlir::Operation *product = nullptr; ///< Of the layer; null: `piece`.
  nn::FuncOp piece;
  /// Values of the layer that the piece takes and gives.
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// Makes functions of what stands before, between and behind some of a layer's
/// operations. The layer itself stays.
llvm::SmallVector<LayerStep>
cutLayer(nn::FuncOp layer, llvm::ArrayRef<mlir::Operation *> products,
         mlir::SymbolTable &symbols);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_CUTLAYER_H
