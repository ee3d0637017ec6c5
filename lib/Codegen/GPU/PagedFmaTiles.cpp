//===- PagedFmaTiles.cpp - Attention over pages by FMA --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The products of attention over a paged cache in f32.
//
//===----------------------------------------------------------------------===//

#include "PagedTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// The number of elements of an access to shared memory.
constexpr int64_t width = 4;

/// Tiles of f32, multiplied by FMA. A thread has the scores of two adjacent
/// keys for all queries. It has the sums of four adjacent features for some of
/// the queries.
class PagedFmaTiles : public PagedTiles {
public:
  PagedFmaTiles(ThreadCode &c, const PagedShape &shape)
      : PagedTiles(c, shape, /*rows=*/shape.queries,
                   /*columns=*/chunkKeys / warpSize, /*lanes=*/warpSize,
                   /*sumRows=*/
                   llvm::divideCeil(shape.queries, rowGroups(shape)),
                   /*sumColumns=*/width * featureSteps(shape)) {}

  int64_t scoreIndex(int64_t row, int64_t column) const override {
    return row * scoreColumns() + column;
  }
  Value scoreRow(int64_t i) override { return c.constant(i); }
  Value scoreKey(int64_t j) override {
    return c.add(c.mul(lane, scoreColumns()), j);
  }
  int64_t scoreChunk() const override { return scoreColumns(); }
  void addScores(Values &scores, Value queries, Value keys, int64_t first,
                 int64_t count) override;
  void storePowers(const Values &scores, Value powers, int64_t i) override;

  Value sumRow(int64_t i) override {
    return c.add(c.div(lane, featureLanes(shape)), i * rowGroups(shape));
  }
  Value sumRowExists(int64_t i) override {
    // If the lanes do not divide evenly, the last ones have no row of their
    // own.
    int64_t groups = rowGroups(shape);
    Value exists = c.less(c.div(lane, featureLanes(shape)), groups);
    return c.both(exists, c.less(sumRow(i), shape.queries));
  }
  int64_t sumIndex(int64_t row, int64_t column) const override {
    return row * sumColumns() + column;
  }
  Value sumFeature(int64_t j) override {
    Value first = c.mul(warp, shape.featuresOfWarp());
    Value inWarp = c.mul(c.rem(lane, featureLanes(shape)), width);
    int64_t step = j / width * featureLanes(shape) * width;
    return c.add(c.add(first, inWarp), step + j % width);
  }
  int64_t sumChunk() const override { return width; }
  void addValues(Values &sums, Value powers, Value values, int64_t first,
                 int64_t count) override;

private:
  /// The lanes of a warp divide the warp's features among them, and the rows if
  /// there are more lanes. A lane has several groups of four features if a warp
  /// has more than 128.
  static int64_t featureSteps(const PagedShape &shape) {
    return llvm::divideCeil(shape.featuresOfWarp(), width * warpSize);
  }
  static int64_t featureLanes(const PagedShape &shape) {
    return llvm::divideCeil(shape.featuresOfWarp(),
                            width * featureSteps(shape));
  }
  static int64_t rowGroups(const PagedShape &shape) {
    return warpSize / featureLanes(shape);
  }
  Values four(Value pointer) {
    return c.elements(c.loadVector(shape.element, width, pointer));
  }
  /// Emits a loop over `count` elements, four in each iteration, that carries
  /// `sums`.
  void forFours(Values &sums, int64_t count,
                llvm::function_ref<void(Value, Values &)> body);
};
} // namespace

void PagedFmaTiles::forFours(Values &sums, int64_t count,
                             function_ref<void(Value, Values &)> body) {
  auto loop = c.builder.create<scf::ForOp>(
      c.loc, c.constant(0), c.constant(count), c.constant(width), sums,
      [&](OpBuilder &b, Location loc, Value first, ValueRange carried) {
        Values next(carried);
        body(first, next);
        b.create<scf::YieldOp>(loc, next);
      });
  sums.assign(loop.getResults().begin(), loop.getResults().end());
}

void PagedFmaTiles::addScores(Values &scores, Value queries, Value keys,
                              int64_t first, int64_t count) {
  Value column = c.add(c.mul(warp, chunkKeys), scoreKey(0));
  forFours(scores, count, [&](Value d, Values &sums) {
    SmallVector<Values> features;
    for (int64_t k = 0; k < width; ++k)
      features.push_back(c.elements(
          c.loadVector(shape.element, scoreColumns(),
                       at(keys, c.add(d, k), shape.keyBytes(), column))));
    for (int64_t i = 0; i < scoreRows(); ++i) {
      Values query =
          four(at(queries, c.constant(i), shape.queryBytes(), c.add(d, first)));
      for (int64_t k = 0; k < width; ++k)
        for (int64_t j = 0; j < scoreColumns(); ++j) {
          Value &sum = sums[scoreIndex(i, j)];
          sum = c.create<math::FmaOp>(query[k], features[k][j], sum);
        }
    }
  });
}

void PagedFmaTiles::storePowers(const Values &scores, Value powers, int64_t i) {
  Values row;
  for (int64_t j = 0; j < scoreColumns(); ++j)
    row.push_back(scores[scoreIndex(i, j)]);
  Value column = c.add(c.mul(warp, chunkKeys), scoreKey(0));
  c.storeVector(row, at(powers, c.constant(i), shape.powerBytes(), column));
}

void PagedFmaTiles::addValues(Values &sums, Value powers, Value values,
                              int64_t first, int64_t count) {
  // Rows that do not exist read the last row of the tile.
  Values rows;
  Value last = c.constant(shape.queries - 1);
  for (int64_t i = 0; i < sumRows(); ++i)
    rows.push_back(c.create<arith::MinSIOp>(sumRow(i), last));
  forFours(sums, count, [&](Value key, Values &next) {
    SmallVector<Values> weights;
    for (Value row : rows)
      weights.push_back(
          four(at(powers, row, shape.powerBytes(), c.add(key, first))));
    for (int64_t k = 0; k < width; ++k)
      for (int64_t j = 0; j < sumColumns(); j += width) {
        Values features =
            four(at(values, c.add(key, k), shape.valueBytes(), sumFeature(j)));
        for (int64_t i = 0; i < sumRows(); ++i)
          for (int64_t e = 0; e < width; ++e) {
            Value &sum = next[sumIndex(i, j + e)];
            sum = c.create<math::FmaOp>(weights[i][k], features[e], sum);
          }
      }
  });
}

std::unique_ptr<PagedTiles> createPagedFmaTiles(ThreadCode &c,
                                                const PagedShape &shape) {
  return std::make_unique<PagedFmaTiles>(c, shape);
}

} // namespace heddle::gpu
