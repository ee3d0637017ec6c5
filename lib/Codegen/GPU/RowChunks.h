//===- RowChunks.h - What a thread keeps of a row ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWCHUNKS_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWCHUNKS_H

#include "BlockReduce.h"

namespace heddle::gpu {

/// The columns of a row that one thread has, written out instead of in a loop:
/// then elements stay in its registers from one round to the next.
class RowChunks {
public:
  /// Emits where the chunks of `walk` are among the columns up to `extent`.
  /// With a head, what `walk` refers to has to live as long as this.
  RowChunks(KernelFrame &f, const Walk &walk, int64_t extent);

  /// How many chunks a thread has.
  static int64_t countOf(const Walk &walk, int64_t extent) {
    return llvm::divideCeil(extent, walk.threads * walk.width);
  }

  /// A tensor, and the indices before the column.
  struct KeptTensor {
    mlir::Value tensor;
    mlir::ArrayRef<mlir::Value> leading;
  };

  /// Carries values through the chunks, as forChunks does. After `body`, the
  /// elements of `kept` are there for every later walk.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  walk(mlir::ValueRange inits, llvm::ArrayRef<KeptTensor> kept, ChunkBody body);

  /// Loads the elements of `kept` at all chunks.
  mlir::LogicalResult load(llvm::ArrayRef<KeptTensor> kept);

private:
  struct KeptElements {
    KeptTensor kept;
    mlir::Value elements;
  };
  struct ThreadChunk {
    Chunk chunk;
    mlir::Value exists; ///< Null: the row always reaches this mine.
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
