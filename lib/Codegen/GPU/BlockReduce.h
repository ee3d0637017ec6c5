//===- BlockReduce.h - Values combined over a block's threads ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H
#define HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H

#include "KernelFrame.h"

namespace heddle::gpu {

/// Emits what two values combine to.
using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;

/// The value, of f32, f64 or i32, that the lane has whose number differs in the
/// bit `offset`.
mlir::Value exchange(KernelFrame &f, mlir::Value value, int64_t offset);

/// Every thread of a block gets what the f32 or f64 values of all combine to,
/// in an order that is always the same: by shuffles within a warp, and through
/// `slots` (workgroup memory of one element for each warp) between warps. A
/// block of one warp needs no slots.
mlir::Value acrossBlock(KernelFrame &f, mlir::Value value, int64_t threads,
                        mlir::Value slots, Combine combine);

/// Emits what two of the values with a number combine to.
using CombineOne =
    llvm::function_ref<mlir::Value(size_t, mlir::Value, mlir::Value)>;

/// The same for several values at once, each with its slots.
llvm::SmallVector<mlir::Value>
acrossBlock(KernelFrame &f, mlir::ValueRange values, int64_t threads,
            llvm::ArrayRef<mlir::Value> slots, CombineOne combine);

/// The sum of two values.
mlir::Value addFloats(KernelFrame &f, mlir::Value a, mlir::Value b);

/// What `sums` of a body's reductions begin with is added to them, and the
/// kernel's `results`, by their numbers, which are computed of that, are stored
/// at `at`.
mlir::LogicalResult
storeSums(KernelFrame &f, llvm::ArrayRef<mlir::linalg::GenericOp> reductions,
          llvm::ArrayRef<mlir::Value> sums, llvm::ArrayRef<mlir::Value> at,
          llvm::ArrayRef<unsigned> results);

/// How a block goes over elements.
struct Walk {
  int64_t width = 1;   ///< Elements that a thread handles together.
  int64_t threads = 0; ///< Of the block.
  /// Elements before the first chunk, fewer than `width`; null: none.
  mlir::Value head = {};
  /// With a head: which row of which shape the elements are, as of a Chunk.
  llvm::ArrayRef<mlir::Value> row = {};
  llvm::ArrayRef<int64_t> shape = {};
};

/// Where a walk has whole chunks.
struct WalkSpan {
  mlir::Value first, wholeEnd;
};

/// Emits that for the elements from `begin` to `end`; when `isWhole`, the last
/// chunk ends there.
WalkSpan spanOf(KernelFrame &f, mlir::Value begin, mlir::Value end,
                bool isWhole, const Walk &walk);

/// Emits which element beside the whole chunks the thread has, by itself; none
/// if that is not before the end.
mlir::Value restOf(KernelFrame &f, mlir::Value begin, const WalkSpan &span,
                   const Walk &walk);

using ChunkBody =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        const Chunk &chunk, mlir::ValueRange carried)>;

/// Carries values through the elements from `begin` to `end` of flat tensors,
/// as one block: chunk by chunk, what is left one by one. `begin`, with the
/// head, is a multiple of the width, and so is `end` when `isWhole`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
forChunks(KernelFrame &f, mlir::Value begin, mlir::Value end, bool isWhole,
          const Walk &walk, mlir::ValueRange inits, ChunkBody body);

/// `running`, in f64, plus the squares of a chunk of the flat tensor `input`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> sumSquares(KernelFrame &f,
                                                           mlir::Value input,
                                                           const Chunk &chunk,
                                                           mlir::Value running);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_BLOCKREDUCE_H
