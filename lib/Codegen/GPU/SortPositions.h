//===- SortPositions.h - Positions in the order of their rows ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A counting sort in one launch, stable and without an order that threads could
// change. Each block has adjacent rows. It goes over all positions twice: first
// it counts those of earlier rows, and those of each of its own; then it knows
// where each row begins, and puts its positions there, in their order.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H
#define HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H

#include "KernelFrame.h"

namespace heddle::gpu {

/// `positions` numbers, of which each belongs to one of `rows` rows or to none,
/// which is as one more row; sorted in the kernel's scratch memory.
class SortedPositions {
public:
  static constexpr int64_t threads = 1024; ///< Of a block that sorts.
  /// Numbers of a segment: its end and its row.
  static constexpr int64_t end = 0, row = 1;

  SortedPositions(int64_t positions, int64_t rows);

  int64_t scratchBytes() const { return 3 * listBytes(); }
  int64_t blocks() const;
  /// i32: the positions in order.
  mlir::Value order(KernelFrame &f) const;
  /// 2 x i32: at the place of the first position of each row, the place where
  /// those of the row end, and the row; zeros at other places, and at those of
  /// positions that belong to none.
  mlir::Value segments(KernelFrame &f) const;

  /// Emits the row, an i32, of a position that exists; `rows` if it has none.
  using RowOf =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value position)>;
  /// Writes what a block of the launch does.
  mlir::LogicalResult emit(KernelFrame &f, RowOf rowOf) const;

private:
  int64_t listBytes() const {
    return llvm::alignTo(positions * sizeof(int32_t), accessBytes);
  }

  int64_t positions, rows;
  int64_t rowsOfBlock; ///< With that of positions without a row.
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H
