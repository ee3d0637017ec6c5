//===- ColumnSums.h - Columns summed by a block of threads ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over the rows of a matrix, for each column. MapColumns.cpp, RowSums.cpp
// and MapScatter.cpp use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_COLUMNSUMS_H
#define HEDDLE_LIB_CODEGEN_GPU_COLUMNSUMS_H

#include "BlockReduce.h"

namespace heddle::gpu {

/// Which columns and rows each thread of a block sums. The `across` threads of
/// a group have adjacent columns, and the block's `below` groups have different
/// rows.
struct ColumnTile {
  static constexpr int64_t threads = 256;

  ColumnTile(int64_t columns, int64_t width, int64_t mostAcross = warpSize)
      : columns(columns), width(width),
        across(std::min<int64_t>(
            mostAcross, llvm::PowerOf2Ceil(llvm::divideCeil(columns, width)))),
        below(threads / across), blocks(llvm::divideCeil(columns, size())) {}

  int64_t size() const { return across * width; } ///< Columns of a block.
  /// The first column of this thread, if the thread belongs to the block with
  /// index `block`.
  mlir::Value column(KernelFrame &f, mlir::Value block) const;

  int64_t columns;
  int64_t width;  ///< Adjacent columns of a thread.
  int64_t across; ///< Number of threads that share a row of the block.
  int64_t below;  ///< Number of threads that share a column of the block.
  int64_t blocks; ///< Number of blocks that together have all columns.
};

/// The columns and rows that one block sums.
struct ColumnWork {
  mlir::Value block;      ///< Index of the block's columns among those of the
                          ///< tile's `blocks` blocks.
  mlir::Value begin, end; ///< The range of rows that the block sums.
};

/// Emits the sums after one more row: `running`, the sums so far, plus the
/// terms of the row. A thread has several sums for each of its columns. The
/// values are ordered by the index of the sum, then by column.
using ColumnTerms =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        mlir::Value row, const Chunk &chunk, mlir::ValueRange running)>;
/// Emits the code that uses the finished sums of one column.
using ColumnResults = llvm::function_ref<mlir::LogicalResult(
    mlir::Value column, llvm::ArrayRef<mlir::Value> sums)>;

/// Emits code that computes `count` sums over rows in f32, for each column of
/// the block. The order of additions depends only on the number of rows. All
/// threads of the block must execute the emitted code. The callback `results`
/// emits the code that uses the sums of one column: one thread for each column
/// executes that code.
mlir::LogicalResult sumColumns(KernelFrame &f, const ColumnTile &tile,
                               const ColumnWork &work, size_t count,
                               ColumnTerms terms, ColumnResults results);

/// The second half of sumColumns: adds the sums of threads that have the same
/// columns and different rows. `own` has this thread's sums for its columns of
/// the block with the index `block`, ordered by the index of the sum, then by
/// column. `memory` is workgroup memory from `columnMemory`. Other threads may
/// still read it after the emitted code, so that a barrier must precede its
/// next use.
mlir::LogicalResult addColumnSums(KernelFrame &f, const ColumnTile &tile,
                                  mlir::Value block,
                                  llvm::ArrayRef<mlir::Value> own,
                                  mlir::Value memory, ColumnResults results);
/// Allocates the workgroup memory through which threads add `count` sums for
/// each column of a tile.
mlir::Value columnMemory(KernelFrame &f, const ColumnTile &tile, size_t count);

/// The partial sums that blocks write to the kernel's scratch memory in f32,
/// and that a second launch adds. For each of the `sums` sums there are `parts`
/// rows of `columns` partial sums.
struct SumParts {
  int64_t parts, columns, sums;
  int64_t scratchBytes() const {
    return parts * columns * sums * static_cast<int64_t>(sizeof(float));
  }
  /// Returns the buffer of the partial sums of the sum with index `sum`. Its
  /// first dimension has `parts` elements. The other dimensions are `shape` and
  /// have `columns` elements together.
  mlir::Value of(KernelFrame &f, int64_t sum,
                 llvm::ArrayRef<int64_t> shape) const;
};

/// Emits the code that uses the finished sums of one column. It is emitted into
/// the function of the second launch.
using PartResults = llvm::function_ref<mlir::LogicalResult(
    KernelFrame &f, mlir::Value column, llvm::ArrayRef<mlir::Value> sums)>;

/// Adds the second launch, which adds the partial sums of each column in the
/// order of the blocks that wrote them.
mlir::LogicalResult addSumOfParts(MappedKernel &mapped, planir::KernelOp kernel,
                                  mlir::gpu::GPUModuleOp module,
                                  const SumParts &parts, PartResults results);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_COLUMNSUMS_H
