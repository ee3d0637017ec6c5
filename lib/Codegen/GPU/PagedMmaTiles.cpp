//===- PagedMmaTiles.cpp - Attention over pages by mma.sync ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The products of attention over a paged cache on tensor cores that multiply
// 16-bit elements. int8 codes of the cache become such elements after they are
// loaded from shared memory.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"
#include "PackedTiles.h"
#include "PagedTiles.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// Tiles of 16-bit elements, multiplied by mma.sync m16n8k16. Of every 16 rows,
/// a thread has elements of two: row lane / 4 and row lane / 4 + 8. Of every
/// eight columns, it has two adjacent ones, which begin at column 2 * (lane mod
/// 4). A tile of eight queries has only the first eight rows; the others are
/// zero in registers.
class PagedMmaTiles : public PagedTiles {
public:
  PagedMmaTiles(ThreadCode &c, const NarrowMmaUnit &unit,
                const PagedShape &shape)
      : PagedTiles(c, shape, /*rows=*/shape.queries / 8,
                   /*columns=*/chunkKeys / 4, /*lanes=*/4,
                   /*sumRows=*/shape.queries / 8,
                   /*sumColumns=*/shape.featuresOfWarp() / 4),
        unit(unit), rowTiles(llvm::divideCeil(shape.queries, mmaM)) {}

  int64_t scoreValues() const override {
    return 4 * rowTiles * (chunkKeys / mmaN);
  }
  int64_t sumValues() const override {
    return 4 * rowTiles * (shape.featuresOfWarp() / mmaN);
  }

  int64_t scoreIndex(int64_t row, int64_t column) const override {
    return indexIn(chunkKeys, row, column);
  }
  Value scoreRow(int64_t i) override { return c.add(c.div(lane, 4), 8 * i); }
  Value scoreKey(int64_t j) override { return columnOf(j); }
  int64_t scoreChunk() const override { return 2; }
  void addScores(Values &scores, Value queries, Value keys, int64_t first,
                 int64_t count) override;
  void storePowers(const Values &scores, Value powers, int64_t i) override;

  Value sumRow(int64_t i) override { return scoreRow(i); }
  Value sumRowExists(int64_t) override { return {}; }
  int64_t sumIndex(int64_t row, int64_t column) const override {
    return indexIn(shape.featuresOfWarp(), row, column);
  }
  Value sumFeature(int64_t j) override {
    return c.add(c.mul(warp, shape.featuresOfWarp()), columnOf(j));
  }
  int64_t sumChunk() const override { return 2; }
  void addValues(Values &sums, Value powers, Value values, int64_t first,
                 int64_t count) override;

protected:
  /// The n-tile of the thread's column `j`, and which of the two elements it is
  /// that the thread has of a row of this n-tile. `columnOf` returns the column
  /// of the whole tile.
  virtual std::pair<int64_t, int64_t> inTiles(int64_t j) const {
    return {j / 2, j % 2};
  }
  virtual Value columnOf(int64_t j) {
    return c.add(c.mul(c.rem(lane, 4), 2), j / 2 * 8 + j % 2);
  }
  /// Loads fragments of adjacent n-tiles: `depth` rows, 16 or 32 along k, from
  /// row `row` on, and at most `columns` columns from `column` on. An element
  /// of the result has the fragments of an n-tile, one after the other.
  virtual SmallVector<Values> rightFragments(Value tile, int64_t rowBytes,
                                             int64_t row, int64_t depth,
                                             Value column, int64_t columns);
  /// Whether steps of 32 rows along k load right fragments of `columns` columns
  /// by fewer instructions.
  virtual bool prefersDeepSteps(int64_t columns) const { return false; }

private:
  /// The index of an element among the sums of mma.sync, whose tiles of 16 x 8
  /// elements have four values in each thread.
  int64_t indexIn(int64_t columns, int64_t row, int64_t column) const {
    auto [tile, element] = inTiles(column);
    return 4 * (row / 2 * (columns / mmaN) + tile) + row % 2 * 2 + element;
  }
  Values leftFragments(Value tile, int64_t rowBytes, int64_t rowTile,
                       int64_t column, int64_t depth);
  void multiply(Values &sums, Value left, int64_t leftBytes, int64_t leftColumn,
                Value right, int64_t rightBytes, int64_t count,
                Value firstColumn, int64_t columns);

