//===- AttentionColumns.cpp - The columns that a block's rows see ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of attention over tiles of columns. Without a layout, the columns
// are one range of keys or queries. With a layout, a thread block first makes a
// list of the ranges of columns that its rows see, in ascending order. A range
// is a block of the layout or, if a tile has fewer columns, a part of it. If a
// tile has more columns, it holds several ranges.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace heddle::gpu {

//===----------------------------------------------------------------------===//
// Lists of ranges
//===----------------------------------------------------------------------===//

/// The columns of a range.
int64_t AttentionMapper::rangeLength() const {
  return spec.block ? std::min(spec.block, columns) : columns;
}

/// The ranges of a tile.
int64_t AttentionMapper::numRanges() const { return columns / rangeLength(); }

/// The elements of the list. The loop reads up to two tiles after the last
/// range: the rest of the last tile, and the tile that is copied while the last
/// one is multiplied.
int64_t AttentionMapper::listLength() const {
  if (!spec.block)
    return 0;
  return llvm::divideCeil(spec.seq, rangeLength()) + 2 * numRanges();
}

/// Whether the layout has the blocks of `query` and `key`.
Value AttentionMapper::isInLayout(Value head, Value query, Value key) {
  OpBuilder &b = f.builder;
  Value part = op.getPart() ? f.argumentScalar(op.getPart()) : Value();
  Value row = visible.layoutRow(head, query, part);
  Value bit = i32.add(i32.div(key, spec.block), visible.firstKeyBlock());
  Value at = i32.add(i32.mul(row, spec.layoutWords()), i32.div(bit, 32));
  Value word = b.create<memref::LoadOp>(f.loc, f.argumentBuffer(op.getLayout()),
                                        i32.toIndex(at));
  Value moved = b.create<arith::ShRUIOp>(f.loc, word, i32.rem(bit, 32));
  return b.create<arith::TruncIOp>(f.loc, b.getI1Type(), moved);
}

/// Lists the ranges between columns `begin` and `end` for which `isSeen` is
/// true. Returns how many there are. After them, the list has ranges of columns
/// that do not exist. All warps count, and the first one writes the list.
Value AttentionMapper::listRanges(Value begin, Value end,
                                  function_ref<Value(Value first)> isSeen) {
  OpBuilder &b = f.builder;
  int64_t length = rangeLength(), last = llvm::alignDown(spec.seq - 1, length);
  if (!list)
    list = allocate({listLength()}, b.getI32Type());
  auto store = [&](Value first, Value at) {
    b.create<memref::StoreOp>(f.loc, first, list, i32.toIndex(at));
  };
  auto count = [&](Value bits) -> Value {
    return b.create<math::CtPopOp>(f.loc, bits);
  };
  Value lane = i32.rem(thread, warpSize), isFirstWarp = i32.less(warp, 1);
  Value lower =
      b.create<LLVM::CallIntrinsicOp>(
           f.loc, b.getI32Type(),
           b.getStringAttr("llvm.nvvm.read.ptx.sreg.lanemask.lt"), ValueRange())
          .getResult(0);
  auto loop = b.create<scf::ForOp>(
      f.loc, i32.div(begin, length), i32.div(i32.add(end, length - 1), length),
      i32.constant(warpSize), i32.constant(0),
      [&](OpBuilder &, Location, Value base, ValueRange carried) {
        Value first = i32.mul(i32.add(base, lane), length);
        Value isListed =
            i32.both(i32.less(first, end), isSeen(i32.min(first, last)));
        Value lanes = b.create<NVVM::VoteBallotOp>(f.loc, b.getI32Type(),
                                                   i32.constant(-1), isListed);
        Value before = b.create<arith::AndIOp>(f.loc, lanes, lower);
        Value at = i32.add(carried[0], count(before));
        ifThen(i32.both(isListed, isFirstWarp), [&] { store(first, at); });
        b.create<scf::YieldOp>(f.loc, i32.add(carried[0], count(lanes)));
      });
  Value total = loop.getResult(0);
  ifThen(i32.less(thread, 2 * numRanges()),
         [&] { store(i32.constant(last + length), i32.add(total, thread)); });
  b.create<mlir::gpu::BarrierOp>(f.loc);
  return total;
}

