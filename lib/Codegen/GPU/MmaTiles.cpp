//===- MmaTiles.cpp - Attention's products by mma.sync --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tiles of attention's products for units of tensor cores that multiply
// 16-bit elements.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"
#include "WarpTiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// Tiles of 16-bit elements, multiplied by mma.sync m16n8k16. A thread has
/// elements of two rows: row lane / 4 and row lane / 4 + 8. Of every eight
/// columns, it has two adjacent ones, which begin at column 2 * (lane mod 4).
class MmaTiles : public WarpTiles {
public:
  MmaTiles(KernelFrame &frame, const NarrowMmaUnit &unit, Type element,
           int64_t width)
      : WarpTiles(frame, element, /*rows=*/2, /*lanes=*/4,
                  llvm::alignTo(width, warpColumns)),
        unit(unit), depth(unit.depth()) {}

  Value row(int64_t i) override { return i32.add(i32.div(lane, 4), 8 * i); }
  Value firstColumn() override { return i32.mul(i32.rem(lane, 4), 2); }
  int64_t columnOffset(int64_t j) override { return j / 2 * 8 + j % 2; }
  Value firstSumColumn() override { return firstColumn(); }
  int64_t sumColumnOffset(int64_t j) override { return columnOffset(j); }
  int64_t chunk() const override { return 2; }
  RandomShares randomShares(bool keysAreColumns) override;
  LeftRows left(const SharedRows &rows, bool keep) override;
  WarpTile multiply(const LeftRows &left, const SharedRows &right,
                    int64_t columns) override;
  void accumulate(WarpTile &sums, const WarpTile &weights,
                  const SharedRows &right) override;

private:
  Value loadMatrices(const SharedRows &rows, Value row, Value column,
                     bool transpose);
  Value leftFragment(const SharedRows &rows, int64_t first);
  Value leftFragment(const WarpTile &tile, int64_t first);
  Value half(Value fragments, int64_t first);
  Value fragmentsOf(ArrayRef<Value> rows);
  void multiplyAdd(Value left, Value right, WarpTile &sums, int64_t tile);

  const NarrowMmaUnit &unit;
  int64_t depth;
};
} // namespace

RandomShares MmaTiles::randomShares(bool keysAreColumns) {
  RandomShares shares;
  if (keysAreColumns) {
    // Two adjacent lanes hold elements of the same four keys (columns) and the
    // same two queries (rows). Philox draws the random words for a query and
    // four keys together. Each of the two lanes does so for one of the queries.
    Value mine = i32.rem(lane, 2), first = i32.sub(lane, mine);
    shares.row = i32.add(i32.div(lane, 4), i32.mul(mine, 8));
    shares.column = i32.mul(i32.div(i32.rem(lane, 4), 2), 4);
    shares.lanes = {first, i32.add(first, 1)};
    shares.sourceOf = [](int64_t i, int64_t j) -> RandomShares::WordSource {
      return {i, j / 2, j % 2};
    };
    shares.key = i32.mul(mine, 2);
    return shares;
  }
  // Four lanes hold elements of the same two queries (columns) and the same
  // eight keys (rows), which are two groups of four adjacent keys. Philox draws
  // the random words for a query and four keys together. Each of the four lanes
  // does so for one of the queries and one of the groups.
  Value mine = i32.rem(i32.div(lane, 4), 4);
  Value first = i32.sub(lane, i32.mul(mine, 4));
  shares.row =
      i32.add(i32.mul(i32.div(lane, 16), 4), i32.mul(i32.div(mine, 2), 8));
  shares.column = i32.add(firstColumn(), i32.rem(mine, 2));
  for (int64_t source = 0; source < 4; ++source)
    shares.lanes.push_back(i32.add(first, 4 * source));
  shares.sourceOf = [](int64_t i, int64_t j) -> RandomShares::WordSource {
    return {2 * i + j % 2, j / 2, 0};
  };
  shares.key = mine;
  return shares;
}

/// Loads four 8 x 8 matrices by ldmatrix. The address of lane i is that of row
/// i mod 8 of matrix i / 8.
Value MmaTiles::loadMatrices(const SharedRows &rows, Value row, Value column,
                             bool transpose) {
  auto type = VectorType::get({4, 2}, element);
  Value at[] = {i32.toIndex(i32.add(rows.firstRow, row)), i32.toIndex(column)};
  return f.builder.create<nvgpu::LdMatrixOp>(f.loc, type, rows.memory,
                                             ValueRange(at), transpose, 4);
}

/// Loads columns `first` to `first` + 15 of 16 rows as four matrices. The first
/// two matrices are rows 0-7 and 8-15 of the first eight columns, the other two
/// the same rows of the next eight.
Value MmaTiles::leftFragment(const SharedRows &rows, int64_t first) {
  Value column = i32.add(i32.mul(i32.div(lane, 16), 8), first);
  return loadMatrices(rows, i32.rem(lane, 16), column, /*transpose=*/false);
}

LeftRows MmaTiles::left(const SharedRows &rows, bool keep) {
  LeftRows result{rows, {}};
  for (int64_t k = 0; keep && k < width(); k += depth)
    result.fragments.push_back(leftFragment(rows, k));
  return result;
}