  const NarrowMmaUnit &unit;
  int64_t rowTiles;
};

/// Keys and values are int8 codes. ldmatrix loads pairs of codes as if they
/// were elements of 16 bits: of two rows, a thread gets the codes of an even
/// column and of the next column. So the even columns of every 16 columns form
/// one n-tile, and the odd columns the next one. A thread has four adjacent
/// columns of every 16.
class CodedMmaTiles : public PagedMmaTiles {
public:
  using PagedMmaTiles::PagedMmaTiles;

  int64_t scoreChunk() const override { return 4; }
  int64_t sumChunk() const override { return 4; }
  /// The powers of the keys of an n-tile are adjacent: those of eight even
  /// keys, then those of eight odd ones.
  Value keyOfRow(Value row) override {
    Value first = c.sub(row, c.rem(row, 16));
    Value inTile = c.mul(c.rem(row, 8), 2);
    return c.add(first, c.add(inTile, c.rem(c.div(row, 8), 2)));
  }

protected:
  std::pair<int64_t, int64_t> inTiles(int64_t j) const override {
    return {j / 4 * 2 + j % 2, j % 4 / 2};
  }
  Value columnOf(int64_t j) override {
    return c.add(c.mul(c.rem(lane, 4), 4), j / 4 * 16 + j % 4);
  }
  SmallVector<Values> rightFragments(Value tile, int64_t rowBytes, int64_t row,
                                     int64_t depth, Value column,
                                     int64_t columns) override;
  bool prefersDeepSteps(int64_t columns) const override {
    return columns % 32 != 0;
  }
};
} // namespace

/// Loads left fragments: 16 rows, or all 8, and `depth` columns from `column`
/// on.
PagedTiles::Values PagedMmaTiles::leftFragments(Value tile, int64_t rowBytes,
                                                int64_t rowTile, int64_t column,
                                                int64_t depth) {
  Values words;
  if (shape.queries < mmaM) {
    int64_t matrices = depth / 8;
    Value inRow = c.add(c.mul(c.rem(c.div(lane, 8), matrices), 8), column);
    for (Value word : loadMatrices(c, at(tile, c.rem(lane, 8), rowBytes, inRow),
                                   /*transpose=*/false, matrices))
      words.append({word, c.constant(0)});
    return words;
  }
  Value row = c.add(c.rem(lane, 16), rowTile * mmaM);
  for (int64_t k = 0; k < depth; k += unit.depth()) {
    Value inRow = c.add(c.mul(c.div(lane, 16), 8), column + k);
    words.append(loadMatrices(c, at(tile, row, rowBytes, inRow),
                              /*transpose=*/false));
  }
  return words;
}

/// The first two of the four matrices are rows 0-7 and 8-15 of the first eight
/// columns.
SmallVector<PagedTiles::Values>
PagedMmaTiles::rightFragments(Value tile, int64_t rowBytes, int64_t row,
                              int64_t depth, Value column, int64_t) {
  SmallVector<Values> fragments(2);
  for (int64_t k = 0; k < depth; k += unit.depth()) {
    Value inTile = c.add(c.rem(lane, 16), row + k);
    Value inRow = c.add(c.mul(c.div(lane, 16), 8), column);
    Values words = loadMatrices(c, at(tile, inTile, rowBytes, inRow),
                                /*transpose=*/true);
    fragments[0].append({words[0], words[1]});
    fragments[1].append({words[2], words[3]});
  }
  return fragments;
}

