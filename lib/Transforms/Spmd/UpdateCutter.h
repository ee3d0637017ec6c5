//===- UpdateCutter.h - Splits updates of buckets ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_UPDATECUTTER_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_UPDATECUTTER_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace heddle::spmd {

/// The operations that write an update's results, in order: writes of states,
/// and what ranks exchange for them. Nothing where others read them.
std::optional<llvm::SmallVector<mlir::Operation *>>
writesOf(nn::UpdateOp update);

/// Makes of updates of buckets, in a step, updates of runs of their members.
/// `symbols` are the model's.
class UpdateCutter {
public:
  UpdateCutter(nn::StepOp step, mlir::SymbolTable &symbols)
      : step(step), symbols(symbols) {}

  /// One update for each run of members, in the place of an update of all; a
  /// run has as many members as `size` elements have room for, and one at
  /// least. The update itself, where its operands are more than reads of
  /// buckets. `writesOf` gives something for it. A run has no gradients that
  /// are in `late` beside others.
  llvm::SmallVector<nn::UpdateOp> cut(nn::UpdateOp update, int64_t size,
                                      const llvm::StringSet<> &late = {});

private:
  nn::BucketOp bucketOf(mlir::Value flat);
  llvm::SmallVector<size_t> countsOf(nn::UpdateOp update, int64_t size,
                                     const llvm::StringSet<> &late);
  nn::BucketOp bucketOfMembers(nn::BucketOp whole, size_t first, size_t count,
                               size_t number);
  nn::UpdateOp writeUpdate(nn::UpdateOp update,
                           llvm::ArrayRef<mlir::OpOperand *> flat,
                           llvm::ArrayRef<nn::SetOp> sets, size_t first,
                           size_t count, size_t number);
  void erase(nn::UpdateOp update, llvm::ArrayRef<mlir::OpOperand *> flat,
             llvm::ArrayRef<nn::SetOp> sets);

  nn::StepOp step;
  mlir::SymbolTable &symbols;
};

} // namespace heddle::spmd

#endif // HEDDLE_LIB_TRANSFORMS_SPMD_UPDATECUTTER_H
