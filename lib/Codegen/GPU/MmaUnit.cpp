//===- MmaUnit.cpp - Tensor cores, by mma.sync ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of fragments, which ldmatrix loads from shared memory and mma.sync
// multiplies. Sums of operands of 16 bits, by multiplying with ones.
//
//===----------------------------------------------------------------------===//

#include "MmaUnit.h"
#include "PagedTiles.h"
#include "WarpTiles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace heddle::gpu {

void callMma(ThreadCode &c, StringRef intrinsic, ArrayRef<Value> left,
             ArrayRef<Value> right, MutableArrayRef<Value> sum) {
  SmallVector<Type> floats(4, c.builder.getF32Type());
  auto type = LLVM::LLVMStructType::getLiteral(c.builder.getContext(), floats);
  SmallVector<Value> operands(left);
  llvm::append_range(operands, right);
  llvm::append_range(operands, sum);
  llvm::copy(c.members(c.call(intrinsic, type, operands)), sum.begin());
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

SmallVector<Value> loadMatrices(ThreadCode &c, Value pointer, bool transpose,
                                int64_t count) {
  SmallVector<Type> words(count, c.builder.getI32Type());
  auto type = LLVM::LLVMStructType::getLiteral(c.builder.getContext(), words);
  auto layout = transpose ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  return c.members(
      c.builder.create<NVVM::LdMatrixOp>(c.loc, type, pointer, count, layout));
}

/// Loads a left fragment from the tile at `tile`. Its first element has the
/// coordinates `outer` + `outerMoved` (along the dimension other than k) and
/// `k`. `outerMoved` is the constant part of the sum; see TileCoordinates.
///
/// ldmatrix loads four matrices. The first two are rows 0-7 and rows 8-15 of
/// the first 16 bytes of each row. The other two are the same rows of the next
/// 16 bytes.
static SmallVector<Value> loadLeftFragment(ThreadCode &c,
                                           const TileShape &shape, Value tile,
                                           Value outer, int64_t outerMoved,
                                           int64_t k) {
  Value lane = c.rem(c.threadId(), warpSize);
  Value matrix = c.div(lane, 8), inMatrix = c.rem(lane, 8);
  int64_t perUnit = accessBytes / shape.layout.elementBytes;
  TileCoordinates place = {c.add(outer, c.mul(c.rem(matrix, 2), 8)),
                           c.mul(c.div(matrix, 2), perUnit), outerMoved, k};
  bool alongK = shape.layout.rowsAlongK;
  Value &rows = alongK ? place.outer : place.k;
  rows = c.add(rows, inMatrix);
  return loadMatrices(c, tileAddress(c, shape, tile, place), !alongK);
}

namespace {
class MmaMultiplier : public Multiplier {
public:
  MmaMultiplier(ThreadCode &c, const GemmBlock &block, const MmaUnit &unit)
      : Multiplier(c, block), unit(unit) {}

  void multiply(Value leftTile, Value rightTile, int64_t begin, int64_t end,
                MutableArrayRef<Value> sums) override {
    for (int64_t k = begin; k < end; k += unit.depth())
      multiplyStep(leftTile, rightTile, k, sums);
  }
  void forSums(ArrayRef<Value> sums, SumBody body) override;
  int64_t mostUnrolledSteps() const override {
    return unit.mostUnrolledSteps();
  }

private:
  void multiplyStep(Value leftTile, Value rightTile, int64_t k,
                    MutableArrayRef<Value> sums);
  SmallVector<Value> rightFragments(Value tile, int64_t pair, int64_t k);
  int64_t tilesM() const { return tiling.warpM() / mmaM; }
  int64_t tilesN() const { return tiling.warpN() / mmaN; }

  const MmaUnit &unit;
};
} // namespace

/// Loads two adjacent right fragments.
SmallVector<Value> MmaMultiplier::rightFragments(Value tile, int64_t pair,
                                                 int64_t k) {
  Value matrix = c.div(lane, 8), inMatrix = c.rem(lane, 8);
  int64_t perUnit = accessBytes / right.layout.elementBytes;
  TileCoordinates place = {c.add(warpColumn, c.mul(c.div(matrix, 2), 8)),
                           c.mul(c.rem(matrix, 2), perUnit), pair * 2 * mmaN,
                           k};
  bool alongK = right.layout.rowsAlongK;
  Value &rows = alongK ? place.outer : place.k;
  rows = c.add(rows, inMatrix);
  return loadMatrices(c, tileAddress(c, right, tile, place), !alongK);
}

void MmaMultiplier::multiplyStep(Value leftTile, Value rightTile, int64_t k,
                                 MutableArrayRef<Value> sums) {
  SmallVector<SmallVector<Value>> leftTiles, rightPairs;
  for (int64_t tile = 0; tile < tilesM(); ++tile)
    leftTiles.push_back(
        loadLeftFragment(c, left, leftTile, warpRow, tile * mmaM, k));
  for (int64_t pair = 0; pair < tilesN() / 2; ++pair)
    rightPairs.push_back(rightFragments(rightTile, pair, k));
  for (int64_t row = 0; row < tilesM(); ++row)
    for (int64_t column = 0; column < tilesN(); ++column)
      unit.multiply(c, leftTiles[row],
                    ArrayRef(rightPairs[column / 2]).slice(column % 2 * 2, 2),
                    sums.slice((row * tilesN() + column) * 4, 4));
}

void MmaMultiplier::forSums(ArrayRef<Value> sums, SumBody body) {
  Value row = c.add(warpRow, c.div(lane, 4));
  Value column = c.add(warpColumn, c.mul(c.rem(lane, 4), 2));
  for (int64_t i = 0; i < tilesM(); ++i)
    for (int64_t j = 0; j < tilesN(); ++j)
      for (int64_t half = 0; half < 2; ++half)
        body(c.add(row, i * mmaM + half * 8), c.add(column, j * mmaN),
             sums.slice((i * tilesN() + j) * 4 + half * 2, 2));
}

std::unique_ptr<Multiplier>
MmaUnit::createMultiplier(ThreadCode &c, const GemmBlock &block) const {
  return std::make_unique<MmaMultiplier>(c, block, *this);
}

//===----------------------------------------------------------------------===//
// Operands of 16 bits
//===----------------------------------------------------------------------===//

namespace {
/// Tensor cores compute the sums, by multiplying the operand with ones. A warp
/// sums several fragments of the tile.
class FragmentSums : public TileSums {
public:
  FragmentSums(ThreadCode &c, const GemmBlock &block, const NarrowMmaUnit &unit)
      : TileSums(c, block), unit(unit),
        firstOuter(c.mul(c.div(thread, warpSize), fragments() * mmaM)) {}

  int64_t numSums() const override { return fragments() * valuesOfFragment; }
  void add(const SummedTile &tile, MutableArrayRef<Value> sums) override;
  LogicalResult forSums(ArrayRef<Value> sums, SumBody body) override;

private:
  /// The number of f32 values that a lane holds for the sums of a fragment. Two
  /// of the four values repeat sums that other lanes hold.
  static constexpr int64_t valuesOfFragment = 4;

  /// Number of 16-row fragments that a warp sums.
  int64_t fragments() const {
    return shape.tileOuter / (tiling.threads() / warpSize) / mmaM;
  }

  const NarrowMmaUnit &unit;
  Value firstOuter;
};
} // namespace

void FragmentSums::add(const SummedTile &tile, MutableArrayRef<Value> sums) {
  Value ones = c.constant(unit.ones());
  for (int64_t k = 0; k < tiling.k; k += unit.depth())
    for (int64_t i = 0; i < fragments(); ++i)
      unit.multiply(
          c, loadLeftFragment(c, shape, tile.memory, firstOuter, i * mmaM, k),
          {ones, ones}, sums.slice(i * valuesOfFragment, valuesOfFragment));
}

/// Four adjacent lanes hold the same sums, so that only the first of them
/// passes its sums to `body`.
LogicalResult FragmentSums::forSums(ArrayRef<Value> sums, SumBody body) {
  Value lane = c.rem(thread, warpSize);
  InsideIf choice(c, c.less(c.rem(lane, 4), 1));
  Value row = c.add(firstOuter, c.div(lane, 4));
  for (int64_t i = 0; i < fragments(); ++i)
    for (int64_t half = 0; half < 2; ++half)
      if (failed(body(c.add(row, i * mmaM + half * 8),
                      sums[i * valuesOfFragment + half * 2])))
        return failure();
  return success();
}

ArrayRef<TilingCandidate> NarrowMmaUnit::tilings() const {
  static constexpr TilingCandidate all[] = {{{128, 128, 32, 2, 2, 4}, 1},
                                            {{64, 64, 32, 2, 2, 4}, 0.5}};
  return all;
}

TilingCosts NarrowMmaUnit::costs() const { return {800, 4e6}; }

/// Rows run as in global memory, since ldmatrix can transpose elements of 16
/// bits on the way to registers.
TileLayout NarrowMmaUnit::layout(bool kContiguous) const {
  return {/*elementBytes=*/2, /*rowsAlongK=*/kContiguous, /*isPermuted=*/true};
}

std::unique_ptr<TileSums>
NarrowMmaUnit::createSums(ThreadCode &c, const GemmBlock &block) const {
  return std::make_unique<FragmentSums>(c, block, *this);
}

std::unique_ptr<WarpTiles> NarrowMmaUnit::createWarpTiles(KernelFrame &frame,
                                                          Type element,
                                                          int64_t width) const {
  return createMmaTiles(frame, *this, element, width);
}

std::unique_ptr<PagedTiles>
NarrowMmaUnit::createPagedTiles(ThreadCode &c, const PagedShape &shape) const {
  return createPagedMmaTiles(c, *this, shape);
}

} // namespace heddle::gpu
