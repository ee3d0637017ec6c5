//===- RowsForm.h - The loops of kernels over rows --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RowsForm arranges the operations of a kernel in loops, from which the CPU and
// GPU back ends emit code. It is for kernels that consist of element-wise
// operations and reductions over the last dimension.
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
  /// The operation in the reduction's body that combines two values, such as an
  /// addition.
  mlir::Operation *combiner;
  /// The neutral element of `combiner`, such as 0 for an addition.
  mlir::TypedAttr neutral;
  /// Whether the reduction's initial value is `neutral`.
  bool startsNeutral;
};

/// A round: one loop over the columns of a row.
struct RowRound {
  int64_t extent; ///< The number of columns.
  /// Reductions computed in this loop. They depend only on reductions that
  /// earlier loops compute.
  llvm::SmallVector<RowReduction> reductions;
  /// The indices of the kernel's results that this loop stores. These results
  /// have one element per column.
  llvm::SmallVector<unsigned> stores;
};

/// The loops of a kernel of element-wise operations and reductions over the
/// last dimension. The kernel's body has been lowered to linalg.
///
/// A kernel whose values all have one shape, without padding between rows, is
/// flat: one loop over its elements. Otherwise each row (an index of all
/// dimensions but the last) is computed independently, in this order:
///  1. The rounds (loops over the row's columns) that compute reductions.
///  2. The results with one value per row.
///  3. The final rounds, which compute the other results and no reductions.
///     These results may overwrite arguments.
///  4. The stores of the results with one value per row.
/// A round that computes reductions may store a result that later rounds read.
/// Other values that several rounds need are recomputed in each of them. Before
/// its final rounds, each row adds its terms to the column sums (sums over
/// rows, with one element for each column). Results that depend on column sums
/// are computed after all rows.
class RowsForm {
public:
  /// Finds the loops of `kernel`. Reports an error if these loops cannot
  /// compute the kernel.
  static mlir::FailureOr<RowsForm> of(planir::KernelOp kernel);
  /// Finds the loops that compute `tensors`, values of the kernel's body, as if
  /// the kernel had no other results. The result is never flat: it always
  /// loops over rows.
  static mlir::FailureOr<RowsForm> ofRows(planir::KernelOp kernel,
                                          mlir::ValueRange tensors);

  bool isFlat() const { return flat; }
  /// The sizes of all dimensions but the last. An index into these dimensions
  /// selects a row.
  llvm::ArrayRef<int64_t> rowDims() const { return dims; }
  int64_t rows() const;
  /// The loops over columns that compute reductions. If such a loop stores a
  /// result, later loops load the result from memory instead of recomputing it.
  /// Results that later loops read at other columns (`isReadAtOtherColumns`)
  /// are recomputed.
  llvm::ArrayRef<RowRound> reductionRounds() const { return reducing; }
  llvm::ArrayRef<RowRound> lastRounds() const { return last; }
  /// The loop over columns that adds a row's terms to the column sums (sums
  /// over rows). It computes nothing else.
  const RowRound &columnSums() const { return sums; }
  bool hasColumnSums() const { return !sums.reductions.empty(); }
  /// All loops over columns that compute a row, in the order of execution.
  llvm::SmallVector<const RowRound *> rounds() const;

  /// The tensors that the loops load from memory at their current column:
  /// arguments, and results that earlier loops stored. Maps each tensor to the
  /// number of loops that load it.
  llvm::MapVector<mlir::Value, unsigned> columnReads() const;

  unsigned numResults() const { return results.size(); }
  mlir::Value result(unsigned index) const { return results[index]; }
  /// Whether a result has one value per row.
  bool isRowResult(unsigned index) const;
  /// Whether a result depends on column sums.
  bool isColumnResult(unsigned index) const;
  /// Whether the body of some operation extracts elements of `tensor` by a
  /// computed index. Then a loop over columns may need elements of other
  /// columns than its current one.
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
  llvm::SmallVector<int64_t> ties; ///< The kernel's `ties`, for `results`.
  llvm::SetVector<mlir::Operation *> generics;
  bool flat = false;
  llvm::SmallVector<int64_t> dims;
  llvm::SmallVector<RowRound> reducing, last;
  RowRound sums = {0, {}, {}};
  llvm::DenseMap<mlir::Value, int> depths;
};

/// Emits the combination of two accumulators of a reduction, scalars or
/// vectors.
mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                    const RowReduction &reduction, mlir::Value x,
                    mlir::Value y);

} // namespace heddle::codegen

#endif // HEDDLE_CODEGEN_COMMON_ROWSFORM_H
