//===- RowLayout.h - How rows are divided among threads ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides how a kernel of row-wise operations (mapRows) uses the GPU. The
// decision depends on the kernel's rounds over the columns of a row (RowsForm),
// and on the sizes of its tensors.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H

#include "BlockReduce.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// The division of the work of a row-wise kernel: which blocks have which rows,
/// which threads have which columns, and which values are kept between passes
/// over a row. Kernels of only element-wise operations have no such layout.
class RowLayout {
public:
  /// `mayDivide` says that the warps of a block may work on different rows
  /// without waiting for each other.
  RowLayout(planir::KernelOp kernel, const codegen::RowsForm &form,
            bool mayDivide);

  /// The reason why no layout exists, or "".
  llvm::StringRef reason() const { return why; }

  /// The number of threads that work on one row.
  int64_t threads() const { return numThreads; }
  /// The number of teams of a block: groups of threads that work on different
  /// rows. Either the whole block is one team, or each of its warps is one.
  int64_t teams() const { return numTeams; }
  /// The number of blocks. Each works on `teams()` rows at a time, until no row
  /// is left.
  int64_t blocks() const { return numBlocks; }
  /// The number of columns of a chunk in `round`, a pass over a row. A chunk is
  /// a group of adjacent columns that a thread handles together.
  int64_t chunkOf(const codegen::RowRound &round) const;
  /// Whether the length of rows is no multiple of `chunkOf(round)`, so that
  /// some columns are in no whole chunk (group of so many adjacent columns).
  bool isOdd(const codegen::RowRound &round) const;
  /// Whether a row may have columns before its first whole chunk (group of
  /// `chunkOf(round)` adjacent columns that begins at an aligned address). This
  /// happens if rows have no padding, because each row then begins at another
  /// distance from an aligned address.
  bool isShifted(const codegen::RowRound &round) const;

  /// The tensors of which a block keeps the current row between rounds (passes
  /// over the columns). `keptRows` are arguments that several rounds read.
  /// `keptResults` are results that a later round reads.
  llvm::ArrayRef<mlir::Value> keptRows() const { return rows; }
  llvm::ArrayRef<mlir::Value> keptResults() const { return results; }
  /// Tensors with one row that all rows share, for example a norm's weights.
  /// They are kept in workgroup memory if the warps of a block work on
  /// different rows, and else in registers.
  llvm::ArrayRef<mlir::Value> keptColumns() const { return columns; }
  /// Whether `keptRows` and `keptResults` are kept in workgroup memory, of
  /// `sharedBytes()` bytes. Otherwise they are kept in registers.
  bool keepsInMemory() const { return sharedBytes() > 0; }
  int64_t sharedBytes() const { return memoryBytes; }
  llvm::SmallVector<mlir::Value> keptRowsAndResults() const;

private:
  void chooseThreads();
  bool findKept();
  void chooseKept();
  bool chooseTeams();
  int64_t keptBytesOf(const Walk &walk, llvm::ArrayRef<mlir::Value> kept) const;
  bool fits(llvm::ArrayRef<mlir::Value> kept);
  bool fitsMemory(llvm::ArrayRef<mlir::Value> kept);
  int64_t countBlocks() const;
  int64_t rowsPerBlock() const;
  int64_t leastRowsOfSums() const;
  int64_t elementsOfSums(const Walk &walk) const;

  planir::KernelOp kernel;
  const codegen::RowsForm &form;
  bool hasPadding; ///< A tensor has padding between its rows.
  std::string why;
  int64_t numThreads = 0, numTeams = 1, numBlocks = 0, memoryBytes = 0;
  llvm::SmallVector<mlir::Value> rows, results, columns;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H
