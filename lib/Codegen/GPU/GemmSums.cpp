//===- GemmSums.cpp - The sums of a block's threads -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Multiplier and TileSums: what they have in common for all units. SumTile:
// moves the sums through shared memory, so that each thread gets adjacent sums
// of a row.
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"

using namespace mlir;

namespace heddle::gpu {

Multiplier::Multiplier(ThreadCode &c, const GemmBlock &block)
    : c(c), tiling(block.tiling), left(block.left.shape),
      right(block.right.shape) {
  Value thread = c.threadId();
  lane = c.rem(thread, warpSize);
  Value warp = c.div(thread, warpSize);
  warpRow = c.mul(c.rem(warp, tiling.warpsM), tiling.warpM());
  warpColumn = c.mul(c.div(warp, tiling.warpsM), tiling.warpN());
}

int64_t Multiplier::numSums() const {
  return tiling.warpM() * tiling.warpN() / warpSize;
}

TileSums::TileSums(ThreadCode &c, const GemmBlock &block)
    : c(c), tiling(block.tiling), shape(block.summed().shape),
      thread(c.threadId()) {}

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
