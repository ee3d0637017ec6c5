//===- FmaTiles.cpp - Attention's products by FMA -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tiles of attention's products in f32.
//
//===----------------------------------------------------------------------===//

#include "WarpTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// Tiles of f32, multiplied by FMA. A thread has elements of row lane / 8 and
/// of every fourth row after it. In results of `multiply`, it has every eighth
/// column from column lane mod 8 on. In sums of `accumulate`, it has four
/// adjacent columns of every 32.
class FmaTiles : public WarpTiles {
public:
  FmaTiles(KernelFrame &frame, Type element, int64_t width)
      : WarpTiles(frame, element, /*rows=*/4, /*lanes=*/8,
                  llvm::alignTo(width, 32)),
        depth(llvm::alignTo(width, 4)) {}

  Value row(int64_t i) override { return i32.add(i32.div(lane, 8), 4 * i); }
  Value firstColumn() override { return i32.rem(lane, 8); }
  int64_t columnOffset(int64_t j) override { return 8 * j; }
  Value firstSumColumn() override { return i32.mul(i32.rem(lane, 8), 4); }
  int64_t sumColumnOffset(int64_t j) override { return j / 4 * 32 + j % 4; }
  int64_t chunk() const override { return 4; }
  RandomShares randomShares(bool keysAreColumns) override;
  LeftRows left(const SharedRows &rows, bool) override { return {rows, {}}; }
  WarpTile multiply(const LeftRows &left, const SharedRows &right,
                    int64_t columns) override;
  void accumulate(WarpTile &sums, const WarpTile &weights,
                  const SharedRows &right) override;

private:
  /// The number of products that `multiply` adds to one partial sum before it
  /// begins a new one.
  static constexpr int64_t partDepth = 16;

  WarpTile multiplyPart(const LeftRows &left, const SharedRows &right,
                        int64_t columns, Value begin, int64_t count);
  SmallVector<Value> four(const SharedRows &rows, Value row, Value column);

  int64_t depth;
};
} // namespace

RandomShares FmaTiles::randomShares(bool keysAreColumns) {
  RandomShares shares;
  shares.sourceOf = [](int64_t i, int64_t j) -> RandomShares::WordSource {
    return {i, j, 0};
  };
  // Philox draws the random words for a query and four adjacent keys together.
  if (keysAreColumns) {
    // Four adjacent lanes hold elements of the same four keys (columns) and the
    // same four queries (rows). Each lane draws the words for one query.
    Value mine = i32.rem(lane, 4), first = i32.sub(lane, mine);
    shares.row = i32.add(i32.div(lane, 8), i32.mul(mine, 4));
    shares.column = i32.mul(i32.div(i32.rem(lane, 8), 4), 4);
    for (int64_t source = 0; source < 4; ++source)
      shares.lanes.push_back(i32.add(first, source));
    shares.key = mine;
    return shares;
  }
  // Four lanes hold elements of the same query (column) and the same 16 keys
  // (rows). Each lane draws the words for four of the keys.
  Value mine = i32.div(lane, 8), first = i32.rem(lane, 8);
  shares.row = i32.mul(mine, 4);
  shares.column = first;
  for (int64_t source = 0; source < 4; ++source)
    shares.lanes.push_back(i32.add(first, 8 * source));
  shares.key = mine;
  return shares;
}

SmallVector<Value> FmaTiles::four(const SharedRows &rows, Value row,
                                  Value column) {
  Value vector = at(rows, row, column, VectorType::get({4}, element));
  SmallVector<Value> elements;
  for (int64_t i = 0; i < 4; ++i)
    elements.push_back(f.builder.create<vector::ExtractOp>(f.loc, vector, i));
  return elements;
}

