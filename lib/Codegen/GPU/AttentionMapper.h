//===- AttentionMapper.h - Parts shared by attention's mappings -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of MapAttention.cpp and MapAttentionGrad.cpp. A block has
// rows of one side of the scores (queries or keys), 16 for each warp. It loops
// over blocks of the other side, which are the columns. Workgroup memory has
// two stages: one is multiplied while the next is copied.
//
// If heads have too many features for the registers of their sums, they are
// sliced: a block computes one slice of the results. It loads all slices of
// both sides for the scores, one after the other, and then its own slice once
// more for the sums.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H
#define HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H

#include "WarpTiles.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::gpu {

/// The heads of one tensor [batch, seq, row], beginning at some element of each
/// row.
struct Heads {
  mlir::Value memory;
  int64_t offset, row;
};

/// Rows of one head from `first` on. Rows from `limit` on read as zeros.
struct HeadRows {
  Heads heads;
  mlir::Value head, first, limit;
};

/// Emits the code that the forward pass and the gradients share.
class AttentionMapper {
protected:
  using Value = mlir::Value;

  AttentionMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                  nn::AttentionOpInterface op, const FrameOptions &options);

  /// The resources that a mapping needs: tensors with tiles of rows and tensors
  /// with tiles of columns in workgroup memory, and f32 numbers for each column
  /// (`numbers`).
  struct Needs {
    int64_t rowTensors, columnTensors, numbers = 0;
    /// Tiles of sums and of products that a warp has in registers at the same
    /// time.
    int64_t sums, products;
    /// Registers that dropout takes in the same loop, as found by watching when
    /// ptxas spills.
    int64_t random = 0;
  };
  void chooseBlocks(const Needs &needs);
  int64_t rowsOfBlock() const { return warps * warpRows; }
  int64_t rowBlocks() const;

  /// The heads of q, k and v, as operands or results in `memories`.
  std::array<Heads, 3> splitHeads(mlir::ValueRange memories) const;
  /// The heads of a tensor [batch, seq, heads * headDim].
  Heads queryHeads(Value memory) const;
  mlir::SmallVector<Value> buffersOf(mlir::ValueRange arguments) const;
  /// The buffer of a result; null if the kernel does not yield it.
  Value bufferOf(Value result) const;
  /// The index of an element of a head.
  Value indexOf(const Heads &heads, Value head, Value row, Value column);
  /// The index of a query's value in a tensor [batch, heads, seq], which has
  /// one number for each query.
  Value numberIndex(Value head, Value query);
  Value loadNumber(Value memory, Value index);

  /// Allocates a tile of `count` rows in workgroup memory.
  Value allocateRows(int64_t count);
  Value allocateNumbers(int64_t count);

  /// Starts to copy `count` rows from row `first` on. Rows from `limit` on
  /// become zeros.
  void copyRows(const SharedRows &to, int64_t count, const Heads &from,
                Value head, Value first, Value limit) {
    copyRows(to, count, {from, head, first, limit}, i32.constant(0));
  }
  /// Like the other `copyRows`, for the slice of features that begins at
  /// `feature`.
  void copyRows(const SharedRows &to, int64_t count, const HeadRows &from,
                Value feature);
  /// Starts to copy one f32 number for each of `count` queries from query
  /// `first` on. Queries after the last one get zeros.
  void copyNumbers(Value to, Value at, int64_t count, Value from, Value head,
                   Value first);
  void commitCopies();
  /// Waits for the copies of all threads, except those of the last `pending`
  /// commits.
  void waitForCopies(int64_t pending);

  using Copy = llvm::function_ref<void(Value first, Value stage)>;
  using Values = llvm::SmallVector<Value>;
  using Compute = llvm::function_ref<Values(Value first, Value stage,
                                            mlir::ValueRange carried)>;
  /// Starts the copy of the block of columns that begins at `begin`.
  void beginColumns(Value begin, Copy copy);
  /// Calls `compute` for each block of columns up to `end`, while the next
  /// block is copied. `beginColumns` must have started the first copy. `stage`
  /// is 0 or 1.
  Values forColumns(Value begin, Value end, Values init, Copy copy,
                    Compute compute);
  /// The rows of stage `stage` of a tile with two stages.
  SharedRows columnsOf(Value memory, Value stage);

  /// With slices: allocates tiles for them. Returns a tile that `storeRows` may
  /// use.
  Value allocateSlices();
  bool isSliced() const { return slices > 1; }
  /// Whether this block computes the first slice. Among the blocks of one row,
  /// that block does what must be done only once for the row.
  Value isFirstSlice() { return i32.less(firstFeature, 1); }
  /// Returns the products of the block's rows with `columns` rows of the other
  /// side.
  WarpTile multiplySlices(const HeadRows &rows, const HeadRows &others);
  /// Copies the block's own slice of the other side's rows, to one of two
  /// stages.
  SharedRows ownSlice(const HeadRows &others, int64_t place);

  /// Sets elements to minus infinity whose query does not see the key. Does
  /// nothing if `isFull`. An element is masked if its column is less than its
  /// row's bound; with `below`, if its column is not less than the bound.
  void hide(WarpTile &tile, Value first, Value isFull,
            llvm::ArrayRef<Value> bounds, bool below);
  /// With a window: masks keys of `tile` that come before the first key that
  /// its query sees. The queries begin at `firstRow`.
  void hideBeforeWindows(WarpTile &tile, Value first);
  /// The first key of the first block of keys that queries of this thread block
  /// see.
  Value firstKeys();
  /// With a soft cap: the capped score of a product, in units of log 2.
  Value capped(Value product);
  /// 2^t, for t that are at most slightly above 0.
  Value exp2(Value t);
  Value constant(double value);
  Value mulF(Value a, Value b);
  /// a b + c, rounded once.
  mlir::Value fmaF(mlir::Value a, double b, mlir::Value c);
  Value addF(Value a, Value b);
  Value subF(Value a, Value b);

  /// Loads seed and step, and computes the first index of this head's random
  /// numbers.
  void prepareRandom(Value head);
  /// Returns for each element of a tile of scores whether dropout keeps it. The
  /// tile begins at row `row` and column `column`.
  Values keep(const WarpTile &tile, Value row, Value column,
              bool keysAreColumns);

  /// Stores sums as rows of a head, each row multiplied by its factor.
  /// `staging` is a tile in workgroup memory; no other warp may read this
  /// warp's rows of it.
  void storeRows(const WarpTile &sums, llvm::ArrayRef<Value> factors,
                 const Heads &to, Value head, Value staging);
  /// Emits `body` under the condition.
  void ifThen(Value condition, llvm::function_ref<void()> body);
  MappedLaunch finish(int64_t heads);

  nn::AttentionOpInterface op;
  codegen::AttentionSpec spec;
  KernelFrame f;
  codegen::IntBuilder i32;
  codegen::IntBuilder wide; ///< For indices of tensors: i32, or i64 for large
                            ///< tensors.
  std::unique_ptr<WarpTiles> tiles;
  codegen::VisibleKeys visible;
  int64_t warps = 0;
  int64_t columns = 0; ///< Columns of a block of them.
  bool keepsLeft = false;
  Value thread, warp, batch, headOfBlock, firstRow; ///< i32
  Value firstOfWarp;                                ///< First row of the warp.
  int64_t slices = 1;
  Value firstFeature; ///< First feature of the block's slice.

