//===- GemmCopy.cpp - Tiles of an operand to shared memory ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AsyncCopy: copies of an operand's tiles from global to shared memory, and the
// permutation of addresses that avoids bank conflicts.
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

/// Returns the key of a row's swizzle, the permutation of its 16-byte units
/// that avoids bank conflicts: unit i of the row is stored at index i xor key.
static Value keyOf(ThreadCode &c, const TileShape &shape, Value row) {
  int64_t units = shape.rowBytes() / accessBytes;
  // 128 bytes cover all banks once. If a row is shorter, several adjacent rows
  // cover the banks together, and these rows have the same swizzle key.
  if (units < mixedUnits)
    return c.rem(c.div(row, mixedUnits / units), units);
  return c.rem(row, mixedUnits);
}

Value tileAddress(ThreadCode &c, const TileShape &shape, Value tile,
                  const TileCoordinates &place) {
  bool alongK = shape.layout.rowsAlongK;
  Value row = alongK ? place.outer : place.k;
  Value column = alongK ? place.k : place.outer;
  int64_t rowMoved = alongK ? place.outerMoved : place.kMoved;
  int64_t columnMoved = alongK ? place.kMoved : place.outerMoved;
  int64_t perUnit = accessBytes / shape.layout.elementBytes;
  // The swizzle repeats after `mixedUnits` rows, and within a row after
  // `mixedUnits` units of 16 bytes. If the constant part of a coordinate is a
  // multiple of this period, the constant part moves the address by a constant
  // number of bytes, which needs no arithmetic.
  int64_t constant = 0;
  if (!shape.layout.isPermuted || rowMoved % mixedUnits == 0)
    constant += rowMoved * shape.rowBytes();
  else
    row = c.add(row, rowMoved);
  if (!shape.layout.isPermuted || columnMoved % (mixedUnits * perUnit) == 0)
    constant += columnMoved * shape.layout.elementBytes;
  else
    column = c.add(column, columnMoved);
  Value unit = c.div(column, perUnit);
  if (shape.layout.isPermuted) {
    unit = c.exclusiveOr(unit, keyOf(c, shape, row));
  }
  Value inRow = c.add(c.mul(unit, accessBytes),
                      c.mul(c.rem(column, perUnit), shape.layout.elementBytes));
  Value offset = c.add(c.mul(row, shape.rowBytes()), inRow);
  return c.at(c.at(tile, offset), constant);
}

int64_t accessWidth(const TileShape &shape) {
  int64_t width = accessBytes / shape.storedBytes();
  while (shape.stride % width)
    width /= 2;
  return width;
}

TileCopy::TileCopy(ThreadCode &c, const GemmBlock &block,
                   const GemmOperand &operand)
    : c(c), block(block), shape(operand.shape), threads(block.tiling.threads()),
      global(c.globalPointer(operand.buffer)), thread(c.threadId()),
      firstOuter(operand.firstOuter) {}

void TileCopy::beginAt(const TileCoordinates &start) {
  Value outer = c.wide(c.add(firstOuter, start.outer));
  Value k = c.wide(c.add(block.firstK, start.k));
  Value &row = shape.kContiguous ? outer : k;
  Value element =
      c.add(c.mul(row, shape.stride), shape.kContiguous ? k : outer);
  first = c.at(global, c.mul(element, shape.storedBytes()));
}

Value TileCopy::pointer(Value source, const TileCoordinates &place) {
  int64_t rows = shape.kContiguous ? place.outerMoved : place.kMoved;
  int64_t columns = shape.kContiguous ? place.kMoved : place.outerMoved;
  return c.at(source, (rows * shape.stride + columns) * shape.storedBytes());
}

/// Returns the condition that an element lies within the operand, or null if
/// all elements of the tile do. `left` is the number of elements along k from
/// the tile's beginning to the operand's end along k.
Value TileCopy::isInside(const TileCoordinates &place, Value left) {
  Value inside;
  if (shape.outer % shape.tileOuter)
    inside = c.less(c.add(c.add(firstOuter, place.outer), place.outerMoved),
                    shape.outer);
  if (block.checksK)
    inside = c.both(inside, c.less(c.add(place.k, place.kMoved), left));
  return inside;
}

AsyncCopy::AsyncCopy(ThreadCode &c, const GemmBlock &block,
                     const GemmOperand &operand)
    : TileCopy(c, block, operand) {
  bool converts = shape.storedBytes() != shape.layout.elementBytes;
  if (!converts && !shape.isTransposed())
    width = accessWidth(shape);
  if (converts) {
    method = Method::Elements;
  } else if (width * shape.storedBytes() < 4) {
    method = Method::Shifted;
    width = accessBytes / shape.storedBytes();
  }
  beginAt(coordinatesOf(0));
}

