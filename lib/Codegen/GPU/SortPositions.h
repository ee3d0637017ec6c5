//===- SortPositions.h - Positions sorted by row ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stable counting sort in one launch: sorts token positions by the row of the
// embedding table to which each position adds. The result does not depend on
// the order in which threads run. Each block has a range of rows and reads all
// positions twice. First it counts the positions of its rows, and the positions
// of rows of earlier blocks. These counts give the beginning of each of its
// rows in the sorted list. Then it writes the positions of its rows in their
// original order.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H
#define HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H

#include "KernelFrame.h"

namespace heddle::gpu {

/// Sorts `positions` token positions by the row of the embedding table to which
/// each adds, and writes them to the kernel's scratch memory. The table has
/// `rows` rows. Positions that add to no row are sorted to the end, as if they
/// had the row `rows`.
class SortedPositions {
public:
  static constexpr int64_t threads = 1024; ///< Threads of a block.
  /// The indices of `end` and `row` in an element of the list `segments`, which
  /// is a pair (end, row).
  static constexpr int64_t end = 0, row = 1;

  SortedPositions(int64_t positions, int64_t rows);

  int64_t scratchBytes() const { return 3 * listBytes(); }
  int64_t blocks() const;
  /// The sorted positions, i32.
  mlir::Value order(KernelFrame &f) const;
  /// A list of pairs (end, row) of i32, one for each sorted position. In the
  /// pair of the first position that adds to a row of the embedding table,
  /// `row` is the index of this row. `end` is the index in the sorted list
  /// after the last position that adds to the row. All other pairs are (0, 0).
  mlir::Value segments(KernelFrame &f) const;

  /// Emits the row of the embedding table (i32) to which a token position adds,
  /// or the number of rows if it adds to none. The position must exist.
  using RowOf =
      llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value position)>;
  /// Emits the code of a block.
  mlir::LogicalResult emit(KernelFrame &f, RowOf rowOf) const;

private:
  int64_t listBytes() const {
    return llvm::alignTo(positions * sizeof(int32_t), accessBytes);
  }

  int64_t positions, rows;
  int64_t rowsOfBlock; ///< Includes one row more, for positions without one.
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_SORTPOSITIONS_H
