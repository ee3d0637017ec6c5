//===- AttentionMapper.h - Parts shared by attention's mappings -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block has rows of one side of the scores, 16 for each warp, and meets one
// block of the other side, the columns, after the other: two stages of
// workgroup memory hold the one that is multiplied and the next.
//
// Heads of more features than registers have sums for are sliced: a block makes
// one slice of the results. It meets all slices of both sides for the scores,
// one after the other, and its own once more for the sums.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H
#define HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H

#include "WarpTiles.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::gpu {

/// The heads of one tensor [batch, seq, row], from some element of a row on.
struct Heads {
  mlir::Value memory;
  int64_t offset, row;
};

/// Rows of one head, from `first` on; zeros from `limit` on.
struct HeadRows {
  Heads heads;
  mlir::Value head, first, limit;
};

/// Emits the parts that the forward pass and the gradients share.
class AttentionMapper {
protected:
  using Value = mlir::Value;

  AttentionMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                  nn::AttentionOpInterface op, const FrameOptions &options);

  /// How many tensors have tiles in workgroup memory, of rows and of columns,
  /// and how many numbers each column has besides.
  struct Needs {
    int64_t rowTensors, columnTensors, numbers = 0;
    /// Sums and products of a warp that are in registers at a time.
    int64_t sums, products;
    /// Registers that dropout takes in the same loop, as ptxas shows by
    /// spilling.
    int64_t random = 0;
  };
  void chooseBlocks(const Needs &needs);
  int64_t rowsOfBlock() const { return warps * warpRows; }
  int64_t rowBlocks() const;

  /// q, k and v of the operands or results in `memories`.
  std::array<Heads, 3> splitHeads(mlir::ValueRange memories) const;
  /// A tensor [batch, seq, heads * headDim].
  Heads queryHeads(Value memory) const;
  mlir::SmallVector<Value> buffersOf(mlir::ValueRange arguments) const;
  /// Where a result is written; null when the kernel does not yield it.
  Value bufferOf(Value result) const;
  /// The index of an element of a head.
  Value indexOf(const Heads &heads, Value head, Value row, Value column);
  /// The index of a query's number in a tensor [batch, heads, seq].
  Value numberIndex(Value head, Value query);
  Value loadNumber(Value memory, Value index);

  /// A tile in workgroup memory for each of the stages.
  Value allocateRows(int64_t count);
  Value allocateNumbers(int64_t count);

  /// Starts to copy `count` rows from row `first` on; zeros from `limit` on.
  void copyRows(const SharedRows &to, int64_t count, const Heads &from,
                Value head, Value first, Value limit) {
    copyRows(to, count, {from, head, first, limit}, i32.constant(0));
  }
  /// The same of the slice of features from `feature` on.
  void copyRows(const SharedRows &to, int64_t count, const HeadRows &from,
                Value feature);
  /// The same with the numbers of queries.
  void copyNumbers(Value to, Value at, int64_t count, Value from, Value head,
                   Value first);
  void commitCopies();
  /// Waits for all copies but those of the last `pending` commits, of all
  /// threads.
  void waitForCopies(int64_t pending);

  using Copy = llvm::function_ref<void(Value first, Value stage)>;
  using Values = llvm::SmallVector<Value>;
  using Compute = llvm::function_ref<Values(Value first, Value stage,
                                            mlir::ValueRange carried)>;
  /// Starts the copy of the block of columns from `begin` on.
  void beginColumns(Value begin, Copy copy);
  /// Calls `compute` for each block of columns up to `end`, of which
  /// `beginColumns` has started the first, while the next is copied. `stage` is
  /// 0 or 1.
  Values forColumns(Value begin, Value end, Values init, Copy copy,
                    Compute compute);
  /// The same rows of another stage.
  SharedRows columnsOf(Value memory, Value stage);

  /// With slices: makes room for them. Returns a tile of rows that `storeRows`
  /// may use.
  Value allocateSlices();
  bool isSliced() const { return slices > 1; }
  /// The first slice's block, which does what is done once for a row.
  Value isFirstSlice() { return i32.less(firstFeature, 1); }
  /// The products of the block's rows with `columns` rows of the other side.
  WarpTile multiplySlices(const HeadRows &rows, const HeadRows &others);
  /// The block's own slice of the other side's rows, in one of two places.
  SharedRows ownSlice(const HeadRows &others, int64_t place);

  /// Makes elements minus infinity whose query does not see the key, unless
  /// `isFull`: the column of an element is at least, or with `below` less than,
  /// the bound of its row.
  void hide(WarpTile &tile, Value first, Value isFull,
            llvm::ArrayRef<Value> bounds, bool below);
  /// With a window: the same of keys in `tile`, of the queries from `firstRow`
  /// on, before the first that a query sees.
  void hideBeforeWindows(WarpTile &tile, Value first);
  /// The first block of keys that the block's queries see.
  Value firstKeys();
  /// With a soft cap: the score of a product, in units of log 2.
  Value capped(Value product);
  /// 2^t for t <= 0 or slightly above.
  Value exp2(Value t);
  Value constant(double value);
  Value mulF(Value a, Value b);
  /// a b + c, rounded once.
  mlir::Value fmaF(mlir::Value a, double b, mlir::Value c);
  Value addF(Value a, Value b);
  Value subF(Value a, Value b);

  /// Loads seed, step and where this head's random numbers are.
  void prepareRandom(Value head);
  /// Which elements of a tile of scores are kept: of `keysAreColumns`, from row
  /// `row` and column `column` on.
  Values keep(const WarpTile &tile, Value row, Value column,
              bool keysAreColumns);

  /// Stores sums times their row's factor as rows of a head. `staging` is a
  /// tile in workgroup memory whose rows no other warp reads.
  void storeRows(const WarpTile &sums, llvm::ArrayRef<Value> factors,
                 const Heads &to, Value head, Value staging);
  /// Emits `body` where `condition` holds.
  void ifThen(Value condition, llvm::function_ref<void()> body);
  MappedLaunch finish(int64_t heads);

  nn::AttentionOpInterface op;
  codegen::AttentionSpec spec;
  KernelFrame f;
  codegen::IntBuilder i32;
  codegen::IntBuilder wide; ///< For indices of tensors.
  std::unique_ptr<WarpTiles> tiles;
  codegen::VisibleKeys visible;
  int64_t warps = 0;
  int64_t columns = 0; ///< In a block of them.
  bool keepsLeft = false;
  Value thread, warp, batch, headOfBlock, firstRow; ///< i32
  Value firstOfWarp; ///< The first row of the warp.
  int64_t slices = 1;
  Value firstFeature; ///< Of the block's slice.

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

/// The part of `mapAttention` for gradients.
MappedKernel mapAttentionGrad(planir::KernelOp kernel,
                              mlir::gpu::GPUModuleOp module,
                              nn::AttentionGradOp op);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H
