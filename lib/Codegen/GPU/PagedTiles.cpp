//===- PagedTiles.cpp - Products of attention over pages ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagedTiles.h"

using namespace mlir;

namespace heddle::gpu {

PagedTiles::PagedTiles(ThreadCode &c, const PagedShape &shape, int64_t rows,
                       int64_t columns, int64_t lanes, int64_t sumRows,
                       int64_t sumColumns)
    : c(c), shape(shape), threadRows(rows), threadColumns(columns),
      rowLanes(lanes), threadSumRows(sumRows), threadSumColumns(sumColumns) {
  Value thread = c.threadId();
  lane = c.rem(thread, warpSize);
  warp = c.div(thread, warpSize);
}

Value PagedTiles::at(Value tile, Value row, int64_t rowBytes, Value column) {
  return c.at(tile, c.add(c.mul(row, rowBytes), c.mul(column, shape.bytes())));
}

Value PagedTiles::acrossRow(Value value,
                            function_ref<Value(Value, Value)> combine) {
  return acrossLanes(c.builder, c.loc, value, rowLanes, combine);
}

} // namespace heddle::gpu
