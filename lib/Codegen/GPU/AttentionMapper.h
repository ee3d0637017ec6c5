//===- AttentionMapper.h - Parts shared by attention's mappings -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of MapAttention.cpp and MapAttentionGrad.cpp. The scores are
// a matrix of queries and keys. A block computes results for rows of one side
// (queries or keys), 16 rows for each warp. It loops over blocks of the other
// side, which are called columns here. Workgroup memory has two stages for
// columns: one stage is multiplied while the next block of columns is copied to
// the other.
//
// With a layout of blocks, a thread block lists in workgroup memory where the
// blocks of columns begin that some of its rows see. A tile of columns then
// holds one or more ranges of this list, so that it is as large as without a
// layout. If blocks are small, a thread block has rows of several of them, and
// a warp leaves out the ranges that only other rows see. These blocks are
// adjacent in an order that the first launch finds, not in the sequence.
//
// If registers cannot hold the sums of all features of a head, the features are
// divided into slices, and each block computes one slice of the results. For
// the scores, it loads all slices of both sides, one after the other. For the
// sums, it then loads its own slice again.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H
#define HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H

#include "WarpTiles.h"
#include "heddle/Codegen/Common/Attention.h"

namespace heddle::gpu {

/// The heads of one tensor [batch, seq, row]. The first head begins at some
/// element of each row, since the row may also hold other heads.
struct Heads {
  mlir::Value memory;
  int64_t offset, row;
};

/// The rows of a tensor that a tile holds: ranges of adjacent rows. All ranges
/// have the same length, and the tile has one after the other.
struct RowRanges {
  /// The only range begins at row `first`.
  RowRanges(mlir::Value first) : firsts(1, first) {}
  explicit RowRanges(llvm::ArrayRef<mlir::Value> firsts) : firsts(firsts) {}

  int64_t count() const { return static_cast<int64_t>(firsts.size()); }

  llvm::SmallVector<mlir::Value> firsts; ///< The first row of each range.
};

/// Columns that a warp multiplies at a time: a tile of them, or one of its
/// ranges.
struct ColumnTile {
  RowRanges ranges;
  int64_t count;           ///< Columns of all ranges.
  mlir::Value stage;       ///< The buffer that holds the tile: 0 or 1.
  mlir::Value firstInTile; ///< Place of the first column in it; null: 0.

  int64_t rangeLength() const { return count / ranges.count(); }
};

/// Some rows of one head. Rows from `limit` on do not exist: zeros are read in
/// their place.
struct HeadRows {
  Heads heads;
  mlir::Value head;
  RowRanges rows;
  mlir::Value limit;
};

/// What the scratch memory of an attention's kernel holds, as offsets in bytes:
/// for the gradient, from offset 0 on, one f32 for each query, and with a
/// layout what its first launch finds (AttentionOrder.cpp).
struct OrderScratch {
  OrderScratch(const codegen::AttentionSpec &spec, bool isGradient);

  int64_t allTables() const { return tables + keyTables; }

  int64_t bytes = 0; ///< Of all.
  int64_t blocks = 0,
          words = 0; ///< Blocks of the rank, and words of their bits.
  /// Tables are of blocks of queries, for each layout of the rank's heads, and
  /// then of blocks of keys. Each has room for `padded` blocks.
  int64_t tables = 0, keyTables = 0, padded = 0;
  int64_t order = 0;      ///< The blocks of each table in their order.
  int64_t classes = 0;    ///< The class of each block.
  int64_t columnBits = 0; ///< For each block of keys the bits of the queries.
};

/// Returns 2^t in f32, for results that are rounded to `type`. The exponent t
/// must be negative, or at most slightly above 0.
mlir::Value exp2(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type,
                 mlir::Value t);

/// Emits the code that the forward pass and the gradients share.
class AttentionMapper {
protected:
  using Value = mlir::Value;

  AttentionMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                  nn::AttentionOpInterface op, const FrameOptions &options);

