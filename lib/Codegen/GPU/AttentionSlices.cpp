//===- AttentionSlices.cpp - Heads of many features -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose heads have so many features that their sums do not fit in
// registers. The features are divided into slices, and products and sums are
// computed for one slice after the other.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

Value AttentionMapper::allocateSlices() {
  rowSlices = allocateRows(2 * rowsOfBlock());
  columnSlices = allocateRows(2 * columns);
  return rowSlices;
}

/// Copies the next slice of features while it multiplies the current one. The
/// copy after the last slice writes zeros and reads nothing.
WarpTile AttentionMapper::multiplySlices(const HeadRows &rows,
                                         const HeadRows &others) {
  auto copy = [&](Value stage, Value feature) {
    copyRows({rowSlices, i32.mul(stage, rowsOfBlock())}, rowsOfBlock(), rows,
             feature);
    copyRows(columnsOf(columnSlices, stage), columns, others, feature);
    commitCopies();
  };
  // The barrier is needed since other warps may still read the memory that the
  // next copy overwrites.
  f.builder.create<mlir::gpu::BarrierOp>(f.loc);
  copy(i32.constant(0), i32.constant(0));
  int64_t width = tiles->width();
  WarpTile sums{tiles->rowsOfThread(), columns / tiles->lanesOfRow(), {}};
  Values init(sums.rows * sums.columns, constant(0.0));
  init.push_back(i32.constant(0));
  auto loop = f.builder.create<scf::ForOp>(
      f.loc, i32.constant(0), i32.constant(slices * width), i32.constant(width),
      init, [&](OpBuilder &b, Location loc, Value feature, ValueRange carried) {
        Value stage = carried.back();
        Value other = i32.sub(i32.constant(1), stage);
        waitForCopies(0);
        copy(other, i32.add(feature, width));
        Value firstOfWarp =
            i32.add(i32.mul(stage, rowsOfBlock()), i32.mul(warp, warpRows));
        LeftRows left = tiles->left({rowSlices, firstOfWarp}, /*keep=*/false);
        Values next =
            tiles->multiply(left, columnsOf(columnSlices, stage), columns)
                .elements;
        for (auto [sum, before] : llvm::zip(next, carried.drop_back()))
          sum = addF(before, sum);
        next.push_back(other);
        b.create<scf::YieldOp>(loc, next);
      });
  waitForCopies(0);
  sums.elements = Values(loop.getResults().drop_back());
  return sums;
}

SharedRows AttentionMapper::ownSlice(const HeadRows &others, int64_t place) {
  SharedRows slice = columnsOf(columnSlices, i32.constant(place));
  copyRows(slice, columns, others, firstFeature);
  commitCopies();
  waitForCopies(0);
  return slice;
}

} // namespace heddle::gpu
