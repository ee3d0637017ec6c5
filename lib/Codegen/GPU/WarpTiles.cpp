//===- WarpTiles.cpp - Attention's products in a warp ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tiles of attention's products have in common for all units.
//
//===----------------------------------------------------------------------===//

#include "WarpTiles.h"
#include "MultiplyUnit.h"
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
  return acrossLanes(f.builder, f.loc, value, rowLanes, combine);
}

Value WarpTiles::shuffle(Value value, Value lane) {
  return f.builder
      .create<mlir::gpu::ShuffleOp>(f.loc, value, lane, i32.constant(warpSize),
                                    mlir::gpu::ShuffleMode::IDX)
      .getShuffleResult();
}

std::unique_ptr<WarpTiles> WarpTiles::create(KernelFrame &frame, Type element,
                                             int64_t width) {
  // Attention does not round f32, whatever --matmul says.
  const MultiplyUnit &unit = unitFor(element, element, config::Matmul::Ieee);
  return unit.createWarpTiles(frame, element, width);
}

} // namespace heddle::gpu
