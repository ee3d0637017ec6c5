//===- TokenRegions.h - What goes over tokens one by one --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds adjacent operations that compute each token independently, such as
// those of an MLP, or of the vocabulary head and its loss. Used by
// spmd-chunk-tokens, which computes such operations for a few tokens at a time.
// That saves memory, because values between the operations then exist only for
// these tokens.
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
/// Results that are not listed here are sums over tokens.
struct TokenSplit {
  llvm::BitVector operands, results;
};

/// Matrix products of an MLIR block and the operations between them. All of
/// these compute each token independently or sum over tokens.
struct TokenRegion {
  int64_t rows = 0;   ///< The number of rows of the batch.
  int64_t tokens = 0; ///< The number of tokens in a row.
  /// The operations of the region, in the order of the MLIR block.
  llvm::SetVector<mlir::Operation *> ops;
  /// Values of shape [rows, tokens, ...] that only operations of the region
  /// read.
  llvm::DenseSet<mlir::Value> inner;

  /// The operands and results of `op` that have one slice for each token.
  /// Returns nullopt if `op` does not compute tokens independently. Attention
  /// does not, and neither does dropout, because its random numbers depend on a
  /// token's position in the batch.
  std::optional<TokenSplit> splitOf(mlir::Operation *op) const;
};

/// Finds the regions of a block, in the order of the block.
/// - Regions have no operation in common.
/// - If an operation outside of a region reads a result of the region, no
///   operation of the region depends on that operation. So the region can run
///   as a whole.
/// - Results of rank 2, such as the losses of tokens, may be read outside of
///   the region. A result of higher rank may be read outside only if the
///   product that ends the region computes it.
llvm::SmallVector<TokenRegion> findTokenRegions(mlir::Block &block);

} // namespace heddle

#endif // HEDDLE_TRANSFORMS_COMMON_TOKENREGIONS_H
