//===- PagedMmaTiles.cpp - Attention over pages by mma.sync ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The products of attention over a paged cache on tensor cores that multiply
// 16-bit elements.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"
#include "PagedTiles.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// Tiles of 16-bit elements, multiplied by mma.sync m16n8k16. Of every 16 rows,
/// a thread has elements of two: row lane / 4 and row lane / 4 + 8. Of every
/// eight columns, it has two adjacent ones, which begin at column 2 * (lane mod
/// 4).
class PagedMmaTiles : public PagedTiles {
public:
  PagedMmaTiles(ThreadCode &c, const NarrowMmaUnit &unit,
                const PagedShape &shape)
      : PagedTiles(c, shape, /*rows=*/shape.queries / 8,
                   /*columns=*/chunkKeys / 4, /*lanes=*/4,
                   /*sumRows=*/shape.queries / 8,
                   /*sumColumns=*/shape.featuresOfWarp() / 4),
        unit(unit), rowTiles(shape.queries / mmaM) {}

  int64_t scoreIndex(int64_t row, int64_t column) const override {
    return indexIn(chunkKeys, row, column);
  }
  Value scoreRow(int64_t i) override { return c.add(c.div(lane, 4), 8 * i); }
  Value scoreKey(int64_t j) override { return columnOf(j); }
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

private:
  /// The index of an element among the sums of mma.sync, whose tiles of 16 x 8
  /// elements have four values in each thread.
  int64_t indexIn(int64_t columns, int64_t row, int64_t column) const {
    int64_t tile = row / 2 * (columns / mmaN) + column / 2;
    return 4 * tile + row % 2 * 2 + column % 2;
  }
  Value columnOf(int64_t j) {
    return c.add(c.mul(c.rem(lane, 4), 2), j / 2 * 8 + j % 2);
  }
  Values leftFragment(Value tile, int64_t rowBytes, int64_t rowTile,
                      int64_t column);
  Values rightFragments(Value tile, int64_t rowBytes, int64_t row,
                        Value column);
  void multiplyStep(Values &sums, Value left, int64_t leftBytes,
                    int64_t leftColumn, Value right, int64_t rightBytes,
                    int64_t rightRow, Value firstColumn, int64_t columns);

  const NarrowMmaUnit &unit;
  int64_t rowTiles;
};
} // namespace

/// Loads a left fragment: 16 rows, from column `column` on.
PagedTiles::Values PagedMmaTiles::leftFragment(Value tile, int64_t rowBytes,
                                               int64_t rowTile,
                                               int64_t column) {
  Value row = c.add(c.rem(lane, 16), rowTile * mmaM);
  Value inRow = c.add(c.mul(c.div(lane, 16), 8), column);
  return loadMatrices(c, at(tile, row, rowBytes, inRow), /*transpose=*/false);
}

/// Loads two adjacent right fragments: rows `row` to `row` + 15 along k, and 16
/// columns. The first two of the four matrices are rows 0-7 and 8-15 of the
/// first eight columns.
PagedTiles::Values PagedMmaTiles::rightFragments(Value tile, int64_t rowBytes,
                                                 int64_t row, Value column) {
  Value inTile = c.add(c.rem(lane, 16), row);
  Value inRow = c.add(c.mul(c.div(lane, 16), 8), column);
  return loadMatrices(c, at(tile, inTile, rowBytes, inRow),
                      /*transpose=*/true);
}

/// Adds the products over 16 elements along k: columns of `left` from
/// `leftColumn` on, and rows of `right` from `rightRow` on.
void PagedMmaTiles::multiplyStep(Values &sums, Value left, int64_t leftBytes,
                                 int64_t leftColumn, Value right,
                                 int64_t rightBytes, int64_t rightRow,
                                 Value firstColumn, int64_t columns) {
  SmallVector<Values> lefts;
  for (int64_t tile = 0; tile < rowTiles; ++tile)
    lefts.push_back(leftFragment(left, leftBytes, tile, leftColumn));
  for (int64_t column = 0; column < columns; column += 2 * mmaN) {
    Values both =
        rightFragments(right, rightBytes, rightRow, c.add(firstColumn, column));
    for (int64_t tile = 0; tile < rowTiles; ++tile)
      for (int64_t half = 0; half < 2; ++half) {
        int64_t number = tile * (columns / mmaN) + column / mmaN + half;
        unit.multiply(c, lefts[tile], ArrayRef(both).slice(2 * half, 2),
                      MutableArrayRef(sums).slice(4 * number, 4));
      }
  }
}

void PagedMmaTiles::addScores(Values &scores, Value queries, Value keys,
                              int64_t first, int64_t count) {
  Value chunk = c.mul(warp, chunkKeys);
  for (int64_t k = 0; k < count; k += unit.depth())
    multiplyStep(scores, queries, shape.queryBytes(), first + k, keys,
                 shape.keyBytes(), k, chunk, chunkKeys);
}

void PagedMmaTiles::storePowers(const Values &scores, Value powers, int64_t i) {
  Value row = scoreRow(i), chunk = c.mul(warp, chunkKeys);
  auto pair = VectorType::get({2}, shape.element);
  for (int64_t j = 0; j < scoreColumns(); j += 2) {
    // The intrinsic puts its second operand into the lower half of the result.
    Value rounded =
        c.call(unit.rounding(), pair,
               {scores[scoreIndex(i, j + 1)], scores[scoreIndex(i, j)]});
    c.store(rounded,
            at(powers, row, shape.powerBytes(), c.add(chunk, scoreKey(j))));
  }
}

void PagedMmaTiles::addValues(Values &sums, Value powers, Value values,
                              int64_t first, int64_t count) {
  int64_t columns = shape.featuresOfWarp();
  Value firstFeature = c.mul(warp, columns);
  for (int64_t k = 0; k < count; k += unit.depth())
    multiplyStep(sums, powers, shape.powerBytes(), first + k, values,
                 shape.valueBytes(), k, firstFeature, columns);
}

std::unique_ptr<PagedTiles> createPagedMmaTiles(ThreadCode &c,
                                                const NarrowMmaUnit &unit,
                                                const PagedShape &shape) {
  return std::make_unique<PagedMmaTiles>(c, unit, shape);
}

} // namespace heddle::gpu
