//===- SortPositions.h - Positions sorted by row ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stable counting sort of token positions by the row of the embedding table
// that each adds to, in one launch. The result does not depend on the order in
// which threads run. Each block has a range of rows and reads all positions
// twice. First it counts the positions of its rows and those of rows of earlier
// blocks, which gives the beginning of each row. Then it writes the positions
// of its rows in their order.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H
#define HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H

#include "KernelFrame.h"

namespace heddle::gpu {

/// Sorts `positions` positions by their rows into the kernel's scratch memory.
/// There are `rows` rows; positions without a row count as one row more.
class SortedPositions {
public:
  static constexpr int64_t threads = 1024; ///< Threads of a block.
  /// Indices in an entry of `segments`: the end of the row's positions, and the
  /// row.
  static constexpr int64_t end = 0, row = 1;

  SortedPositions(int64_t positions, int64_t rows);

  int64_t scratchBytes() const { return 3 * listBytes(); }
  int64_t blocks() const;
  /// The sorted positions, i32.
  mlir::Value order(KernelFrame &f) const;
  /// Pairs of i32, one for each sorted position. At the first position of a
  /// row: the end of the row's positions, and the row. Zeros elsewhere, and at
  /// positions without a row.
  mlir::Value segments(KernelFrame &f) const;

  /// Emits the row, an i32, of an existing position; `rows` if it has none.
  using RowOf =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value position)>;
  /// Emits the code of a block.
  mlir::LogicalResult emit(KernelFrame &f, RowOf rowOf) const;

private:
  int64_t listBytes() const {
    return llvm::alignTo(positions * sizeof(int32_t), accessBytes);
  }

  int64_t positions, rows;
  int64_t rowsOfBlock; ///< Counts the row of positions without a row.
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H
