//===- PagedTiles.h - Products of attention over pages ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The matrix products of attention over a paged cache. A block has a tile of
// queries in shared memory, and computes attention over one part of the keys at
// a time. Each of its warps has one chunk of the part's keys:
//
//   scores   S = Q K^T   a warp computes the scores of its chunk
//   powers   P           the warps exchange them through shared memory
//   sums     O = P V     a warp computes some features, over all keys
//
// The order of additions of an element depends neither on the number of
// queries nor on the other elements, so that tiles of different sizes yield the
// same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PAGEDTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_PAGEDTILES_H

#include "KernelFrame.h"
#include "ThreadCode.h"
#include "dialects/Dist/ByteSize.h"

namespace heddle::gpu {

/// The number of keys in the chunk of a warp.
constexpr int64_t chunkKeys = 64;
/// The number of features in a slice of keys, which is loaded at a time.
constexpr int64_t sliceFeatures = 32;

/// The sizes of a block's tiles in shared memory. The lengths of their rows are
/// odd multiples of 16 bytes, which avoids bank conflicts.
struct PagedShape {
  mlir::Type element; ///< The type in which operands are multiplied.
  /// The type of keys and values in their tiles: that of operands, or i8 for
  /// codes, which become operands after they are loaded from a tile.
  mlir::Type stored;
  int64_t queries;    ///< The rows of the tile of queries.
  int64_t dims;       ///< The features of a head.
  int64_t warps;      ///< Also the number of chunks of keys.

  int64_t bytes() const { return dist::byteSize(element); }
  int64_t storedBytes() const { return dist::byteSize(stored); }
  bool hasCodes() const { return stored != element; }
  int64_t keys() const { return warps * chunkKeys; }
  /// The number of features for which one warp computes sums.
  int64_t featuresOfWarp() const {
    constexpr int64_t unit = 16;
    return unit * llvm::divideCeil(dims, unit * warps);
  }
  /// The features of a tile, including zeros that pad it: of queries and keys,
  /// and of values.
  int64_t scoreFeatures() const { return llvm::alignTo(dims, 16); }
  int64_t sumFeatures() const { return llvm::alignTo(dims, featuresOfWarp()); }
  /// The bytes of a row of each tile: a query, the powers of a query, a feature
  /// of all keys, and a value.
  int64_t queryBytes() const { return rowBytes(scoreFeatures() * bytes()); }
  int64_t powerBytes() const { return rowBytes(keys() * bytes()); }
  int64_t keyBytes() const { return rowBytes(keys() * storedBytes()); }
  int64_t valueBytes() const { return rowBytes(sumFeatures() * storedBytes()); }

private:
  static int64_t rowBytes(int64_t least) {
    return (llvm::divideCeil(least, accessBytes) | 1) * accessBytes;
  }
};

/// The layout of tiles in a thread's registers, and products of such tiles.
/// Subclasses multiply on one kind of unit.
class PagedTiles {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  virtual ~PagedTiles() = default;

  /// The number of rows, and of keys of its chunk, for which a thread has
  /// scores.
  int64_t scoreRows() const { return threadRows; }
  int64_t scoreColumns() const { return threadColumns; }
  /// The number of values in the registers of a thread that has these scores,
  /// and of one that has sums. Some may belong to no row.
  virtual int64_t scoreValues() const { return threadRows * threadColumns; }
  virtual int64_t sumValues() const { return threadSumRows * threadSumColumns; }
  /// The index of a score among the thread's scores.
  virtual int64_t scoreIndex(int64_t row, int64_t column) const = 0;
  /// The tile's row of the thread's row `i`, and the key, in the warp's chunk,
  /// of the thread's column `j`.
  virtual Value scoreRow(int64_t i) = 0;
  virtual Value scoreKey(int64_t j) = 0;
  /// Columns form groups of `scoreChunk` adjacent keys.
  virtual int64_t scoreChunk() const = 0;
  /// The key, in a tile of values, whose value is in row `row` of the tile. The
  /// powers of a query have the same order.
  virtual Value keyOfRow(Value row) { return row; }
  /// Adds to `scores` the products of queries and keys over the features
  /// `first` to `first` + `count`. `keys` is the tile of these features.
  virtual void addScores(Values &scores, Value queries, Value keys,
                         int64_t first, int64_t count) = 0;
  /// Stores the powers of the thread's row `i`, rounded to the element type.
  virtual void storePowers(const Values &scores, Value powers, int64_t i) = 0;
  /// Whether this lane is the first of the lanes that have scores of a row.
  Value isFirstOfRow() { return c.less(c.rem(lane, rowLanes), 1); }
  /// Combines the values of all lanes that have scores of a row.
  Value acrossRow(Value value, llvm::function_ref<Value(Value, Value)> combine);

  /// The number of rows for which a thread has sums of features, and the number
  /// of sums of each of these rows.
  int64_t sumRows() const { return threadSumRows; }
  int64_t sumColumns() const { return threadSumColumns; }
  /// The tile's row of the thread's row `i`.
  virtual Value sumRow(int64_t i) = 0;
  /// Whether the row exists; null if it always does.
  virtual Value sumRowExists(int64_t i) = 0;
  virtual int64_t sumIndex(int64_t row, int64_t column) const = 0;
  /// The feature of the thread's column `j`. Columns form groups of
  /// `sumChunk` adjacent features.
  virtual Value sumFeature(int64_t j) = 0;
  virtual int64_t sumChunk() const = 0;
  /// Adds to `sums` the products of powers and values of the keys `first` to
  /// `first` + `count`. `values` is the tile of these keys.
  virtual void addValues(Values &sums, Value powers, Value values,
                         int64_t first, int64_t count) = 0;

protected:
  /// `rows`, `columns`: the scores of a thread. `lanes`: the number of adjacent
  /// lanes that have scores of the same rows. `sumRows`, `sumColumns`: the sums
  /// of a thread.
  PagedTiles(ThreadCode &c, const PagedShape &shape, int64_t rows,
             int64_t columns, int64_t lanes, int64_t sumRows,
             int64_t sumColumns);

  /// The pointer `tile` plus `row` rows of `rowBytes` bytes plus `column`
  /// elements of the element type.
  Value at(Value tile, Value row, int64_t rowBytes, Value column);

  ThreadCode &c;
  PagedShape shape;
  Value lane, warp;

private:
  int64_t threadRows, threadColumns, rowLanes, threadSumRows, threadSumColumns;
};

class NarrowMmaUnit;

/// The most rows of a tile of queries whose products tensor cores compute, and
/// whose products FMA computes.
constexpr int64_t mostMmaQueries = 32, mostFmaQueries = 16;

/// Tiles whose products are computed by mma.sync of `unit`, or by FMA. The
/// latter multiply no codes.
std::unique_ptr<PagedTiles> createPagedMmaTiles(ThreadCode &c,
                                                const NarrowMmaUnit &unit,
                                                const PagedShape &shape);
std::unique_ptr<PagedTiles> createPagedFmaTiles(ThreadCode &c,
                                                const PagedShape &shape);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PAGEDTILES_H
