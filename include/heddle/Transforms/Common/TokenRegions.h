//===- TokenRegions.h - What goes over tokens one by one --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds operations, such as those of an MLP or of the vocabulary head and its
// loss, that compute each token independently. Values between them can be
// computed for a few tokens at a time, which saves memory. Used by
// spmd-chunk-tokens.
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

/// The operands and results of an operation that have one slice for each token.
/// Results that are not listed are sums over tokens.
struct TokenSplit {
  llvm::BitVector operands, results;
};

/// Matrix products of a block and the operations between them. All of these
/// compute each token independently or sum over tokens.
struct TokenRegion {
  int64_t rows = 0;   ///< Rows of the batch.
  int64_t tokens = 0; ///< Tokens of a row.
  /// In the order of the block.
  llvm::SetVector<mlir::Operation *> ops;
  /// Values of shape [rows, tokens, ...] that only operations of the region
  /// read.
  llvm::DenseSet<mlir::Value> inner;

  /// The operands and results of `op` that have one slice for each token.
  /// Returns nullopt if `op` does not compute tokens independently: attention,
  /// and dropout, whose random numbers depend on a token's position in the
  /// batch.
  std::optional<TokenSplit> splitOf(mlir::Operation *op) const;
};

/// The regions of a block, in its order.
/// - Regions have no operation in common.
/// - No operation outside of a region depends on one operation of the region
///   and feeds another.
/// - Results of rank 2, such as the losses of tokens, may be read outside of
///   the region. Results of higher rank may be only if the product that ends
///   the region computes them.
llvm::SmallVector<TokenRegion> findTokenRegions(mlir::Block &block);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H
