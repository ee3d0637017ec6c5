//===- RowLayout.h - How rows are divided among threads ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides how a kernel of row-wise operations (mapRows) uses the GPU, from the
// rounds of its RowsForm and the sizes of its tensors.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H

#include "BlockReduce.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// The division of a row-wise kernel that is not flat: which blocks have which
/// rows, which threads have which columns, and what is kept between rounds.
class RowLayout {
public:
  /// `mayDivide`: warps of a block may work on different rows without waiting
  /// for each other.
  RowLayout(planir::KernelOp kernel, const codegen::RowsForm &form,
            bool mayDivide);

  /// The reason why no layout exists, or "".
  llvm::StringRef reason() const { return why; }

  int64_t threads() const {
    return numThreads;
  } ///< Threads that work on one
    ///< row.
  /// Number of rows that a block works on at the same time. If there are
  /// several, each has one warp.
  int64_t teams() const { return numTeams; }
  /// Number of blocks. Rows are given to them in turn, `teams()` at a time.
  int64_t blocks() const { return numBlocks; }
  /// Number of adjacent columns that a thread handles together in a round.
  int64_t chunkOf(const codegen::RowRound &round) const;
  /// Whether the length of rows is no multiple of the chunk, so that some
  /// columns are in no whole chunk.
  bool isOdd(const codegen::RowRound &round) const;
  /// Whether some of these columns come before the first chunk. This is so
  /// where rows have no padding: aligned chunks then begin at another column in
  /// every row.
  bool isShifted(const codegen::RowRound &round) const;

  /// The tensors whose row a block keeps while it works on it: arguments that
  /// several rounds read (`keptRows`), and results that are read after they
  /// were stored (`keptResults`).
  llvm::ArrayRef<mlir::Value> keptRows() const { return rows; }
  llvm::ArrayRef<mlir::Value> keptResults() const { return results; }
  /// Tensors with one row that all rows share. They are kept in registers, or
  /// in workgroup memory where a block has teams.
  llvm::ArrayRef<mlir::Value> keptColumns() const { return columns; }
  /// Whether rows and results are kept in workgroup memory, of `sharedBytes()`
  /// bytes; otherwise in registers.
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
  bool hasPadding; ///< Rows have padding.
  std::string why;
  int64_t numThreads = 0, numTeams = 1, numBlocks = 0, memoryBytes = 0;
  llvm::SmallVector<mlir::Value> rows, results, columns;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H
