//===- RowMemory.h - What a block keeps of a row ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows in workgroup memory, for kernels of MapRows.cpp whose rows are too long
// for registers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWMEMORY_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWMEMORY_H

#include "BlockReduce.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::gpu {

/// Keeps elements of a row in workgroup memory from one pass over the row's
/// columns to the next. A thread handles the same columns in every pass
/// (`Walk`), and reads only elements that it has written itself, so that no
/// barrier is needed.
class RowMemory {
public:
  /// Allocates memory for one row of `extent` columns of each of `tensors`.
  /// Every pass over the columns must have the chunk width and the number of
  /// threads of `walk`.
  RowMemory(KernelFrame &f, const Walk &walk, int64_t extent,
            llvm::ArrayRef<mlir::Value> tensors);

  /// The bytes of workgroup memory for one row of each of `tensors`.
  static int64_t bytesOf(const Walk &walk, int64_t extent,
                         llvm::ArrayRef<mlir::Value> tensors);

  /// Begins a row. Workgroup memory then holds no element of this row yet.
  void beginRow();
  /// Emits the reads of the tensors that are kept in workgroup memory, for one
  /// chunk (the thread's adjacent columns). The first pass reads the chunk of
  /// an argument from global memory, and stores the chunk in workgroup memory.
  /// Later passes load it from there. Must be called for each chunk of a
  /// pass over the columns, before the chunk's code. `leading` are the indices
  /// of the row.
  mlir::LogicalResult fetch(const Walk &walk, const Chunk &chunk,
                            mlir::ArrayRef<mlir::Value> leading);
  /// Stores a chunk's elements in workgroup memory, if `tensor` is one of the
  /// tensors to keep.
  void put(mlir::Value tensor, const Walk &walk, const Chunk &chunk,
           mlir::Value elements);
  /// Ends a pass over the columns. Later passes use the elements that this pass
  /// has stored.
  void endWalk() { known.insert(written.begin(), written.end()); }

private:
  mlir::Value placeOf(const Walk &walk, const Chunk &chunk);
  mlir::Value get(mlir::Value tensor, const Walk &walk, const Chunk &chunk);

  KernelFrame &f;
  int64_t extent;
  llvm::MapVector<mlir::Value, mlir::Value> rows; ///< The memory of each
                                                  ///< tensor.
  llvm::DenseSet<mlir::Value> written, known;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWMEMORY_H
