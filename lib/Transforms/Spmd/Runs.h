//===- Runs.h - States side by side that are elsewhere ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_RUNS_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_RUNS_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace heddle::spmd {

/// The element of a flat state that a state begins at.
struct Place {
  nn::BucketOp bucket;
  int64_t first = 0;
};
using Places = llvm::StringMap<Place>;

/// Of the flat states that are not in the device's memory, and of their
/// members: gradients, or all others.
Places placesOf(nn::ModelOp model, const mlir::SymbolTable &symbols,
                bool gradients);

/// States that stand side by side, and are fetched at once.
struct Run {
  nn::BucketOp bucket;
  int64_t first = 0, end = 0;           ///< Elements of the bucket.
  llvm::SmallVector<nn::GetOp> members; ///< One, of the bucket; or by places.
};

/// What those operations read, by the names of what they read; states that are
/// no more than `mostBetween` bytes apart make one run.
std::vector<Run> runsOf(const llvm::StringMap<nn::GetOp> &gets,
                        const Places &places, int64_t mostBetween);

/// Whether an embedding fetches the rows of its tokens, and not its table,
/// which begins at an element of a flat state that is not in the device's
/// memory: if they are fewer bytes, and no row is larger than what is copied.
bool fetchesRows(nn::EmbeddingOp embedding, int64_t element);

/// The members of a run that is in the device's memory, `whole` being what
/// stands there from element `first` of its bucket on. What is before, between
/// and behind them is a part too, which nothing reads.
llvm::SmallVector<mlir::Value> unpack(mlir::OpBuilder &builder,
                                      mlir::Location loc, const Run &run,
                                      const Places &places, mlir::Value whole,
                                      int64_t first);

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_RUNS_H
