//===- TokenRegions.h - What goes over tokens one by one --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An MLP computes each token by itself, and so does the vocabulary head with
// its loss. Values between such operations can be computed for a few tokens at
// a time, which saves memory (spmd-chunk-tokens).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H
#define HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {

/// Whether the operation is a matrix product or attention, which are expensive
/// to recompute.
bool isProduct(mlir::Operation *op);

/// The operands and results of an operation that have a slice for each token.
/// The other results are sums over tokens.
struct TokenSplit {
  llvm::BitVector operands, results;
};

/// Matrix products of a block, and the operations between them, that compute
/// each token by itself or sum over tokens.
struct TokenRegion {
  int64_t rows = 0;   ///< Rows of the batch.
  int64_t tokens = 0; ///< Tokens of a row.
  /// In the order of the block.
  llvm::SetVector<mlir::Operation *> ops;
  /// Values [rows, tokens, ...] that only operations of the region read.
  llvm::DenseSet<mlir::Value> inner;

  /// How `op` splits by the region's tokens. Nothing if it does not compute
  /// tokens independently, as attention, or dropout, whose random numbers
  /// depend on the position of a token in the batch.
  std::optional<TokenSplit> splitOf(mlir::Operation *op) const;
};

/// The regions of a block, in its order. Regions share no operation, and no
/// operation outside of a region is on a path of values between two operations
/// of the region. Results of rank 2, such as the losses of tokens, may be read
/// outside of the region; results of higher rank only if a product that ends
/// the region makes them.
llvm::SmallVector<TokenRegion> findTokenRegions(mlir::Block &block);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H
