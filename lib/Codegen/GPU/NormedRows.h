//===- NormedRows.h - Rows that a product's kernel computes -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_NORMEDROWS_H
#define HEDDLE_LIB_CODEGEN_GPU_NORMEDROWS_H

#include "BlockReduce.h"
#include "PackedTiles.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// The rows of x that a product with a packed weight multiplies, if its kernel
/// computes them by a norm. Each block computes all rows, and keeps them in
/// shared memory as RowReader reads them.
///
/// Sums have the order that a kernel of the norm alone has (MapRows.cpp), so
/// that a norm has the same bits in both: a warp does what one of the warps of
/// that kernel's block does, for one row after the other.
class NormedRows {
public:
  using Value = mlir::Value;

  /// `rows` is the operand of the products with the shape `shape`.
  NormedRows(planir::KernelOp kernel, Value rows, const FragmentShape &shape);

  /// Why the rows cannot be computed; "" if they can.
  llvm::StringRef reason() const { return why; }
  /// Bytes of shared memory: of rows, and of what warps exchange.
  int64_t bytes() const { return rowBytes() + slotBytes(); }
  /// Emits the code of a block that computes the rows. Ends with a barrier.
  mlir::LogicalResult emit(KernelFrame &frame, ThreadCode &code, Value memory);

private:
  /// Adjacent columns of a thread.
  struct Columns {
    Value base;
    Value exists;                  ///< Null: all threads have them.
    llvm::SmallVector<Value> kept; ///< Elements of `keptColumns`.
  };
  /// What a warp does for one warp of the norm's own kernel.
  struct Turn {
    Value warpOfRow;                   ///< Which one that is.
    Value exists;                      ///< Null: it always is one.
    llvm::SmallVector<size_t> columns; ///< Indices in `columns`.
  };
  /// A row that a warp computes.
  struct Row {
    Value number; ///< Of type index.
    Value exists; ///< Null: every team has such a row.
    llvm::SmallVector<Value> indices;
    /// Elements of `keptRows` for each of the thread's columns.
    llvm::SmallVector<llvm::SmallVector<Value>> kept;
  };
  /// The rows of a warp among its lanes: adjacent lanes have one of them, whose
  /// sums they add, and of which they compute what all elements need.
  struct LaneRows {
    int64_t ofRow; ///< Lanes of a row, a power of two.
    Value number;  ///< This lane's row; the last one if it does not exist.
    Value exists;
    llvm::SmallVector<Value> indices;
  };

  void findLayout(planir::KernelOp kernel);
  int64_t rowBytes() const;
  int64_t slotBytes() const;
  int64_t numReductions() const;
  int64_t warpsOfRow() const { return threads / warpSize; }
  /// The sums of a reduction in a row, a whole number of accesses.
  int64_t slotsOfRow() const {
    return warpsOfRow() == 1 ? 1 : llvm::alignTo(warpsOfRow(), 4);
  }
  /// Rows that a block computes at once, by a team of warps each.
  int64_t rowsAtOnce() const {
    return std::max<int64_t>(1, shape.warps() / warpsOfRow());
  }
  int64_t turnsOfRow() const {
    return llvm::divideCeil(warpsOfRow(), shape.warps());
  }
  int64_t keptBytes() const;

  void fillWithZeros();
  void findColumns();
  void findRows();
  mlir::LogicalResult load();
  mlir::LogicalResult emitRounds();
  mlir::FailureOr<llvm::SmallVector<Value>>
  partsOf(const codegen::RowRound &round, const Row &row, const Turn &turn);
  mlir::LogicalResult putParts(const codegen::RowRound &round, int64_t slot);
  Value slotOf(int64_t reduction, Value row);
  Value acrossLanes(const codegen::RowReduction &reduction,
                    llvm::SmallVector<Value> values);
  Value totalOf(const codegen::RowReduction &reduction, int64_t slot);
  mlir::LogicalResult defineOfRows(Value value);
  mlir::LogicalResult getTotals(const codegen::RowRound &round, int64_t slot);
  llvm::SmallVector<Value> packed(Value values);
  mlir::LogicalResult store();
  using Body = llvm::function_ref<mlir::FailureOr<llvm::SmallVector<Value>>()>;
  mlir::FailureOr<llvm::SmallVector<Value>> inTeams(mlir::TypeRange types,
                                                    Body body);
  template <typename Emit>
  auto inColumns(const Row &row, size_t column, Emit emit);

  Value tensor;
  const FragmentShape &shape;
  std::optional<codegen::RowsForm> form;
  std::string why;
  int64_t threads = 0, width = 1; ///< Of the norm's own kernel.
  /// Arguments of which a thread keeps elements in registers: those with rows
  /// that are read several times, and those that all rows share.
  llvm::SmallVector<Value> keptRows, keptColumns;

  // While code is emitted:
  KernelFrame *frame = nullptr;
  ThreadCode *code = nullptr;
  Value memory, warp, lane, warpOfRow;
  Value isTeam; ///< Whether this warp has rows; null: all have.
  llvm::SmallVector<Columns> columns;
  llvm::SmallVector<Turn> turns;
  llvm::SmallVector<Row> rows;
  LaneRows lanes;
  /// The operations whose results are defined.
  llvm::SmallPtrSet<mlir::Operation *, 4> known;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_NORMEDROWS_H
