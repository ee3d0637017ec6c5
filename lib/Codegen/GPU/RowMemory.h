//===- RowMemory.h - What a block keeps of a row ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWMEMORY_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWMEMORY_H

#include "BlockReduce.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::gpu {

/// A row in workgroup memory, for rows that are too long for registers. A
/// thread has the same places in every walk over the row, and reads what it has
/// written itself: nobody waits.
class RowMemory {
public:
  /// Keeps a row of `extent` columns of each tensor, for walks like `walk`.
  RowMemory(KernelFrame &f, const Walk &walk, int64_t extent,
            llvm::ArrayRef<mlir::Value> tensors);

  /// What that takes.
  static int64_t bytesOf(const Walk &walk, int64_t extent,
                         llvm::ArrayRef<mlir::Value> tensors);

  /// Nothing of the next row is there.
  void beginRow();
  /// In the body of a walk: the elements of the row at `leading` that are there
  /// come from there; those of arguments that are not are put there.
  mlir::LogicalResult fetch(const Walk &walk, const Chunk &chunk,
                            mlir::ArrayRef<mlir::Value> leading);
  /// Puts a chunk's elements there, if they are of a tensor that is kept.
  void put(mlir::Value tensor, const Walk &walk, const Chunk &chunk,
           mlir::Value elements);
  /// After a walk: arguments are there, and the results that were put there.
  void endWalk() { known.insert(written.begin(), written.end()); }

private:
  mlir::Value placeOf(const Walk &walk, const Chunk &chunk);
  mlir::Value get(mlir::Value tensor, const Walk &walk, const Chunk &chunk);

  KernelFrame &f;
  int64_t extent;
  llvm::MapVector<mlir::Value, mlir::Value> rows; ///< Their memory.
  llvm::DenseSet<mlir::Value> written, known;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWMEMORY_H
