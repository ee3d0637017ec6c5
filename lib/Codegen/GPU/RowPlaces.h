//===- RowPlaces.h - What a thread keeps of a row ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ROWPLACES_H
#define HEDDLE_LIB_CODEGEN_GPU_ROWPLACES_H

#include "BlockReduce.h"

namespace heddle::gpu {

/// The columns of a row that one thread has, written out instead of in a loop:
/// then elements stay in its registers from one round to the next.
class RowPlaces {
public:
  /// Emits where the places of `walk` are among the columns up to `extent`.
  /// With a head, what `walk` refers to has to live as long as this.
  RowPlaces(KernelFrame &f, const Walk &walk, int64_t extent);

  /// How many places a thread has.
  static int64_t countOf(const Walk &walk, int64_t extent) {
    return llvm::divideCeil(extent, walk.threads * walk.width);
  }

  /// A tensor, and the indices before the column.
  struct Kept {
    mlir::Value tensor;
    mlir::ArrayRef<mlir::Value> leading;
  };

  /// Carries values through the places, as forChunks does. After `body`, the
  /// elements of `kept` are there for every later walk.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  walk(mlir::ValueRange inits, llvm::ArrayRef<Kept> kept, ChunkBody body);

  /// Loads the elements of `kept` at all places.
  mlir::LogicalResult load(llvm::ArrayRef<Kept> kept);

private:
  struct Known {
    Kept kept;
    mlir::Value elements;
  };
  struct Place {
    Chunk chunk;
    mlir::Value exists; ///< Null: the row always reaches this place.
    llvm::SmallVector<Known> known;
  };

  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emit(Place &place, mlir::ValueRange carried, llvm::ArrayRef<Kept> kept,
       ChunkBody body);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emitIfExists(Place &place, mlir::ValueRange carried,
               llvm::ArrayRef<Kept> kept, ChunkBody body);

  KernelFrame &f;
  llvm::SmallVector<Place> places;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ROWPLACES_H
