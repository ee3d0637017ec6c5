//===- RowLayout.h - How rows are divided among threads ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H

#include "BlockReduce.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// How a kernel over rows that is not flat is divided: which blocks have which
/// rows, which threads which columns, and what they keep from round to round.
class RowLayout {
public:
  /// `mayDivide` says whether rows of one block need not wait for each other.
  RowLayout(planir::KernelOp kernel, const codegen::RowsForm &form,
            bool mayDivide);

  /// Why there is none, or "".
  llvm::StringRef reason() const { return why; }

  int64_t threads() const { return numThreads; } ///< Of a row.
  /// Rows that a block has at once. If there are several, each is a warp's.
  int64_t teams() const { return numTeams; }
  /// Rows go to this many blocks in turn, `teams()` at a time.
  int64_t blocks() const { return numBlocks; }
  /// Columns that a thread handles together in a round.
  int64_t chunkOf(const codegen::RowRound &round) const;
  /// Whether the rows' length is no multiple of that: a few columns lie beside
  /// the chunks.
  bool isOdd(const codegen::RowRound &round) const;
  /// Whether some of these lie before the first chunk, as there are no gaps
  /// between rows: then chunks begin elsewhere in every row.
  bool isShifted(const codegen::RowRound &round) const;

  /// Tensors with a row that several rounds read, and results that are read
  /// after they were stored: a block keeps them as long as it has the row.
  llvm::ArrayRef<mlir::Value> keptRows() const { return rows; }
  llvm::ArrayRef<mlir::Value> keptResults() const { return results; }
  /// Tensors with one row for all, which stay in registers, or where a block
  /// has teams in workgroup memory.
  llvm::ArrayRef<mlir::Value> keptColumns() const { return columns; }
  /// Where rows and results are kept: both in registers, or both in workgroup
  /// memory of so many bytes.
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
  bool hasPadding; ///< Between rows.
  std::string why;
  int64_t numThreads = 0, numTeams = 1, numBlocks = 0, memoryBytes = 0;
  llvm::SmallVector<mlir::Value> rows, results, columns;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWLAYOUT_H
