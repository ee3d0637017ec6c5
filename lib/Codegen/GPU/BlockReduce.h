//===- BlockReduce.h - Values combined over a block's threads ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over the threads of a block, and loops over the elements that its
// threads share (`forChunks`).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H
#define HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H

#include "KernelFrame.h"

namespace heddle::gpu {

/// Emits the combination of two values.
using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;

/// Exchanges a value (f32, f64 or i32) with the lane whose number differs in
/// the bit `offset`.
mlir::Value exchange(KernelFrame &f, mlir::Value value, int64_t offset);

/// Combines the f32 or f64 values of all threads of a block, in a fixed order,
/// and gives every thread the result. Uses shuffles within a warp, and `slots`
/// between warps: workgroup memory with one element for each warp. A block of
/// one warp needs no slots.
mlir::Value acrossBlock(KernelFrame &f, mlir::Value value, int64_t threads,
                        mlir::Value slots, Combine combine);

/// Emits the combination of two values of reduction number i.
using CombineOne =
    llvm::function_ref<mlir::Value(size_t, mlir::Value, mlir::Value)>;

/// Like the other `acrossBlock`, for several values at once, each with its
/// slots.
llvm::SmallVector<mlir::Value>
acrossBlock(KernelFrame &f, mlir::ValueRange values, int64_t threads,
            llvm::ArrayRef<mlir::Value> slots, CombineOne combine);

/// Emits the sum of two floats.
mlir::Value addFloats(KernelFrame &f, mlir::Value a, mlir::Value b);

/// Adds the initial values of `reductions` to `sums`, and stores those of the
/// kernel's results that `results` lists, at the indices `at`. These results
/// are computed from the sums.
mlir::LogicalResult
storeSums(KernelFrame &f, llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
          llvm::ArrayRef<mlir::Value> sums, llvm::ArrayRef<mlir::Value> at,
          llvm::ArrayRef<unsigned> results);

/// How the threads of a block visit elements: in chunks, a grid of `threads`
/// chunks at a time.
struct Walk {
  int64_t width = 1;   ///< Elements of a chunk.
  int64_t threads = 0; ///< Threads of the block.
  /// Number of elements before the first chunk, less than `width`; null: 0.
  mlir::Value head = {};
  /// If `head` is given: the row of the elements and the shape of their tensor,
  /// as in `Chunk`.
  llvm::ArrayRef<mlir::Value> row = {};
  llvm::ArrayRef<int64_t> shape = {};
};

/// The range of whole chunks in a walk.
struct WalkSpan {
  mlir::Value first, wholeEnd;
};

/// Emits the range of whole chunks among the elements from `begin` to `end`.
/// With `isWhole` the last chunk ends at `end`.
WalkSpan spanOf(KernelFrame &f, mlir::Value begin, mlir::Value end,
                bool isWhole, const Walk &walk);

/// Emits the index of the element outside of whole chunks that the thread
/// handles. The thread has none if the index is at or after the end.
mlir::Value restOf(KernelFrame &f, mlir::Value begin, const WalkSpan &span,
                   const Walk &walk);

using ChunkBody =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        const Chunk &chunk, mlir::ValueRange carried)>;

/// Emits `body` for the elements from `begin` to `end` of flat tensors, and
/// carries values from one chunk to the next: first the whole chunks, then the
/// rest element by element. `begin`, plus the head, is a multiple of the width;
/// so is `end` with `isWhole`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
forChunks(KernelFrame &f, mlir::Value begin, mlir::Value end, bool isWhole,
          const Walk &walk, mlir::ValueRange inits, ChunkBody body);

/// Returns `running`, in f64, plus the squares of a chunk of the flat tensor
/// `input`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> sumSquares(KernelFrame &f,
                                                           mlir::Value input,
                                                           const Chunk &chunk,
                                                           mlir::Value running);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H