  /// The resources that a kernel needs, from which block sizes are chosen.
  /// Workgroup memory holds tiles of rows of `rowTensors` tensors, tiles of
  /// columns of `columnTensors` tensors, and `numbers` f32 values for each
  /// column.
  struct Needs {
    int64_t rowTensors, columnTensors, numbers = 0;
    /// The number of tiles that a warp has in registers at the same time: tiles
    /// that accumulate sums over the loop (`sums`), and tiles of products
    /// within an iteration (`products`).
    int64_t sums, products;
    /// The number of registers that the loop needs to draw dropout's random
    /// numbers. The number was found by trial: if tiles leave fewer registers
    /// free, ptxas spills.
    int64_t random = 0;
    /// Whether the rows of a block are keys, not queries.
    bool rowsAreKeys = false;
  };
  void chooseBlocks(const Needs &needs);
  int64_t rowsOfBlock() const { return warps * warpRows; }
  int64_t rowBlocks() const;

  /// Returns the heads of q, k and v. `memories` are the buffers of these
  /// tensors, or of their gradients.
  std::array<Heads, 3> splitHeads(mlir::ValueRange memories) const;
  /// The heads of a tensor [batch, seq, heads * headDim].
  Heads queryHeads(Value memory) const;
  mlir::SmallVector<Value> buffersOf(mlir::ValueRange arguments) const;
  /// The buffer of a result of attention; null if the kernel does not yield
  /// this result.
  Value bufferOf(Value result) const;
  /// The index of an element of a head.
  Value indexOf(const Heads &heads, Value head, Value row, Value column);
  /// The index of a query in a tensor [batch, heads, seq], which has one value
  /// for each query of each head.
  Value numberIndex(Value head, Value query);
  Value loadNumber(Value memory, Value index);

  /// Allocates a tile of `count` rows in workgroup memory.
  Value allocateRows(int64_t count);
  Value allocateNumbers(int64_t count);

  /// Starts to copy `count` rows of a head: the slice of features that begins
  /// at `feature`. Rows that do not exist become zeros.
  void copyRows(const SharedRows &to, int64_t count, const HeadRows &from,
                Value feature);
  /// Starts to copy one f32 value for each query of a tile of columns. Zeros
  /// are copied in place of queries after the last one.
  void copyNumbers(Value to, Value at, Value from, Value head,
                   const RowRanges &queries);
  void commitCopies();
  /// Waits for the asynchronous copies of all threads. Copies of a thread's
  /// last `pending` commit groups may remain unfinished.
  void waitForCopies(int64_t pending);

  using Values = llvm::SmallVector<Value>;
  using Copy = llvm::function_ref<void(const RowRanges &tile, Value stage)>;
  using Compute = llvm::function_ref<Values(const ColumnTile &tile,
                                            mlir::ValueRange carried)>;
  /// Where the loop over the keys that a query of this thread block sees
  /// begins: at a key or, with a layout, at an element of the list of ranges.
  /// Makes the list, so that all threads have to call it.
  Value beginOfKeys();
  /// Where this loop ends. To be called after `beginOfKeys`.
  Value endOfKeys();
  /// The same of the loop over the queries of head `head` that see a key of
  /// this thread block.
  Value beginOfQueries(Value head);
  Value endOfQueries();
  /// Starts the copy of the first tile of columns (the keys or queries over
  /// which the loop runs).
  void beginColumns(Value begin, Copy copy);
  /// Emits a loop that calls `compute` for each tile of columns up to `end`,
  /// while the next tile is copied to workgroup memory. `beginColumns` must
  /// have started the copy of the first tile. If a warp does not see all ranges
  /// of a tile, its `compute` gets one range at a time, so that `compute` must
  /// contain no barrier of the thread block.
  Values forColumns(Value begin, Value end, Values init, Copy copy,
                    Compute compute);
  /// `memory` has two buffers of `columns` rows each: one is multiplied while
  /// the other is filled. Returns the rows of buffer `stage` (0 or 1).
  SharedRows columnsOf(Value memory, Value stage);
  SharedRows columnsOf(Value memory, const ColumnTile &tile);
  /// The place of the tile's first column in the two buffers.
  Value placeOf(const ColumnTile &tile);
  /// Whether rows of a thread block see different columns of the layout, so
  /// that each warp leaves out those that its rows do not see.
  bool hasRowsOfManyBlocks() const {
    return spec.block && rowsOfBlock() > spec.block;
  }
  /// The rows of this thread block.
  RowRanges ownRows() const {
    return spec.block ? RowRanges(firstRows) : RowRanges(firstRow);
  }
  /// With a layout: finds `firstOfWarp`. If it is found again after the loop,
  /// it needs no register within.
  void placeWarp();
  Value ballot(Value condition);
  /// How many of the bits of `lanes` are of lower lanes than this one.
  Value bitsOfLowerLanes(Value lanes);
  /// Numbers (i32) in scratch memory.
  Value numbersAt(int64_t offset, int64_t count);
  /// The rows that are masked together: those of the warp if warps see
  /// different columns, else those of the thread block.
  Value firstMasked() const {
    return hasRowsOfManyBlocks() ? firstOfWarp : firstRow;
  }
  int64_t rowsMasked() const {
    return hasRowsOfManyBlocks() ? warpRows : rowsOfBlock();
  }