Value AttentionMapper::beginOfKeys() {
  if (!spec.block) {
    Value begin = visible.beginOf(firstRow);
    return begin ? i32.floorTo(begin, columns) : i32.constant(0);
  }
  listed = listRanges(
      i32.constant(0), visible.endOfSome(firstRow, rowsOfBlock()),
      [&](Value key) { return isInLayout(headOfBlock, firstRow, key); });
  return i32.constant(0);
}

Value AttentionMapper::endOfKeys() {
  return spec.block ? listed : visible.endOfSome(firstRow, rowsOfBlock());
}

Value AttentionMapper::beginOfQueries(Value head) {
  Value begin = visible.firstSeeing(firstRow);
  if (!spec.block)
    return i32.floorTo(begin, columns);
  listed = listRanges(begin, i32.constant(spec.seq), [&](Value query) {
    return isInLayout(head, query, firstRow);
  });
  return i32.constant(0);
}

Value AttentionMapper::endOfQueries() {
  if (spec.block)
    return listed;
  Value all = i32.constant(spec.seq);
  // The block's last key has the latest last query.
  Value end = visible.endSeeing(i32.add(firstRow, rowsOfBlock() - 1));
  return end ? i32.min(end, all) : all;
}

//===----------------------------------------------------------------------===//
// Loops over tiles
//===----------------------------------------------------------------------===//

/// The tile of columns at `place`: a column or, with a layout, an element of
/// the list.
RowRanges AttentionMapper::tileAt(Value place) {
  if (!spec.block)
    return place;
  Values firsts;
  for (int64_t range = 0; range < numRanges(); ++range)
    firsts.push_back(loadNumber(list, i32.toIndex(i32.add(place, range))));
  return RowRanges(firsts);
}

/// The column of a tile at `offset` + `lane`, where `lane` is less than 8 and
/// adds to `offset` without a carry beyond a multiple of 8.
Value AttentionMapper::columnAt(const RowRanges &tileColumns, Value lane,
                                int64_t offset) {
  int64_t length = columns / tileColumns.count();
  return i32.add(i32.add(tileColumns.firsts[offset / length], lane),
                 offset % length);
}

void AttentionMapper::beginColumns(Value begin, Copy copy) {
  copy(tileAt(begin), i32.constant(0));
  commitCopies();
}

AttentionMapper::Values AttentionMapper::forColumns(Value begin, Value end,
                                                    Values init, Copy copy,
                                                    Compute compute) {
  int64_t step = spec.block ? numRanges() : columns;
  init.push_back(i32.constant(0));
  auto loop = f.builder.create<scf::ForOp>(
      f.loc, begin, end, i32.constant(step), init,
      [&](OpBuilder &b, Location loc, Value place, ValueRange carried) {
        Value stage = carried.back();
        Value other = i32.sub(i32.constant(1), stage);
        // After this wait, all threads see the columns in buffer `stage`. No
        // thread still reads the other of the two buffers, so the next copy may
        // overwrite it.
        waitForCopies(0);
        copy(tileAt(i32.add(place, step)), other);
        commitCopies();
        Values next = compute(tileAt(place), stage, carried.drop_back());
        next.push_back(other);
        b.create<scf::YieldOp>(loc, next);
      });
  // The last iteration has started a copy of a tile of columns after the last
  // one. Nothing reads these columns, but their copy must finish before other
  // code uses the same workgroup memory.
  waitForCopies(0);
  return Values(loop.getResults().drop_back());
}

SharedRows AttentionMapper::columnsOf(Value memory, Value stage) {
  return {memory, i32.mul(stage, columns)};
}

} // namespace heddle::gpu
