//===- FetchRanges.h - States that are fetched together ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the positions of offloaded parameters and gradients in their buckets,
// and merges adjacent ones into ranges that one transfer moves. Used by the
// passes that insert these transfers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_FETCHRANGES_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_FETCHRANGES_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace heddle::spmd {

/// The position of a state in a bucket: the bucket, and the index of the
/// state's first element in it.
struct BucketOffset {
  nn::BucketOp bucket;
  int64_t first = 0;
};
using BucketOffsets = llvm::StringMap<BucketOffset>;

/// Maps the name of each member of an offloaded bucket to the bucket and the
/// index of the member's first element in it. Also maps the name of each
/// offloaded bucket to the bucket itself and index 0. If `gradients` is true,
/// considers only buckets of gradients, otherwise only all other buckets.
BucketOffsets bucketOffsetsOf(nn::ModelOp model,
                              const mlir::SymbolTable &symbols, bool gradients);

/// A range of elements of a bucket that one transfer fetches, and the
/// operations that read states in this range.
struct FetchRange {
  nn::BucketOp bucket;
  int64_t first = 0, end = 0; ///< The elements [first, end) of the bucket.
  /// The operations that read the states in the range, in the order of the
  /// states' positions. If one operation reads all elements of `bucket` as a
  /// single state, the range is [0, number of elements) and this operation is
  /// the only entry.
  llvm::SmallVector<nn::GetOp> members;
};

/// Groups reads of offloaded states into ranges that are fetched with one
/// transfer each. States at most `mostBetween` bytes apart share a range.
std::vector<FetchRange> fetchRangesOf(const llvm::StringMap<nn::GetOp> &gets,
                                      const BucketOffsets &offsets,
                                      int64_t mostBetween);

/// Whether an embedding fetches only the rows of its tokens instead of the
/// complete table. It does so if a row has at most `mostRowBytes`, and if
/// fetching the rows transfers fewer bytes than fetching the table. How many
/// bytes must be transferred for a row also depends on `element`, the index of
/// the table's first element in an offloaded bucket.
bool fetchesRows(nn::EmbeddingOp embedding, int64_t element);

/// Unpacks the states that `run.members` reads from `whole`, a value that holds
/// the bucket's elements from `first` on. The elements before, between and
/// after these states become unused results of the nn.unpack.
llvm::SmallVector<mlir::Value> unpack(mlir::OpBuilder &builder,
                                      mlir::Location loc, const FetchRange &run,
                                      const BucketOffsets &offsets,
                                      mlir::Value whole, int64_t first);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_FETCHRANGES_H