  /// If a head's features are split into slices: allocates two buffers in
  /// workgroup memory for slices of rows, and two for slices of columns.
  /// Returns the buffers of rows. After the loop, they may be the `staging`
  /// memory of `storeRows`.
  Value allocateSlices();
  bool isSliced() const { return slices > 1; }
  /// Whether this block computes the first slice. Several blocks compute slices
  /// of the same row; the block of the first slice also does the work that is
  /// needed once for each row.
  Value isFirstSlice() { return i32.less(firstFeature, 1); }
  /// If a head's features are split into slices: returns the products of two
  /// blocks of rows, summed over all slices of features. `rows` are the rows
  /// for which this thread block computes results. `others` are the rows of the
  /// current block of columns. One of the two has queries or output gradients,
  /// the other keys or values.
  WarpTile multiplySlices(const HeadRows &rows, const HeadRows &others);
  /// If a head's features are split into slices: copies this block's slice of
  /// the features of `others` to workgroup memory. `others` are keys or values
  /// if the block's rows are queries, and queries or output gradients if its
  /// rows are keys. Returns the copy. It overwrites buffer `place` (0 or 1) of
  /// the slices of columns.
  SharedRows ownSlice(const HeadRows &others, int64_t place);

  /// Returns the last column of a tile.
  Value lastOf(const ColumnTile &tile) {
    return i32.add(tile.ranges.firsts.back(), tile.rangeLength() - 1);
  }
  /// Masks scores: sets an element to minus infinity if its query does not see
  /// its key. `tileColumns` are the columns of the tile; each row has a bound
  /// in `bounds`. Without `below`, an element is masked if its column is less
  /// than the bound of its row; with `below`, if its column is not less than
  /// the bound. `isFull` tells at run time that no element is masked.
  void hide(WarpTile &tile, const ColumnTile &tileColumns, Value isFull,
            llvm::ArrayRef<Value> bounds, bool below);
  /// If keys can be too old for a query: masks the elements of `tile` whose key
  /// is too old for their query. The columns of the tile are keys.
  void hideTooOldKeys(WarpTile &tile, const ColumnTile &keys);
  /// With a soft cap: returns the capped score for a product of a query and a
  /// key, in units of log 2.
  Value capped(Value product);
  /// Returns 2^t. The exponent t must be negative, or at most slightly above 0.
  Value exp2(Value t) {
    return gpu::exp2(f.builder, f.loc, spec.elementType, t);
  }
  Value constant(double value);
  Value mulF(Value a, Value b);
  /// a b + c, rounded once.
  mlir::Value fmaF(mlir::Value a, double b, mlir::Value c);
  Value addF(Value a, Value b);
  Value subF(Value a, Value b);

  /// For dropout: loads the seed and the step, and computes the index of the
  /// first random number of this head.
  void prepareRandom(Value head);
  /// Returns for each element of a tile of scores whether dropout keeps it. The
  /// tile begins at row `row`.
  Values keep(const WarpTile &tile, Value row, const ColumnTile &tileColumns,
              bool keysAreColumns);

