//===- GemmMma.cpp - The product of two tiles, by mma.sync or FMA ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Multiplier: emits the multiplications of a matrix product, by mma.sync on
// tensor cores (bf16 and tf32) or by FMA (f32). SumTile: moves the sums through
// shared memory, so that each thread gets adjacent sums of a row.
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace heddle::gpu {

Multiplier::Multiplier(ThreadCode &c, const Tiling &tiling,
                       const TileShape &left, const TileShape &right)
    : c(c), tiling(tiling), left(left), right(right) {
  Value thread = c.threadId();
  lane = c.rem(thread, warpSize);
  Value warp = c.div(thread, warpSize);
  warpRow = c.mul(c.rem(warp, tiling.warpsM), tiling.warpM());
  warpColumn = c.mul(c.div(warp, tiling.warpsM), tiling.warpN());
}

int64_t Multiplier::numSums() const {
  return tiling.warpM() * tiling.warpN() / warpSize;
}

void Multiplier::multiply(Value leftTile, Value rightTile, int64_t begin,
                          int64_t end, MutableArrayRef<Value> sums) {
  if (tiling.tensorCores || tiling.tf32) {
    int64_t depth = tiling.tf32 ? mmaKTf32 : mmaK;
    for (int64_t k = begin; k < end; k += depth)
      multiplyMma(leftTile, rightTile, k, sums);
    return;
  }
  for (int64_t k = begin; k < end; ++k)
    multiplyFma(leftTile, rightTile, k, sums);
}

//===----------------------------------------------------------------------===//
// Tensor cores: mma.sync
//===----------------------------------------------------------------------===//

/// Loads four matrices by one ldmatrix. A matrix has 8 x 8 elements in bf16, or
/// 8 x 4 in tf32, whose elements are twice as wide. Each lane passes the
/// address of one row.
static SmallVector<Value> loadMatrices(ThreadCode &c, Value pointer,
                                       bool transpose) {
  SmallVector<Type> words(4, c.builder.getI32Type());
  auto type = LLVM::LLVMStructType::getLiteral(c.builder.getContext(), words);
  auto layout = transpose ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  return c.members(c.builder.create<NVVM::LdMatrixOp>(c.loc, type, pointer,
                                                      /*num=*/4, layout));
}

/// ldmatrix loads four matrices. The first two are rows 0-7 and rows 8-15 of
/// the first 16 bytes of each row. The other two are the same rows of the next
/// 16 bytes.
SmallVector<Value> loadLeftFragment(ThreadCode &c, const TileShape &shape,
                                    Value tile, Value outer, int64_t outerMoved,
                                    int64_t k) {
  Value lane = c.rem(c.threadId(), warpSize);
  Value matrix = c.div(lane, 8), inMatrix = c.rem(lane, 8);
  int64_t perUnit = accessBytes / shape.elementBytes();
  TileCoordinates place = {c.add(outer, c.mul(c.rem(matrix, 2), 8)),
                           c.mul(c.div(matrix, 2), perUnit), outerMoved, k};
  Value &rows = shape.rowsAlongK() ? place.outer : place.k;
  rows = c.add(rows, inMatrix);
  return loadMatrices(c, tileAddress(c, shape, tile, place),
                      !shape.rowsAlongK());
}

/// Loads two adjacent tiles of the right operand. Each tile has 16 x 8
/// elements, or 8 x 8 in tf32.
SmallVector<Value> Multiplier::rightFragments(Value tile, int64_t pair,
                                              int64_t k) {
  Value matrix = c.div(lane, 8), inMatrix = c.rem(lane, 8);
  int64_t perUnit = accessBytes / right.elementBytes();
  TileCoordinates place = {c.add(warpColumn, c.mul(c.div(matrix, 2), 8)),
                           c.mul(c.rem(matrix, 2), perUnit), pair * 2 * mmaN,
                           k};
  Value &rows = right.rowsAlongK() ? place.outer : place.k;
  rows = c.add(rows, inMatrix);
  return loadMatrices(c, tileAddress(c, right, tile, place),
                      !right.rowsAlongK());
}

void mmaSync(ThreadCode &c, ArrayRef<Value> left, ArrayRef<Value> right,
             MutableArrayRef<Value> sum, bool tf32) {
  SmallVector<Type> floats(4, c.builder.getF32Type());
  auto type = LLVM::LLVMStructType::getLiteral(c.builder.getContext(), floats);
  SmallVector<Value> operands(left);
  llvm::append_range(operands, right);
  llvm::append_range(operands, sum);
  // Calls the intrinsic, since the operation nvvm.mma.sync takes bf16 only as
  // vectors of f16, which do not match the intrinsic's types.
  Value next = c.call(tf32 ? "llvm.nvvm.mma.m16n8k8.row.col.tf32"
                           : "llvm.nvvm.mma.m16n8k16.row.col.bf16",
                      type, operands);
  llvm::copy(c.members(next), sum.begin());
}

void Multiplier::multiplyMma(Value leftTile, Value rightTile, int64_t k,
                             MutableArrayRef<Value> sums) {
  int64_t tilesM = tiling.warpM() / mmaM, tilesN = tiling.warpN() / mmaN;
  SmallVector<SmallVector<Value>> leftTiles, rightPairs;
  for (int64_t tile = 0; tile < tilesM; ++tile)
    leftTiles.push_back(
        loadLeftFragment(c, left, leftTile, warpRow, tile * mmaM, k));
  for (int64_t pair = 0; pair < tilesN / 2; ++pair)
    rightPairs.push_back(rightFragments(rightTile, pair, k));
  for (int64_t row = 0; row < tilesM; ++row)
    for (int64_t column = 0; column < tilesN; ++column)
      mmaSync(c, leftTiles[row],
              ArrayRef(rightPairs[column / 2]).slice(column % 2 * 2, 2),
              sums.slice((row * tilesN + column) * 4, 4), tiling.tf32);
}

//===----------------------------------------------------------------------===//
// FMA
//===----------------------------------------------------------------------===//

/// Loads several groups of four adjacent elements from row `k` of the tile. The
/// first group begins at column `outer`, and each next group begins `groupStep`
/// columns later. If 16-byte units are permuted (by xor), the address of each
/// group follows from the first group's address by flipping bits. This works
/// because tiles are aligned: the bits that distinguish the groups are zero in
/// the first group's address.
SmallVector<Value> Multiplier::loadGroups(const TileShape &shape, Value tile,
                                          Value outer, int64_t groups,
                                          int64_t groupStep, int64_t k) {
  Value first = tileAddress(c, shape, tile, {outer, c.constant(0)});
  SmallVector<Value> values;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t unit = group * groupStep / fmaGroup, key = 0;
    if (shape.isPermuted()) {
      key = (unit ^ k) % mixedUnits;
      unit -= unit % mixedUnits;
    }
    Value pointer = c.at(c.flip(first, key * accessBytes),
                         k * shape.rowBytes() + unit * accessBytes);
    llvm::append_range(values, c.elements(c.loadVector(c.builder.getF32Type(),
                                                       fmaGroup, pointer)));
  }
  return values;
}

