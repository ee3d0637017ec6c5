//===- ColumnSums.h - Columns summed by a block of threads ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_COLUMNSUMS_H
#define HEDDLE_LIB_CODEGEN_GPU_COLUMNSUMS_H

#include "BlockReduce.h"

namespace heddle::gpu {

/// How blocks of threads divide columns: some threads stand beside each other,
/// for adjacent columns, the others below them, for other rows.
struct ColumnTile {
  static constexpr int64_t threads = 256;

  ColumnTile(int64_t columns, int64_t width, int64_t mostAcross = warpSize)
      : columns(columns), width(width),
        across(std::min<int64_t>(
            mostAcross, llvm::PowerOf2Ceil(llvm::divideCeil(columns, width)))),
        below(threads / across), blocks(llvm::divideCeil(columns, size())) {}

  int64_t size() const { return across * width; } ///< Columns of a block.
  /// The first column of this thread where its block is the one of that number.
  mlir::Value column(KernelFrame &f, mlir::Value block) const;

  int64_t columns;
  int64_t width;  ///< Columns of a thread.
  int64_t across; ///< Threads beside each other.
  int64_t below;  ///< Threads below each other.
  int64_t blocks; ///< That have all columns.
};

/// What a block sums.
struct ColumnWork {
  mlir::Value block;      ///< Which columns: less than the tile's blocks.
  mlir::Value begin, end; ///< The rows.
};

/// Emits what `running`, the sums so far, become with the terms of a row: sum
/// by sum, column by column.
using ColumnTerms =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        mlir::Value row, const Chunk &chunk, mlir::ValueRange running)>;
/// Emits what is done with the sums of one column.
using ColumnResults = llvm::function_ref<mlir::LogicalResult(
    mlir::Value column, llvm::ArrayRef<mlir::Value> sums)>;

/// Makes `count` sums in f32 over rows, for each column of the block, in an
/// order that the number of rows alone decides. All threads of the block come
/// here; one for each column does `results`.
mlir::LogicalResult sumColumns(KernelFrame &f, const ColumnTile &tile,
                               const ColumnWork &work, size_t count,
                               ColumnTerms terms, ColumnResults results);

/// The second half of this: adds what the threads below each other have summed
/// of the columns of `block`, sum by sum and column by column in `own`. By way
/// of `memory`, from `columnMemory`, which other threads may still read then.
mlir::LogicalResult addColumnSums(KernelFrame &f, const ColumnTile &tile,
                                  mlir::Value block,
                                  llvm::ArrayRef<mlir::Value> own,
                                  mlir::Value memory, ColumnResults results);
/// Workgroup memory for `count` sums of a tile's columns.
mlir::Value columnMemory(KernelFrame &f, const ColumnTile &tile, size_t count);

/// Parts of sums in the scratch memory: sum by sum, part by part, in f32.
struct SumParts {
  int64_t parts, columns, sums;
  int64_t scratchBytes() const {
    return parts * columns * sums * static_cast<int64_t>(sizeof(float));
  }
  /// Those of one sum, as parts x `shape`, which has `columns` elements.
  mlir::Value of(KernelFrame &f, int64_t sum,
                 llvm::ArrayRef<int64_t> shape) const;
};

/// Emits what is done with the sums of one column, in a function.
using PartResults = llvm::function_ref<mlir::LogicalResult(
    KernelFrame &f, mlir::Value column, llvm::ArrayRef<mlir::Value> sums)>;

/// Adds a launch that adds up, for each column, the parts of its sums in order.
mlir::LogicalResult addSumOfParts(MappedKernel &mapped, planir::KernelOp kernel,
                                  mlir::gpu::GPUModuleOp module,
                                  const SumParts &parts, PartResults results);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_COLUMNSUMS_H
