//===- UpdateCutter.h - Splits updates of buckets ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits the optimizer's update of a bucket into several updates, each for some
// of the bucket's parameters. Passes use this if only some of the parameters
// can be updated early, or by the host.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SPMD_UPDATECUTTER_H
#define HEDDLE_LIB_TRANSFORMS_SPMD_UPDATECUTTER_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace heddle::spmd {

/// Returns the operations that write an optimizer update's results to states,
/// and the all-gathers before these writes, in order. Returns nullopt if any
/// other operation uses the results.
std::optional<llvm::SmallVector<mlir::Operation *>>
writesOf(nn::UpdateOp update);

/// Splits the optimizer update of a bucket into several updates, each for a
/// range of the bucket's parameters. `symbols` is the model's symbol table.
class UpdateCutter {
public:
  UpdateCutter(nn::StepOp step, mlir::SymbolTable &symbols)
      : step(step), symbols(symbols) {}

  /// Replaces the update of a bucket by updates of ranges of its parameters,
  /// and returns the new updates. A range has at most `size` elements, unless
  /// it is a single parameter. `late` has the names of gradients that are
  /// written only after the loop over micro-batches: a range has either only
  /// such gradients or none. Returns the update unchanged if it has only one
  /// range, or if it reads other values than whole buckets. Requires that
  /// `writesOf(update)` has a value.
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