/// Adds partial sums of a few products each, which accumulates fewer rounding
/// errors than one long sum of all products.
WarpTile FmaTiles::multiply(const LeftRows &left, const SharedRows &right,
                            int64_t columns) {
  OpBuilder &b = f.builder;
  auto addTo = [&](WarpTile &sums, const WarpTile &part) {
    for (auto [sum, more] : llvm::zip(sums.elements, part.elements))
      sum = b.create<arith::AddFOp>(f.loc, sum, more);
  };
  int64_t rest = depth % partDepth;
  if (depth < partDepth)
    return multiplyPart(left, right, columns, i32.constant(0), rest);
  WarpTile sums =
      multiplyPart(left, right, columns, i32.constant(0), partDepth);
  auto loop = b.create<scf::ForOp>(
      f.loc, i32.constant(partDepth), i32.constant(depth - rest),
      i32.constant(partDepth), sums.elements,
      [&](OpBuilder &, Location, Value begin, ValueRange carried) {
        sums.elements.assign(carried.begin(), carried.end());
        addTo(sums, multiplyPart(left, right, columns, begin, partDepth));
        b.create<scf::YieldOp>(f.loc, sums.elements);
      });
  sums.elements.assign(loop.getResults().begin(), loop.getResults().end());
  if (rest)
    addTo(sums,
          multiplyPart(left, right, columns, i32.constant(depth - rest), rest));
  return sums;
}

/// Computes one partial sum of each element of the product: the terms of
/// features `begin` to `begin` + `count` (exclusive).
WarpTile FmaTiles::multiplyPart(const LeftRows &left, const SharedRows &right,
                                int64_t columns, Value begin, int64_t count) {
  OpBuilder &b = f.builder;
  WarpTile sums{4, columns / 8, {}};
  sums.elements.resize(sums.rows * sums.columns);
  for (int64_t k = 0; k < count; k += 4) {
    Value first = i32.add(begin, k);
    SmallVector<SmallVector<Value>> rows;
    for (int64_t i = 0; i < sums.rows; ++i)
      rows.push_back(four(left.rows, row(i), first));
    for (int64_t j = 0; j < sums.columns; ++j) {
      Value at = i32.add(firstColumn(), columnOffset(j));
      SmallVector<Value> column = four(right, at, first);
      for (int64_t i = 0; i < sums.rows; ++i)
        for (auto [x, y] : llvm::zip(rows[i], column)) {
          Value &sum = sums.at(i, j);
          sum = sum ? b.create<math::FmaOp>(f.loc, x, y, sum).getResult()
                    : b.create<arith::MulFOp>(f.loc, x, y).getResult();
        }
    }
  }
  return sums;
}

void FmaTiles::accumulate(WarpTile &sums, const WarpTile &weights,
                          const SharedRows &right) {
  OpBuilder &b = f.builder;
  Value firstOfRow = i32.sub(lane, i32.rem(lane, 8));
  auto loop = b.create<scf::ForOp>(
      f.loc, i32.constant(0), i32.constant(8), i32.constant(1), sums.elements,
      [&](OpBuilder &, Location, Value part, ValueRange carried) {
        sums.elements.assign(carried.begin(), carried.end());
        Value holder = i32.add(firstOfRow, part);
        for (int64_t k = 0; k < weights.columns; ++k) {
          SmallVector<Value> factors;
          for (int64_t i = 0; i < sums.rows; ++i)
            factors.push_back(shuffle(weights.at(i, k), holder));
          Value row = i32.add(part, columnOffset(k));
          for (int64_t j = 0; j < sums.columns; j += 4) {
            Value column = i32.add(firstSumColumn(), sumColumnOffset(j));
            SmallVector<Value> values = four(right, row, column);
            for (int64_t i = 0; i < sums.rows; ++i)
              for (int64_t c = 0; c < 4; ++c)
                sums.at(i, j + c) = b.create<math::FmaOp>(
                    f.loc, factors[i], values[c], sums.at(i, j + c));
          }
        }
        b.create<scf::YieldOp>(f.loc, sums.elements);
      });
  sums.elements.assign(loop.getResults().begin(), loop.getResults().end());
}

std::unique_ptr<WarpTiles> createFmaTiles(KernelFrame &frame, Type element,
                                          int64_t width) {
  return std::make_unique<FmaTiles>(frame, element, width);
}

} // namespace heddle::gpu