Value MmaTiles::fragmentsOf(ArrayRef<Value> rows) {
  auto type = VectorType::get({static_cast<int64_t>(rows.size()), 2}, element);
  Value result =
      f.builder.create<arith::ConstantOp>(f.loc, f.builder.getZeroAttr(type));
  for (auto [index, row] : llvm::enumerate(rows))
    result = f.builder.create<vector::InsertOp>(f.loc, row, result,
                                                static_cast<int64_t>(index));
  return result;
}

/// Makes a left operand of sixteen columns of a tile in registers, rounded to
/// 16 bits. Lanes exchange no elements, because mma.sync lays out its sums and
/// its left operand alike.
Value MmaTiles::leftFragment(const WarpTile &tile, int64_t first) {
  SmallVector<Value> rows;
  auto pairType = VectorType::get({2}, element);
  for (int64_t j : {first / 4, first / 4 + 2})
    for (int64_t i : {0, 1}) {
      // The intrinsic puts its second operand into the lower half of the
      // result.
      auto call = f.builder.create<LLVM::CallIntrinsicOp>(
          f.loc, pairType, f.builder.getStringAttr(unit.rounding()),
          ValueRange{tile.at(i, j + 1), tile.at(i, j)});
      rows.push_back(call.getResult(0));
    }
  return fragmentsOf(rows);
}

/// Returns one of the two right operands that the four matrices of an ldmatrix
/// hold.
Value MmaTiles::half(Value fragments, int64_t first) {
  Value rows[] = {
      f.builder.create<vector::ExtractOp>(f.loc, fragments, first),
      f.builder.create<vector::ExtractOp>(f.loc, fragments, first + 1)};
  return fragmentsOf(rows);
}

/// Adds the product of two operands to eight columns of the sums, which begin
/// at column 8 * `tile`.
void MmaTiles::multiplyAdd(Value left, Value right, WarpTile &sums,
                           int64_t tile) {
  OpBuilder &b = f.builder;
  auto type = VectorType::get({2, 2}, b.getF32Type());
  Value sum = b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(type));
  for (int64_t i : {0, 1})
    for (int64_t j : {0, 1})
      sum = b.create<vector::InsertOp>(f.loc, sums.at(i, 2 * tile + j), sum,
                                       ArrayRef<int64_t>{i, j});
  sum = b.create<nvgpu::MmaSyncOp>(f.loc, left, right, sum,
                                   ArrayRef<int64_t>{16, 8, depth});
  for (int64_t i : {0, 1})
    for (int64_t j : {0, 1})
      sums.at(i, 2 * tile + j) =
          b.create<vector::ExtractOp>(f.loc, sum, ArrayRef<int64_t>{i, j});
}

WarpTile MmaTiles::multiply(const LeftRows &left, const SharedRows &right,
                            int64_t columns) {
  WarpTile sums{2, columns / 4, {}};
  sums.elements.assign(sums.rows * sums.columns, constant(0.0));
  // ldmatrix loads four matrices. The first two are rows 0-7 of the first and
  // of the second eight features, the other two are rows 8-15 of the same
  // features.
  Value row = i32.add(i32.rem(lane, 8), i32.mul(i32.div(lane, 16), 8));
  Value column = i32.mul(i32.rem(i32.div(lane, 8), 2), 8);
  for (int64_t k = 0; k < width(); k += depth) {
    Value leftPart = left.fragments.empty() ? leftFragment(left.rows, k)
                                            : left.fragments[k / depth];
    for (int64_t first = 0; first < columns; first += 16) {
      Value both = loadMatrices(right, i32.add(row, first), i32.add(column, k),
                                /*transpose=*/false);
      multiplyAdd(leftPart, half(both, 0), sums, first / 8);
      multiplyAdd(leftPart, half(both, 2), sums, first / 8 + 1);
    }
  }
  return sums;
}

void MmaTiles::accumulate(WarpTile &sums, const WarpTile &weights,
                          const SharedRows &right) {
  // ldmatrix loads four matrices and transposes them. The first two are rows
  // 0-7 and 8-15 of the first eight columns, the other two the same rows of the
  // next eight.
  Value row = i32.rem(lane, 16);
  Value column = i32.mul(i32.div(lane, 16), 8);
  for (int64_t k = 0; k < weights.columns * 4; k += depth) {
    Value left = leftFragment(weights, k);
    for (int64_t first = 0; first < width(); first += 16) {
      Value both = loadMatrices(right, i32.add(row, k), i32.add(column, first),
                                /*transpose=*/true);
      multiplyAdd(left, half(both, 0), sums, first / 8);
      multiplyAdd(left, half(both, 2), sums, first / 8 + 1);
    }
  }
}

std::unique_ptr<WarpTiles> createMmaTiles(KernelFrame &frame,
                                          const NarrowMmaUnit &unit,
                                          Type element, int64_t width) {
  return std::make_unique<MmaTiles>(frame, unit, element, width);
}

} // namespace heddle::gpu
