//===- WarpTiles.cpp - Attention's products in a warp ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products in attention: by mma.sync of tensor cores for bf16 (MmaTiles), by
// FMA for f32 (FmaTiles).
//
//===----------------------------------------------------------------------===//

#include "WarpTiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

WarpTiles::WarpTiles(KernelFrame &frame, Type element, int64_t rows,
                     int64_t lanes, int64_t padded)
    : f(frame), i32(f.builder, f.loc, f.builder.getI32Type()), element(element),
      threadRows(rows), rowLanes(lanes), paddedWidth(padded) {
  lane = i32.rem(i32.from(f.threadId()), warpSize);
}

Value WarpTiles::constant(double value) {
  return f.builder.create<arith::ConstantOp>(
      f.loc, f.builder.getF32FloatAttr(static_cast<float>(value)));
}

Value WarpTiles::at(const SharedRows &rows, Value row, Value column,
                    Type type) {
  Value indices[] = {i32.toIndex(i32.add(rows.firstRow, row)),
                     i32.toIndex(column)};
  return f.builder.create<vector::LoadOp>(f.loc, cast<VectorType>(type),
                                          rows.memory, indices);
}

WarpTile WarpTiles::zeroSums() {
  WarpTile sums{threadRows, paddedWidth / rowLanes, {}};
  sums.elements.assign(sums.rows * sums.columns, constant(0.0));
  return sums;
}

Value WarpTiles::acrossRow(Value value, Combine combine) {
  for (int64_t offset = 1; offset < rowLanes; offset *= 2) {
    auto other = f.builder.create<mlir::gpu::ShuffleOp>(
        f.loc, value, offset, warpSize, mlir::gpu::ShuffleMode::XOR);
    value = combine(value, other.getShuffleResult());
  }
  return value;
}

Value WarpTiles::shuffle(Value value, Value lane) {
  return f.builder
      .create<mlir::gpu::ShuffleOp>(f.loc, value, lane, i32.constant(warpSize),
                                    mlir::gpu::ShuffleMode::IDX)
      .getShuffleResult();
}

//===----------------------------------------------------------------------===//
// Tensor cores: mma.sync
//===----------------------------------------------------------------------===//

namespace {
/// Tiles of bf16, multiplied by mma.sync m16n8k16. A thread has elements of two
/// rows: row lane / 4 and row lane / 4 + 8. Of every eight columns, it has two
/// adjacent ones, which begin at column 2 * (lane mod 4).
class MmaTiles : public WarpTiles {
public:
  MmaTiles(KernelFrame &frame, Type element, int64_t width)
      : WarpTiles(frame, element, /*rows=*/2, /*lanes=*/4,
                  llvm::alignTo(width, warpColumns)) {}

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
  static constexpr int64_t depth = 16;

  Value loadMatrices(const SharedRows &rows, Value row, Value column,
                     bool transpose);
  Value leftFragment(const SharedRows &rows, int64_t first);
  Value leftFragment(const WarpTile &tile, int64_t first);
  Value half(Value fragments, int64_t first);
  Value fragmentsOf(ArrayRef<Value> rows);
  void multiplyAdd(Value left, Value right, WarpTile &sums, int64_t tile);
};

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
/// bf16. Lanes exchange no elements, because mma.sync lays out its sums and its
/// left operand alike.
Value MmaTiles::leftFragment(const WarpTile &tile, int64_t first) {
  SmallVector<Value> rows;
  auto pairType = VectorType::get({2}, element);
  for (int64_t j : {first / 4, first / 4 + 2})
    for (int64_t i : {0, 1}) {
      // The intrinsic puts its second operand into the lower half of the
      // result.
      auto call = f.builder.create<LLVM::CallIntrinsicOp>(
          f.loc, pairType, f.builder.getStringAttr("llvm.nvvm.ff2bf16x2.rn"),
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

//===----------------------------------------------------------------------===//
// FMA
//===----------------------------------------------------------------------===//

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

std::unique_ptr<WarpTiles> WarpTiles::create(KernelFrame &frame, Type element,
                                             int64_t width) {
  if (element.isBF16())
    return std::make_unique<MmaTiles>(frame, element, width);
  return std::make_unique<FmaTiles>(frame, element, width);
}

} // namespace heddle::gpu
