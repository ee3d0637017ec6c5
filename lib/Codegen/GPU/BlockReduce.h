//===- BlockReduce.h - Values combined over a block's threads ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over the threads of a block, and loops that distribute elements
// over its threads (`forChunks`).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H
#define HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H

#include "KernelFrame.h"
#include "heddle/Codegen/Common/RowsForm.h"

namespace heddle::gpu {

/// Emits the combination of two values.
using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;

/// Exchanges a value (f32, f64 or i32) between two lanes of a warp: the indices
/// of the lanes differ only in the bit `offset`.
mlir::Value exchange(KernelFrame &f, mlir::Value value, int64_t offset);

/// Combines the f32 or f64 values of all threads of a block, in a fixed order,
/// and gives every thread the result. Shuffles combine the values within a
/// warp. Between warps, values pass through `slots`: workgroup memory with one
/// element for each warp. A block of one warp needs no slots.
mlir::Value acrossBlock(KernelFrame &f, mlir::Value value, int64_t threads,
                        mlir::Value slots, Combine combine);

/// Emits the combination of two values of the i-th of several reductions.
using CombineOne =
    llvm::function_ref<mlir::Value(size_t, mlir::Value, mlir::Value)>;

/// Like the other `acrossBlock`, for several reductions at once. Each reduction
/// has its own workgroup memory in `slots`.
llvm::SmallVector<mlir::Value>
acrossBlock(KernelFrame &f, mlir::ValueRange values, int64_t threads,
            llvm::ArrayRef<mlir::Value> slots, CombineOne combine);

/// Combines the elements of a vector by halves, which shortens the chain of
/// dependent operations. Returns a scalar unchanged.
mlir::Value combineElements(KernelFrame &f,
                            const codegen::RowReduction &reduction,
                            mlir::Value terms);

/// Binds values of rows that depend on reductions, such as means, as soon as
/// these are bound. In later code they are no products, which LLVM or ptxas
/// would add to something without rounding them first, depending on where the
/// products are computed. So elements have the same bits wherever a kernel
/// computes a row.
class RowProducts {
public:
  /// `results` are the values that the kernel computes of rows. A row has as
  /// many indices as `rank` says.
  RowProducts(mlir::ValueRange results, size_t rank);

  /// Binds the products of those `rows`, lists of indices, that a thread
  /// computes. The results of `reductions` have just been bound.
  mlir::LogicalResult bind(KernelFrame &f,
                           llvm::ArrayRef<codegen::RowReduction> reductions,
                           llvm::ArrayRef<llvm::SmallVector<mlir::Value>> rows);

private:
  struct RowProduct {
    mlir::Value value;
    /// The reductions on which it depends that are not bound yet.
    llvm::SmallPtrSet<mlir::Operation *, 2> open;
  };
  llvm::SmallVector<RowProduct> products;
};

/// Emits the sum of two floats.
mlir::Value addFloats(KernelFrame &f, mlir::Value a, mlir::Value b);

/// Completes reductions and stores results. `sums` are the sums of `reductions`
/// without their initial values, which the code adds. From the totals it
/// computes those results of the kernel whose indices are in `results`, and
/// stores them at the indices `at`.
mlir::LogicalResult
storeSums(KernelFrame &f, llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
          llvm::ArrayRef<mlir::Value> sums, llvm::ArrayRef<mlir::Value> at,
          llvm::ArrayRef<unsigned> results);

/// How the threads of a block visit the elements of a tensor. In each round,
/// every thread takes one chunk of adjacent elements, and the block's `threads`
/// chunks are adjacent.
struct Walk {
  int64_t width = 1;   ///< Elements of a chunk.
  int64_t threads = 0; ///< Threads of the block.
  /// The number of elements before the first whole chunk (the `width` adjacent
  /// elements that a thread takes at a time). It is less than `width`; null
  /// means 0.
  mlir::Value head = {};
  /// If `head` (the number of elements before the first chunk) is given, the
  /// row and the tensor's shape are needed to find which accesses are aligned:
  /// `row` has the leading indices of the visited elements, and `shape` is the
  /// shape of their tensor.
  llvm::ArrayRef<mlir::Value> row = {};
  llvm::ArrayRef<int64_t> shape = {};
};

/// The range of elements that the threads cover by whole chunks, which are
/// accesses of full width. Single elements before and after it are handled
/// separately.
struct WalkSpan {
  mlir::Value first, wholeEnd;
};

/// Emits the range of elements between `begin` and `end` that whole chunks
/// cover. A chunk is the adjacent elements of one thread. `isWhole` says that
/// the last chunk ends exactly at `end`.
WalkSpan spanOf(KernelFrame &f, mlir::Value begin, mlir::Value end,
                bool isWhole, const Walk &walk);

/// Whole chunks (adjacent elements of one thread) do not cover all elements.
/// Emits the index of the single element outside of them that this thread
/// handles. If the index is at or after the end, the thread has no such
/// element.
mlir::Value restOf(KernelFrame &f, mlir::Value begin, const WalkSpan &span,
                   const Walk &walk);

using ChunkBody =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        const Chunk &chunk, mlir::ValueRange carried)>;

/// Emits `body` for the elements from `begin` to `end` of flat tensors: first
/// for whole chunks (adjacent elements of one thread), then for single elements
/// that are in no chunk. Each call of `body` gets the values that the previous
/// call returned. `begin` plus `walk.head` (the number of elements before the
/// first chunk) must be a multiple of the chunk's width; with `isWhole`, so
/// must `end`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
forChunks(KernelFrame &f, mlir::Value begin, mlir::Value end, bool isWhole,
          const Walk &walk, mlir::ValueRange inits, ChunkBody body);

/// Adds the squares of a thread's adjacent elements (its chunk) of the flat
/// tensor `input` to `running`, in f64, and returns the sums.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> sumSquares(KernelFrame &f,
                                                           mlir::Value input,
                                                           const Chunk &chunk,
                                                           mlir::Value running);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H
