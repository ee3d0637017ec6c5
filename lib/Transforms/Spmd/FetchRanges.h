//===- FetchRanges.h - States that are fetched together ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The element of a flat state that a state begins at.
struct BucketOffset {
  nn::BucketOp bucket;
  int64_t first = 0;
};
using BucketOffsets = llvm::StringMap<BucketOffset>;

/// Of the flat states that are not in the device's memory, and of their
/// members: gradients, or all others.
BucketOffsets bucketOffsetsOf(nn::ModelOp model,
                              const mlir::SymbolTable &symbols, bool gradients);

/// States that stand side by side, and are fetched at once.
struct FetchRange {
  nn::BucketOp bucket;
  int64_t first = 0, end = 0;           ///< Elements of the bucket.
  llvm::SmallVector<nn::GetOp> members; ///< One, of the bucket; or by offsets.
};

/// What those operations read, by the names of what they read; states that are
/// no more than `mostBetween` bytes apart make one run.
std::vector<FetchRange> fetchRangesOf(const llvm::StringMap<nn::GetOp> &gets,
                                      const BucketOffsets &offsets,
                                      int64_t mostBetween);

/// Whether an embedding fetches the rows of its tokens, and not its table,
/// which begins at an element of a flat state that is not in the device's
/// memory: if they are fewer bytes, and no row is larger than what is copied.
bool fetchesRows(nn::EmbeddingOp embedding, int64_t element);

/// The members of a run that is in the device's memory, `whole` being what
/// stands there from element `first` of its bucket on. What is before, between
/// and behind them is a part too, which nothing reads.
llvm::SmallVector<mlir::Value> unpack(mlir::OpBuilder &builder,
                                      mlir::Location loc, const FetchRange &run,
                                      const BucketOffsets &offsets,
                                      mlir::Value whole, int64_t first);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_FETCHRANGES_H