private:
  int64_t sharedBytesFor(const Needs &needs) const;
  void copyAccess(const SharedRows &to, const HeadRows &from, Value feature,
                  Value access, int64_t width);
  void storeChunk(const WarpTile &sums, int64_t i, int64_t j, Value factor,
                  const Heads &to, Value head, Value row);
  void storeWide(const WarpTile &sums, llvm::ArrayRef<Value> factors,
                 const Heads &to, Value head, Value staging);
  Values rounded(const WarpTile &sums, int64_t i, int64_t j, Value factor);
  Values philox(Value block);
  Value kept(Value word);
  Values keepShared(const WarpTile &tile, Value row, Value column,
                    bool keysAreColumns);
  Values keepApart(const WarpTile &tile, Value row, Value column,
                   bool keysAreColumns);
  Value allocate(llvm::ArrayRef<int64_t> shape, mlir::Type element);

  Value sharedMemory;
  Value rowSlices, columnSlices; ///< Two stages of each.
  int64_t sharedBytes = 0;
  mlir::SmallVector<std::pair<Value, Value>> roundKeys;
  Value step, stream, firstRandom;
};

/// Maps nn.attention_grad, for `mapAttention`.
MappedKernel mapAttentionGrad(planir::KernelOp kernel,
                              mlir::gpu::GPUModuleOp module,
                              nn::AttentionGradOp op);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H