/// A matrix has 8 rows of 16 columns. With 32 rows, four matrices are those of
/// the first 16 columns. With 16 rows, the first two matrices are, and two more
/// matrices are those of the next 16 columns, if there are any.
SmallVector<PagedTiles::Values>
CodedMmaTiles::rightFragments(Value tile, int64_t rowBytes, int64_t row,
                              int64_t depth, Value column, int64_t columns) {
  int64_t perColumns = depth / 8;
  int64_t matrices = std::min<int64_t>(4, columns / 16 * perColumns);
  Value inTile = c.add(c.rem(lane, depth), row), inRow = column;
  if (matrices > perColumns)
    inRow = c.add(c.mul(c.div(lane, depth), 16), column);
  Value from = c.at(tile, c.add(c.mul(inTile, rowBytes), inRow));
  Values words = loadMatrices(c, from, /*transpose=*/true, matrices);
  Value offsets = codeOffsets(c, 8, shape.element, /*zero=*/{});
  SmallVector<Values> fragments;
  for (int64_t i = 0; i < matrices; i += perColumns) {
    Values even, odd;
    for (Value word : ArrayRef(words).slice(i, perColumns)) {
      Values pairs =
          codePairs(c, 8, shape.element, word, offsets, CodeOrder::Alternate);
      even.push_back(pairs[0]);
      odd.push_back(pairs[1]);
    }
    fragments.append({even, odd});
  }
  return fragments;
}

/// Adds the products over `count` elements along k: columns of `left` from
/// `leftColumn` on, and the first rows of `right`.
void PagedMmaTiles::multiply(Values &sums, Value left, int64_t leftBytes,
                             int64_t leftColumn, Value right,
                             int64_t rightBytes, int64_t count,
                             Value firstColumn, int64_t columns) {
  bool isDeep = shape.queries < mmaM || prefersDeepSteps(columns);
  int64_t depth = isDeep && count % 32 == 0 ? 32 : unit.depth();
  for (int64_t k = 0; k < count; k += depth) {
    SmallVector<Values> lefts;
    for (int64_t tile = 0; tile < rowTiles; ++tile)
      lefts.push_back(
          leftFragments(left, leftBytes, tile, leftColumn + k, depth));
    for (int64_t column = 0; column < columns;) {
      SmallVector<Values> rights =
          rightFragments(right, rightBytes, k, depth,
                         c.add(firstColumn, column), columns - column);
      for (const Values &fragments : rights) {
        for (int64_t tile = 0; tile < rowTiles; ++tile) {
          int64_t number = (tile * columns + column) / mmaN;
          for (int64_t i = 0; i < depth / unit.depth(); ++i)
            unit.multiply(c, ArrayRef(lefts[tile]).slice(4 * i, 4),
                          ArrayRef(fragments).slice(2 * i, 2),
                          MutableArrayRef(sums).slice(4 * number, 4));
        }
        column += mmaN;
      }
    }
  }
}

void PagedMmaTiles::addScores(Values &scores, Value queries, Value keys,
                              int64_t first, int64_t count) {
  multiply(scores, queries, shape.queryBytes(), first, keys, shape.keyBytes(),
           count, c.mul(warp, chunkKeys), chunkKeys);
}

void PagedMmaTiles::storePowers(const Values &scores, Value powers, int64_t i) {
  Value column = c.add(c.mul(warp, chunkKeys), c.mul(c.rem(lane, 4), 2));
  Value to = at(powers, scoreRow(i), shape.powerBytes(), column);
  auto pair = VectorType::get({2}, shape.element);
  for (int64_t tile = 0; tile < chunkKeys / mmaN; ++tile) {
    int64_t first = 4 * (i / 2 * (chunkKeys / mmaN) + tile) + i % 2 * 2;
    // The intrinsic puts its second operand into the lower half of the result.
    Value rounded =
        c.call(unit.rounding(), pair, {scores[first + 1], scores[first]});
    c.store(rounded, c.at(to, tile * mmaN * shape.bytes()));
  }
}

void PagedMmaTiles::addValues(Values &sums, Value powers, Value values,
                              int64_t first, int64_t count) {
  int64_t columns = shape.featuresOfWarp();
  multiply(sums, powers, shape.powerBytes(), first, values, shape.valueBytes(),
           count, c.mul(warp, columns), columns);
}

std::unique_ptr<PagedTiles> createPagedMmaTiles(ThreadCode &c,
                                                const NarrowMmaUnit &unit,
                                                const PagedShape &shape) {
  if (shape.hasCodes())
    return std::make_unique<CodedMmaTiles>(c, unit, shape);
  return std::make_unique<PagedMmaTiles>(c, unit, shape);
}

} // namespace heddle::gpu
