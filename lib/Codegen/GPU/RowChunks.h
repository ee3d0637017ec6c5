//===- RowChunks.h - The chunks of a row that a thread has ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The columns of a row that one thread handles, as unrolled code. MapRows.cpp
// uses this class if values of a row stay in registers between passes over the
// row.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWCHUNKS_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWCHUNKS_H

#include "BlockReduce.h"

namespace heddle::gpu {

/// The chunks (groups of adjacent columns) of a row that one thread has. Their
/// code is unrolled instead of a loop, so that elements can stay in registers
/// from one pass over the row to the next.
class RowChunks {
public:
  /// Emits the index at which each of the thread's chunks begins in a row of
  /// `extent` columns. `walk` says how chunks are divided among threads. If
  /// `walk.head` (the number of columns before the first whole chunk) is set,
  /// the arrays to which `walk` refers must live as long as this object.
  RowChunks(KernelFrame &f, const Walk &walk, int64_t extent);

  /// The number of chunks (`walk.width` adjacent columns each) that a thread
  /// has in a row of `extent` columns.
  static int64_t countOf(const Walk &walk, int64_t extent) {
    return llvm::divideCeil(extent, walk.threads * walk.width);
  }

  /// A tensor whose elements are kept in registers, and the indices of the row,
  /// which precede the column's index.
  struct KeptTensor {
    mlir::Value tensor;
    mlir::ArrayRef<mlir::Value> leading;
  };

  /// Emits `body` for each chunk. Each call of `body` gets the values that the
  /// previous call returned. The elements of `kept` that `body` computes stay
  /// in registers, and later calls of this function use them.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  walk(mlir::ValueRange inits, llvm::ArrayRef<KeptTensor> kept, ChunkBody body);

  /// Loads the elements of `kept` for all chunks.
  mlir::LogicalResult load(llvm::ArrayRef<KeptTensor> kept);

private:
  struct KeptElements {
    KeptTensor kept;
    mlir::Value elements;
  };
  struct ThreadChunk {
    Chunk chunk;
    mlir::Value exists; ///< Null: every row has this chunk.
    llvm::SmallVector<KeptElements> known;
  };

  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emit(ThreadChunk &mine, mlir::ValueRange carried,
       llvm::ArrayRef<KeptTensor> kept, ChunkBody body);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emitIfExists(ThreadChunk &mine, mlir::ValueRange carried,
               llvm::ArrayRef<KeptTensor> kept, ChunkBody body);

  KernelFrame &f;
  llvm::SmallVector<ThreadChunk> chunks;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWCHUNKS_H
