//===- GemmCopy.cpp - Tiles of an operand to shared memory ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"

using namespace mlir;

namespace heddle::gpu {

Value tileAddress(ThreadCode &c, const TileShape &shape, Value tile,
                  const TilePlace &place) {
  bool alongK = shape.rowsAlongK();
  Value row = alongK ? place.outer : place.k;
  Value column = alongK ? place.k : place.outer;
  int64_t rowMoved = alongK ? place.outerMoved : place.kMoved;
  int64_t columnMoved = alongK ? place.kMoved : place.outerMoved;
  int64_t perUnit = accessBytes / shape.elementBytes();
  int64_t units = shape.rowBytes() / accessBytes;
  // A move by whole periods of the permutation is a constant.
  int64_t constant = 0;
  if (!shape.isPermuted() || rowMoved % mixedUnits == 0)
    constant += rowMoved * shape.rowBytes();
  else
    row = c.add(row, rowMoved);
  if (!shape.isPermuted() || columnMoved % (mixedUnits * perUnit) == 0)
    constant += columnMoved * shape.elementBytes();
  else
    column = c.add(column, columnMoved);
  Value unit = c.div(column, perUnit);
  if (shape.isPermuted()) {
    // Where several rows share all banks, they share a permutation.
    Value key = units < mixedUnits
                    ? c.rem(c.div(row, mixedUnits / units), units)
                    : c.rem(row, mixedUnits);
    unit = c.exclusiveOr(unit, key);
  }
  Value inRow = c.add(c.mul(unit, accessBytes),
                      c.mul(c.rem(column, perUnit), shape.elementBytes()));
  Value offset = c.add(c.mul(row, shape.rowBytes()), inRow);
  return c.at(c.at(tile, offset), constant);
}

/// Elements of one access: 16 bytes, or fewer where rows do not allow it.
static int64_t accessWidth(const TileShape &shape) {
  int64_t width = accessBytes / shape.storedBytes();
  while (shape.stride() % width)
    width /= 2;
  return width;
}

TileCopy::TileCopy(ThreadCode &c, const TileShape &shape, int64_t threads,
                   Value global, Value firstOuter, Value firstK, bool checksK)
    : c(c), shape(shape), threads(threads), checksK(checksK),
      thread(c.threadId()), firstOuter(firstOuter), safe(global) {
  bool converts = shape.storedBytes() != shape.elementBytes();
  width = converts || shape.isTransposed() ? 1 : accessWidth(shape);
  asynchronous = !converts && width * shape.storedBytes() >= 4;
  TilePlace start = place(0);
  Value outer = c.wide(c.add(firstOuter, start.outer));
  Value k = c.wide(c.add(firstK, start.k));
  Value &row = shape.kContiguous ? outer : k;
  Value element =
      c.add(c.mul(row, shape.stride()), shape.kContiguous ? k : outer);
  first = c.at(global, c.mul(element, shape.storedBytes()));
}

int64_t TileCopy::step() const {
  return shape.tileK * (shape.kContiguous ? 1 : shape.stride()) *
         shape.storedBytes();
}

/// Where this thread's access number `access` begins.
TilePlace TileCopy::place(int64_t access) const {
  int64_t moved = access * threads;
  if (shape.isTransposed()) {
    // Rows become columns: eight along k by four outer ones are 32 banks on one
    // side and whole sectors on the other.
    int64_t perRow = mixedUnits * shape.tileOuter;
    return {c.div(thread, mixedUnits), c.rem(thread, mixedUnits),
            moved % perRow / mixedUnits, moved / perRow * mixedUnits};
  }
  int64_t perRow = (shape.kContiguous ? shape.tileK : shape.tileOuter) / width;
  Value row = c.div(thread, perRow);
  Value column = c.mul(c.rem(thread, perRow), width);
  int64_t rowMoved = moved / perRow, columnMoved = moved % perRow * width;
  if (shape.kContiguous)
    return {row, column, rowMoved, columnMoved};
  return {column, row, columnMoved, rowMoved};
}

/// Null when every place is inside.
Value TileCopy::isInside(const TilePlace &place, Value left) {
  Value inside;
  if (shape.outer % shape.tileOuter)
    inside = c.less(c.add(c.add(firstOuter, place.outer), place.outerMoved),
                    shape.outer);
  if (checksK)
    inside = c.both(inside, c.less(c.add(place.k, place.kMoved), left));
  return inside;
}

/// Through registers: what cp.async cannot copy, or has to be converted.
void TileCopy::copyElement(Value source, Value inside, Value target) {
  if (inside)
    source = c.create<arith::SelectOp>(inside, source, safe);
  Value value = c.orZero(inside, c.load(shape.stored, source));
  c.store(shape.tensorCores ? value : c.widen(value), target);
}

void TileCopy::start(Value source, Value left, Value target) {
  int64_t accesses = shape.tileOuter * shape.tileK / width / threads;
  for (int64_t access = 0; access < accesses; ++access) {
    TilePlace at = place(access);
    int64_t rows = shape.kContiguous ? at.outerMoved : at.kMoved;
    int64_t columns = shape.kContiguous ? at.kMoved : at.outerMoved;
    Value from =
        c.at(source, (rows * shape.stride() + columns) * shape.storedBytes());
    Value to = tileAddress(c, shape, target, at);
    Value inside = isInside(at, left);
    int64_t bytes = width * shape.storedBytes();
    if (asynchronous)
      c.copyAsync(to, from, bytes, c.orZero(inside, c.constant(bytes)));
    else
      copyElement(from, inside, to);
  }
}

} // namespace heddle::gpu