  /// Stores sums as rows of a head, each row multiplied by its factor. The sums
  /// pass through `staging`, a tile in workgroup memory. No other warp may read
  /// the rows of this tile that belong to this warp.
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
  int64_t columns = 0; ///< Columns of a tile of them.
  bool keepsLeft = false;
  OrderScratch orderScratch;
  Value thread, warp, batch, headOfBlock, firstRow; ///< i32
  /// With a layout: the first rows of the blocks that a thread block has rows
  /// of, or the first row of its part of one.
  Values firstRows;
  Value firstOfWarp;                                ///< First row of the warp.
  int64_t slices = 1;
  Value firstFeature; ///< First feature of the block's slice.

private:
  int64_t sharedBytesFor(const Needs &needs) const;
  void copyRange(const SharedRows &to, int64_t count, const HeadRows &from,
                 Value feature);
  void copyNumbers(Value to, Value at, int64_t count, Value from, Value head,
                   Value first);
  void copyAccess(const SharedRows &to, const HeadRows &from, Value feature,
                  Value access, int64_t width);
  bool copyInSteps(const SharedRows &to, int64_t count, const HeadRows &from,
                   Value feature, int64_t width);
  void copyElements(Value to, mlir::ValueRange target, Value from, Value source,
                    int64_t width, Value count);
  int64_t rangeLength() const;
  int64_t numRanges() const;
  int64_t numLayoutRows() const;
  int64_t allRanges() const;
  int64_t listLength() const;
  bool isListedInParts() const;
  Values entriesAt(Value place);
  Value firstOf(Value entry);
  RowRanges tileAt(Value place);
  Value columnAt(const ColumnTile &tileColumns, Value lane, int64_t offset);
  Value blockInOrder(Value place);
  void placeRows(bool areKeys);
  Value loadBits(int64_t row, Value word);
  Value rowsThatSee(Value column);
  Value anyRowOf(Value word);
  std::pair<Value, Value> takeLowestBit(Value bits);
  Value listSome(Value base, Value begin, Value end, Value count);
  Value listWords(Value begin, Value end);
  Value listRanges(Value begin, Value end);
  Values forTiles(Value begin, Value end, Values init, Copy copy,
                  Compute compute);
  Values computeSeen(Value place, Value stage, mlir::ValueRange carried,
                     Compute compute);
  Values computeRanges(Value place, Value stage, Value seen,
                       mlir::ValueRange carried, Compute compute);
  void storeChunk(const WarpTile &sums, int64_t i, int64_t j, Value factor,
                  const Heads &to, Value head, Value row);
  void storeWide(const WarpTile &sums, llvm::ArrayRef<Value> factors,
                 const Heads &to, Value head, Value staging);
  Values rounded(const WarpTile &sums, int64_t i, int64_t j, Value factor);
  Values philox(Value block);
  Value kept(Value word);
  Values keepShared(const WarpTile &tile, Value row,
                    const ColumnTile &tileColumns, bool keysAreColumns);
  Values keepApart(const WarpTile &tile, Value row,
                   const ColumnTile &tileColumns, bool keysAreColumns);
  Value allocate(llvm::ArrayRef<int64_t> shape, mlir::Type element);

  Value sharedMemory;
  Value rowSlices, columnSlices; ///< Two buffers of each.
  /// With a layout: where this thread block's table begins in the order.
  Value tableBegin;
  /// With a layout: the list of ranges in workgroup memory, and how many there
  /// are; the columns that are listed.
  Value list, listed, listBegin, listEnd;
  /// The bits of the thread block's rows of the layout: for each row the index
  /// of its first word in `rowBits`, and the bit of the rank's first column.
  /// If the rows are keys, these are columns of the layout.
  Value rowBits, firstBit;
  Values rowWords;
  /// For each row of the layout: the end of the columns that it may see.
  Values rowEnds;
  /// If the rows are keys: the first column that each may see.
  Values rowBegins;
  int64_t sharedBytes = 0;
  mlir::SmallVector<std::pair<Value, Value>> roundKeys;
  Value step, stream, firstRandom;
};

/// Maps the launch that sorts the rows of attention with a layout. It has to
/// run before the others.
MappedLaunch mapAttentionOrder(planir::KernelOp kernel,
                               mlir::gpu::GPUModuleOp module,
                               nn::AttentionOpInterface op,
                               const FrameOptions &options);
/// Maps nn.attention_grad, for `mapAttention`.
MappedKernel mapAttentionGrad(planir::KernelOp kernel,
                              mlir::gpu::GPUModuleOp module,
                              nn::AttentionGradOp op);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_ATTENTIONMAPPER_H
