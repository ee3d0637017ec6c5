//===- TokenRegions.h - What goes over tokens one by one --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An MLP computes each token by itself, and so does the vocabulary head with
// its loss. What such operations hand to each other can be made and forgotten
// for some tokens at a time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H
#define HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

/// Whether the operation is a matrix product or attention: dear to compute
/// again.
bool isProduct(mlir::Operation *op);

/// Which operands and results of an operation have a part for each token. The
/// other results are sums over tokens.
struct TokenSplit {
  llvm::BitVector operands, results;
};

/// Operations of a block between matrix products, with these products, that
/// compute each token by itself, or sum over tokens.
struct TokenRegion {
  int64_t rows = 0;   ///< Of the batch.
  int64_t tokens = 0; ///< Positions of a row.
  /// In the order of the block.
  llvm::SetVector<mlir::Operation *> ops;
  /// Values [rows, tokens, ...] that only operations of the region read.
  llvm::DenseSet<mlir::Value> inner;

  /// How `op` goes over the region's tokens; nothing where it does not compute
  /// them one by one: attention, for one, or dropout, whose random numbers
  /// depend on where in the batch a token is.
  std::optional<TokenSplit> splitOf(mlir::Operation *op) const;
};

/// The regions of a block, in its order. They share no operation, and nothing
/// outside of a region stands between two of its operations in the flow of
/// values. A result of rank 2, such as the losses of tokens, may be read
/// outside; a wider one only if a product makes it that ends the region.
llvm::SmallVector<TokenRegion> findTokenRegions(mlir::Block &block);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H