/// Multiplies two tiles by FMA. The lanes of a warp are arranged as 4 x 8.
void Multiplier::multiplyFma(Value leftTile, Value rightTile, int64_t k,
                             MutableArrayRef<Value> sums) {
  Value row = c.add(warpRow, c.mul(c.div(lane, 8), fmaGroup));
  Value column = c.add(warpColumn, c.mul(c.rem(lane, 8), fmaGroup));
  SmallVector<Value> a = loadGroups(left, leftTile, row, groupsM(), fmaM, k);
  SmallVector<Value> b =
      loadGroups(right, rightTile, column, groupsN(), fmaN, k);
  for (auto [i, x] : llvm::enumerate(a))
    for (auto [j, y] : llvm::enumerate(b)) {
      Value &sum = sums[i * b.size() + j];
      sum = c.builder.create<LLVM::FMAOp>(c.loc, x, y, sum);
    }
}

//===----------------------------------------------------------------------===//
// Layout of sums
//===----------------------------------------------------------------------===//

using SumBody = llvm::function_ref<void(Value, Value, ArrayRef<Value>)>;

void Multiplier::forSums(ArrayRef<Value> sums, SumBody body) {
  if (tiling.tensorCores || tiling.tf32) {
    int64_t tilesM = tiling.warpM() / mmaM, tilesN = tiling.warpN() / mmaN;
    Value row = c.add(warpRow, c.div(lane, 4));
    Value column = c.add(warpColumn, c.mul(c.rem(lane, 4), 2));
    for (int64_t i = 0; i < tilesM; ++i)
      for (int64_t j = 0; j < tilesN; ++j)
        for (int64_t half = 0; half < 2; ++half)
          body(c.add(row, i * mmaM + half * 8), c.add(column, j * mmaN),
               sums.slice((i * tilesN + j) * 4 + half * 2, 2));
    return;
  }
  Value row = c.add(warpRow, c.mul(c.div(lane, 8), fmaGroup));
  Value column = c.add(warpColumn, c.mul(c.rem(lane, 8), fmaGroup));
  int64_t columns = groupsN() * fmaGroup;
  for (int64_t i = 0; i < groupsM() * fmaGroup; ++i)
    for (int64_t j = 0; j < groupsN(); ++j)
      body(c.add(row, i / fmaGroup * fmaM + i % fmaGroup),
           c.add(column, j * fmaN),
           sums.slice(i * columns + j * fmaGroup, fmaGroup));
}

/// Returns the address of a sum in the tile. Units of four sums are permuted,
/// depending on the row and on bits of the column. Because of this, both the
/// stores of fragments and the loads of rows access all banks.
Value SumTile::pointer(Value row, Value column) {
  Value unit = c.div(column, 4);
  unit = c.exclusiveOr(unit, c.rem(c.div(unit, 8), 2));
  unit = c.exclusiveOr(unit, c.mul(c.rem(row, 4), 2));
  Value offset = c.add(c.mul(row, tiling.n * 4),
                       c.add(c.mul(unit, 16), c.mul(c.rem(column, 4), 4)));
  return c.at(memory, offset);
}

void SumTile::put(Value row, Value column, ArrayRef<Value> values) {
  c.storeVector(values, pointer(row, column));
}

SmallVector<Value> SumTile::get(Value row, Value column, int64_t width) {
  SmallVector<Value> sums;
  for (int64_t i = 0; i < width; i += 4)
    llvm::append_range(
        sums, c.elements(c.loadVector(c.builder.getF32Type(),
                                      std::min<int64_t>(width, 4),
                                      pointer(row, c.add(column, i)))));
  return sums;
}

} // namespace heddle::gpu
