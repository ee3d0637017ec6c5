//===- RowsForm.h - What a kernel over rows computes, and when --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_COMMON_ROWSFORM_H
#define HEDDLE_CODEGEN_COMMON_ROWSFORM_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::codegen {

/// A reduction over the last dimension.
struct RowReduction {
  mlir::linalg::GenericOp op;
  /// The operation of its body that combines two values: of them none changes
  /// another when it is combined with `neutral`.
  mlir::Operation *combiner;
  mlir::TypedAttr neutral;
  /// Whether the running value begins as that.
  bool startsNeutral;
};

/// One loop over the columns of a row.
struct RowRound {
  int64_t extent; ///< Columns.
  /// They depend on reductions of earlier rounds only.
  llvm::SmallVector<RowReduction> reductions;
  /// Results of one element per column that are made in this loop.
  llvm::SmallVector<unsigned> stores;
};

/// A kernel of the generator `rows`, whose body is linalg by now, as loops. A
/// kernel whose values are all of one shape, without gaps between rows, is
/// flat: one loop over its elements. Otherwise each row (all dimensions but the
/// last) is worked on by itself: reductions run in rounds, then the results of
/// one value per row are computed, then the last rounds make the other results,
/// which may overwrite arguments. At the end the results of the row are stored.
/// Between rounds nothing is stored but results that are read again; everything
/// else is computed again where it is needed. Sums over rows, of one element
/// for each column, take their terms before the last rounds; what results are
/// of them is known when all rows are done.
class RowsForm {
public:
  /// Reports on the kernel what is no work on rows.
  static mlir::FailureOr<RowsForm> of(planir::KernelOp kernel);
  /// The same of tensors of the kernel, which are the only results here, row
  /// by row even where a flat loop would do.
  static mlir::FailureOr<RowsForm> ofRows(planir::KernelOp kernel,
                                          mlir::ValueRange tensors);

  bool isFlat() const { return flat; }
  /// The dimensions that count rows.
  llvm::ArrayRef<int64_t> rowDims() const { return dims; }
  int64_t rows() const;
  /// The rounds with reductions. A result that one of them stores is read back
  /// from then on, at the same columns unless `isReadAtOtherColumns`.
  llvm::ArrayRef<RowRound> reductionRounds() const { return reducing; }
  llvm::ArrayRef<RowRound> lastRounds() const { return last; }
  /// The sums over rows; nothing else is in that round.
  const RowRound &columnSums() const { return sums; }
  bool hasColumnSums() const { return !sums.reductions.empty(); }
  /// Every round, in order.
  llvm::SmallVector<const RowRound *> rounds() const;

  /// The arguments, and the results that a round stored before, that rounds
  /// read at their own columns, and in how many rounds each is.
  llvm::MapVector<mlir::Value, unsigned> columnReads() const;

  unsigned numResults() const { return results.size(); }
  mlir::Value result(unsigned index) const { return results[index]; }
  /// Whether a result has one value per row.
  bool isRowResult(unsigned index) const;
  /// Whether a result is made of sums over rows.
  bool isColumnResult(unsigned index) const;
  /// Whether a body extracts elements of `tensor`: of any column.
  static bool isReadAtOtherColumns(mlir::Value tensor);

private:
  RowsForm(planir::KernelOp kernel, mlir::ValueRange results,
           llvm::ArrayRef<int64_t> ties);

  bool findFlat();
  mlir::LogicalResult findLoops();
  mlir::LogicalResult findRounds();
  mlir::LogicalResult addReduction(mlir::linalg::GenericOp op);
  mlir::LogicalResult addColumnSum(mlir::linalg::GenericOp op);
  mlir::LogicalResult setRowDims(llvm::ArrayRef<int64_t> own);
  mlir::LogicalResult findRows();
  void placeResults();
  bool mayStoreEarly(unsigned index);
  int depthOf(mlir::Value value);

  planir::KernelOp kernel;
  llvm::SmallVector<mlir::Value> results;
  llvm::SmallVector<int64_t> ties; ///< As a kernel's, of the results.
  llvm::SetVector<mlir::Operation *> generics;
  bool flat = false;
  llvm::SmallVector<int64_t> dims;
  llvm::SmallVector<RowRound> reducing, last;
  RowRound sums = {0, {}, {}};
  llvm::DenseMap<mlir::Value, int> depths;
};

/// Combines two accumulators of a reduction, scalars or vectors.
mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                    const RowReduction &reduction, mlir::Value x,
                    mlir::Value y);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_ROWSFORM_H