/// Returns the coordinates, in the tile, of the first element of the
/// `access`-th access of this thread.
TileCoordinates AsyncCopy::coordinatesOf(int64_t access) const {
  int64_t moved = access * threads;
  if (shape.isTransposed()) {
    // The copy transposes the tile. A warp copies eight elements along k times
    // four elements along "outer", the dimension other than k. These elements
    // fill whole sectors of global memory, and they lie in 32 different banks
    // of shared memory.
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

/// Returns the number of bytes that an access may read along k. Padding after a
/// row is not read, since it may hold NaN: zeros replace all elements after the
/// operand's end along k. Elements after its end along the other dimension may
/// have any value, since the sums that contain them are never stored.
Value AsyncCopy::bytesInRow(const TileCoordinates &place, Value left) {
  Value all = c.constant(width * shape.storedBytes());
  if (!shape.kContiguous || shape.k % width == 0)
    return all;
  Value elements = c.sub(left, c.add(place.k, place.kMoved));
  return c.create<arith::MinSIOp>(c.mul(elements, shape.storedBytes()), all);
}

/// Copies one element through a register and converts it to f32.
void AsyncCopy::copyElement(Value source, Value inside, Value target) {
  if (inside)
    source = c.create<arith::SelectOp>(inside, source, global);
  c.store(c.orZero(inside, c.widen(c.load(shape.stored, source))), target);
}

/// Copies eight elements of 16 bits, of a row that may begin in the middle of a
/// 4-byte word, as every other row of an odd length does. Loads whole words and
/// shifts their content. If the row ends within the eight elements, copies
/// element by element.
void AsyncCopy::copyShifted(Value source, const TileCoordinates &place,
                            Value left, Value target) {
  OpBuilder &b = c.builder;
  Value k = c.sub(left, c.add(place.k, place.kMoved));
  Value outer = c.sub(c.constant(shape.outer),
                      c.add(c.add(firstOuter, place.outer), place.outerMoved));
  Value columnsLeft = shape.kContiguous ? k : outer;
  Value inRows = c.less(c.constant(0), shape.kContiguous ? outer : k);
  Value isWhole = c.both(inRows, c.less(c.constant(width - 1), columnsLeft));
  auto choice = b.create<scf::IfOp>(c.loc, isWhole, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  copyWords(source, target);
  b.setInsertionPointToStart(choice.elseBlock());
  auto loop = b.create<scf::ForOp>(c.loc, c.constant(0), c.constant(width),
                                   c.constant(1));
  b.setInsertionPointToStart(loop.getBody());
  Value i = loop.getInductionVar();
  Value inside = c.both(inRows, c.less(i, columnsLeft));
  Value bytes = c.mul(i, shape.storedBytes());
  Value from = c.create<arith::SelectOp>(inside, c.at(source, bytes), global);
  c.store(c.orZero(inside, c.load(shape.stored, from)), c.at(target, bytes));
}

/// Copies eight elements that may begin in the middle of a word. Loads the five
/// words that contain them, shifts their content to the beginning of a word,
/// and stores four words.
void AsyncCopy::copyWords(Value source, Value target) {
  Type i32 = c.builder.getI32Type(), i64 = c.builder.getI64Type();
  Value address = c.builder.create<LLVM::PtrToIntOp>(c.loc, i64, source);
  // The first element's offset in its word, in bytes: 0, or 2 if the element is
  // the upper half of the word.
  Value half = c.create<arith::AndIOp>(c.create<arith::TruncIOp>(i32, address),
                                       c.constant(2));
  Value first = c.at(source, c.sub(c.constant(0), half));
  SmallVector<Value> words, shifted;
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(c.load(i32, c.at(first, i * 4)));
  words.push_back(c.load(i32, c.at(c.at(first, c.mul(half, 2)), 12)));
  for (int64_t i = 0; i < 4; ++i)
    shifted.push_back(c.builder.create<LLVM::FshrOp>(c.loc, words[i + 1],
                                                     words[i], c.mul(half, 8)));
  c.storeVector(shifted, target);
}

void AsyncCopy::start(Value source, Value left, Value target) {
  int64_t accesses = shape.tileOuter * shape.tileK / width / threads;
  for (int64_t access = 0; access < accesses; ++access) {
    TileCoordinates at = coordinatesOf(access);
    Value from = pointer(source, at);
    Value to = tileAddress(c, shape, target, at);
    if (method == Method::Shifted) {
      copyShifted(from, at, left, to);
      continue;
    }
    Value inside = isInside(at, left);
    if (method == Method::Elements)
      copyElement(from, inside, to);
    else
      c.copyAsync(to, from, width * shape.storedBytes(),
                  c.orZero(inside, bytesInRow(at, left)));
  }
}

} // namespace heddle::gpu
