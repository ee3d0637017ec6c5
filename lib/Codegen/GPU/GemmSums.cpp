//===- GemmSums.cpp - Sums of an operand beside a product -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TileSums: sums an operand of a product along k, from the tiles that the
// product loads anyway. For example, the gradient of a bias is such a sum over
// the output gradient.
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

/// The number of f32 values that a lane holds for the sums of a fragment. Two
/// of the four values repeat sums that other lanes hold.
constexpr int64_t valuesOfFragment = 4;

TileSums::TileSums(ThreadCode &c, const Tiling &tiling, const TileShape &shape,
                   const TileCopy &copy)
    : c(c), tiling(tiling), shape(shape), copy(copy), thread(c.threadId()) {
  if (tiling.tensorCores)
    firstOuter = c.mul(c.div(thread, warpSize), fragments() * mmaM);
}

/// Number of 16-row fragments that a warp sums.
int64_t TileSums::fragments() const {
  return shape.tileOuter / (tiling.threads() / warpSize) / mmaM;
}

int64_t TileSums::numSums() const {
  if (tiling.tf32)
    return copy.numUnits();
  return tiling.tensorCores ? fragments() * valuesOfFragment : 1;
}

void TileSums::add(Value tile, MutableArrayRef<Value> sums) {
  if (tiling.tensorCores)
    addFragments(tile, sums);
  else
    addElements(tile, sums[0]);
}

void TileSums::addFragments(Value tile, MutableArrayRef<Value> sums) {
  Value ones = c.constant(0x3f803f80); // Two ones in bf16.
  for (int64_t k = 0; k < tiling.k; k += mmaK)
    for (int64_t i = 0; i < fragments(); ++i)
      mmaSync(c, loadLeftFragment(c, shape, tile, firstOuter, i * mmaM, k),
              {ones, ones}, sums.slice(i * valuesOfFragment, valuesOfFragment));
}

/// Adds the elements of this thread's column of the tile to `sum`. A block's
/// first threads have one column each; its other threads have none.
void TileSums::addElements(Value tile, Value &sum) {
  OpBuilder &b = c.builder;
  auto choice =
      b.create<scf::IfOp>(c.loc, sum.getType(), c.less(thread, shape.tileOuter),
                          /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    // Adds by halves (pairwise), which accumulates fewer rounding errors.
    SmallVector<Value> column;
    for (int64_t k = 0; k < tiling.k; ++k) {
      TileCoordinates place = {thread, c.constant(0), 0, k};
      column.push_back(
          c.load(sum.getType(), tileAddress(c, shape, tile, place)));
    }
    for (size_t half = column.size() / 2; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i)
        column[i] = c.create<arith::AddFOp>(column[i], column[i + half]);
    Value next = c.create<arith::AddFOp>(sum, column[0]);
    b.create<scf::YieldOp>(c.loc, next);
    b.setInsertionPointToStart(choice.elseBlock());
    b.create<scf::YieldOp>(c.loc, sum);
  }
  sum = choice.getResult(0);
}

/// Adds this thread's values of one tile, which it has fetched, to the thread's
/// sums. The values are units of four adjacent elements along k, and the thread
/// has one sum for each unit.
void TileSums::addFetched(ArrayRef<Value> values, MutableArrayRef<Value> sums) {
  size_t perUnit = values.size() / sums.size();
  for (auto [number, sum] : llvm::enumerate(sums)) {
    Value ofUnit = values[number * perUnit];
    for (Value value : values.slice(number * perUnit + 1, perUnit - 1))
      ofUnit = c.create<arith::AddFOp>(ofUnit, value);
    sum = c.create<arith::AddFOp>(sum, ofUnit);
  }
}

/// Adds up `sum` over the adjacent lanes that fetch different elements along k
/// of the same row or column of the operand.
Value TileSums::acrossLanes(Value sum) {
  for (int64_t offset = 1; offset < copy.lanesAlongK(); offset *= 2) {
    auto other = c.builder.create<mlir::gpu::ShuffleOp>(
        c.loc, sum, offset, warpSize, mlir::gpu::ShuffleMode::XOR);
    sum = c.create<arith::AddFOp>(sum, other.getShuffleResult());
  }
  return sum;
}

LogicalResult TileSums::forSums(
    ArrayRef<Value> sums,
    llvm::function_ref<LogicalResult(Value outer, Value sum)> body) {
  Value lane = c.rem(thread, warpSize);
  SmallVector<Value> totals(sums);
  if (tiling.tf32)
    for (Value &total : totals)
      total = acrossLanes(total);
  // Adjacent lanes hold the same sums, so that only the first of them passes
  // its sums to `body`: one of `lanesAlongK()` lanes with tf32, one of four
  // lanes with bf16. With FMA, lanes hold different sums.
  Value hasSum = tiling.tf32 ? c.less(c.rem(thread, copy.lanesAlongK()), 1)
                 : tiling.tensorCores ? c.less(c.rem(lane, 4), 1)
                                      : c.less(thread, shape.tileOuter);
  InsideIf choice(c, hasSum);
  if (tiling.tf32) {
    for (auto [number, total] : llvm::enumerate(totals)) {
      TileCoordinates place = copy.unit(number);
      if (failed(body(c.add(place.outer, place.outerMoved), total)))
        return failure();
    }
    return success();
  }
  if (!tiling.tensorCores)
    return body(thread, sums[0]);
  Value row = c.add(firstOuter, c.div(lane, 4));
  for (int64_t i = 0; i < fragments(); ++i)
    for (int64_t half = 0; half < 2; ++half)
      if (failed(body(c.add(row, i * mmaM + half * 8),
                      sums[i * valuesOfFragment + half * 2])))
        return failure();
  return success();
}

} // namespace heddle::gpu
