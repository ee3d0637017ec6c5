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
// A thread block has as many rows as without a layout. If blocks of the layout
// are smaller, these are several rows of the layout (or columns of it, if they
// are keys), which AttentionOrder.cpp chooses, and the list has the ranges that
// at least one of them sees. An
// element of the list is the first column of a range, which is a multiple of
// 16. Its low bits say which rows of the layout see the range. All rows of a
// warp belong to one row of the layout. The warp multiplies whole tiles if it
// sees all their ranges, and else those ranges that it sees, one at a time.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

/// The most ranges that are listed at a time, in 4 KiB of workgroup memory. If
/// a sequence has more, a thread block lists and multiplies some of them, and
/// then lists the next ones.
static constexpr int64_t mostListed = 1024;
/// The bits of an element of the list that say which rows see its range.
static constexpr int64_t entryBits = 15;
static_assert(entryBits < warpColumns);

//===----------------------------------------------------------------------===//
// Lists of ranges
//===----------------------------------------------------------------------===//

/// The columns of a range.
int64_t AttentionMapper::rangeLength() const {
  return spec.block ? std::min(spec.block, columns) : columns;
}

/// The ranges of a tile.
int64_t AttentionMapper::numRanges() const { return columns / rangeLength(); }

/// The rows of the layout that a thread block has rows of.
int64_t AttentionMapper::numLayoutRows() const {
  return hasRowsOfManyBlocks() ? rowsOfBlock() / spec.block : 1;
}

int64_t AttentionMapper::allRanges() const {
  return llvm::divideCeil(spec.seq, rangeLength());
}

bool AttentionMapper::isListedInParts() const {
  return spec.block && allRanges() > mostListed;
}

/// The elements of the list. The loop reads up to two tiles after the last
/// range: the rest of the last tile, and the tile that is copied while the last
/// one is multiplied. The last element is the number of ranges.
int64_t AttentionMapper::listLength() const {
  if (!spec.block)
    return 0;
  return std::min(allRanges(), mostListed) + 2 * numRanges() + 1;
}

/// A word of the bits of one of the thread block's rows of the layout.
Value AttentionMapper::loadBits(int64_t row, Value word) {
  return loadNumber(rowBits, i32.toIndex(i32.add(rowWords[row], word)));
}

/// Which of the thread block's rows of the layout see the range that begins at
/// `column`: one bit for each.
Value AttentionMapper::rowsThatSee(Value column) {
  Value bit = i32.add(i32.div(column, spec.block), firstBit);
  Value word = i32.div(bit, 32), place = i32.rem(bit, 32);
  Value seen = i32.constant(0), one = i32.constant(1);
  for (int64_t i = 0; i < numLayoutRows(); ++i) {
    Value sees = i32.bitsOfBoth(i32.shiftRight(loadBits(i, word), place), one);
    if (hasRowsOfManyBlocks()) {
      Value may = i32.less(column, rowEnds[i]);
      if (!rowBegins.empty())
        may = i32.both(may,
                       i32.less(rowBegins[i], i32.add(column, rangeLength())));
      sees = i32.select(may, sees, i32.constant(0));
    }
    seen = i32.add(seen, i32.mul(sees, int64_t(1) << i));
  }
  return seen;
}

/// Bits of the thread block's rows of the layout: those of a word that are set
/// in at least one row.
Value AttentionMapper::anyRowOf(Value word) {
  Value bits = loadBits(0, word);
  for (int64_t i = 1; i < numLayoutRows(); ++i)
    bits = f.builder.create<arith::OrIOp>(f.loc, bits, loadBits(i, word));
  return bits;
}

/// The index of the lowest bit that is set in `bits`, and `bits` without it.
std::pair<Value, Value> AttentionMapper::takeLowestBit(Value bits) {
  OpBuilder &b = f.builder;
  // The zeros below the lowest bit are as many as its index.
  Value below = i32.sub(bits, i32.constant(1));
  Value changed = b.create<arith::XOrIOp>(f.loc, bits, below);
  Value zeros = i32.bitsOfBoth(changed, below);
  return {b.create<math::CtPopOp>(f.loc, zeros), i32.bitsOfBoth(bits, below)};
}

Value AttentionMapper::ballot(Value condition) {
  OpBuilder &b = f.builder;
  return b.create<NVVM::VoteBallotOp>(f.loc, b.getI32Type(), i32.constant(-1),
                                      condition);
}

Value AttentionMapper::bitsOfLowerLanes(Value lanes) {
  OpBuilder &b = f.builder;
  Value lower =
      b.create<LLVM::CallIntrinsicOp>(
           f.loc, b.getI32Type(),
           b.getStringAttr("llvm.nvvm.read.ptx.sreg.lanemask.lt"), ValueRange())
          .getResult(0);
  return b.create<math::CtPopOp>(f.loc, i32.bitsOfBoth(lanes, lower));
}

/// Appends to the list those of the 32 ranges from range `base` on that are
/// between columns `begin` and `end` and seen. The list has `count` elements.
/// Returns how many it then has.
Value AttentionMapper::listSome(Value base, Value begin, Value end,
                                Value count) {
  OpBuilder &b = f.builder;
  int64_t length = rangeLength(), last = llvm::alignDown(spec.seq - 1, length);
  Value lane = i32.rem(thread, warpSize), zero = i32.constant(0);
  Value first = i32.mul(i32.add(base, lane), length);
  Value seen = rowsThatSee(i32.min(i32.max(first, 0), last));
  Value isListed = i32.both(i32.less(first, end), i32.less(zero, seen));
  isListed = i32.both(isListed, i32.atLeast(first, begin));
  Value lanes = ballot(isListed);
  Value at = i32.add(count, bitsOfLowerLanes(lanes));
  Value entry = hasRowsOfManyBlocks() ? i32.add(first, seen) : first;
  ifThen(isListed, [&] {
    b.create<memref::StoreOp>(f.loc, entry, list, i32.toIndex(at));
  });
  return i32.add(count, b.create<math::CtPopOp>(f.loc, lanes));
}

/// Lists the ranges between columns `begin` and `end` whose blocks are in words
/// of the layout that are not zero. Each lane looks at a word. Returns how many
/// ranges there are.
Value AttentionMapper::listWords(Value begin, Value end) {
  OpBuilder &b = f.builder;
  int64_t ranges = spec.block / rangeLength(); // Of a block.
  Value lane = i32.rem(thread, warpSize), zero = i32.constant(0);
  auto wordOf = [&](Value block) {
    return i32.div(i32.add(block, firstBit), 32);
  };
  Value lastWord =
      wordOf(i32.div(i32.sub(i32.max(end, 1), i32.constant(1)), spec.block));
  auto loop = b.create<scf::ForOp>(
      f.loc, wordOf(i32.div(begin, spec.block)), i32.add(lastWord, 1),
      i32.constant(warpSize), zero,
      [&](OpBuilder &, Location, Value chunk, ValueRange carried) {
        Value word = i32.add(chunk, lane);
        Value bits = anyRowOf(i32.min(word, lastWord));
        Value isAny = b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ne,
                                              bits, zero);
        Value words =
            ballot(i32.both(isAny, i32.less(word, i32.add(lastWord, 1))));
        auto ofChunk = b.create<scf::ForOp>(
            f.loc, zero, b.create<math::CtPopOp>(f.loc, words), i32.constant(1),
            ValueRange{carried[0], words},
            [&](OpBuilder &, Location, Value, ValueRange inner) {
              auto [index, rest] = takeLowestBit(inner[1]);
              Value block =
                  i32.sub(i32.mul(i32.add(chunk, index), 32), firstBit);
              auto ofWord = b.create<scf::ForOp>(
                  f.loc, zero, i32.constant(32 * ranges), i32.constant(32),
                  inner[0],
                  [&](OpBuilder &, Location, Value part, ValueRange count) {
                    Value base = i32.add(i32.mul(block, ranges), part);
                    b.create<scf::YieldOp>(
                        f.loc, listSome(base, begin, end, count[0]));
                  });
              b.create<scf::YieldOp>(f.loc,
                                     ValueRange{ofWord.getResult(0), rest});
            });
        b.create<scf::YieldOp>(f.loc, ofChunk.getResult(0));
      });
  return loop.getResult(0);
}

/// Lists the ranges between columns `begin` and `end` that a row of this thread
/// block sees. Returns how many there are. After them, the list has ranges of
/// columns that do not exist. The first warp lists them.
Value AttentionMapper::listRanges(Value begin, Value end) {
  OpBuilder &b = f.builder;
  int64_t length = rangeLength(), last = llvm::alignDown(spec.seq - 1, length);
  if (!list)
    list = allocate({listLength()}, b.getI32Type());
  auto store = [&](Value entry, Value at) {
    b.create<memref::StoreOp>(f.loc, entry, list, i32.toIndex(at));
  };
  Value lane = i32.rem(thread, warpSize);
  Value number = i32.constant(listLength() - 1);
  ifThen(i32.less(warp, 1), [&] {
    Value total;
    if (orderScratch.words > 1) {
      total = listWords(begin, end);
    } else {
      auto loop = b.create<scf::ForOp>(
          f.loc, i32.div(begin, length),
          i32.div(i32.add(end, length - 1), length), i32.constant(warpSize),
          i32.constant(0),
          [&](OpBuilder &, Location, Value base, ValueRange carried) {
            b.create<scf::YieldOp>(f.loc,
                                   listSome(base, begin, end, carried[0]));
          });
      total = loop.getResult(0);
    }
    ifThen(i32.less(lane, 2 * numRanges()),
           [&] { store(i32.constant(last + length), i32.add(total, lane)); });
    ifThen(i32.less(lane, 1), [&] { store(total, number); });
  });
  b.create<mlir::gpu::BarrierOp>(f.loc);
  return loadNumber(list, i32.toIndex(number));
}

Value AttentionMapper::beginOfKeys() {
  if (!spec.block) {
    Value begin = visible.beginOf(firstRow);
    return begin ? i32.floorTo(begin, columns) : i32.constant(0);
  }
  Value part = op.getPart() ? f.argumentScalar(op.getPart()) : Value();
  rowBits = f.argumentBuffer(op.getLayout());
  firstBit = visible.firstKeyBlock();
  listBegin = listEnd = i32.constant(0);
  int64_t rows = std::min(spec.block, rowsOfBlock());
  for (Value first : firstRows) {
    Value row =
        visible.layoutRow(headOfBlock, i32.min(first, spec.seq - 1), part);
    rowWords.push_back(i32.mul(row, spec.layoutWords()));
    rowEnds.push_back(i32.select(i32.less(first, spec.seq),
                                 visible.endOfSome(first, rows),
                                 i32.constant(0)));
    listEnd = i32.max(listEnd, rowEnds.back());
  }
  if (!isListedInParts())
    listed = listRanges(listBegin, listEnd);
  return i32.constant(0);
}

Value AttentionMapper::endOfKeys() {
  return spec.block ? listed : visible.endOfSome(firstRow, rowsOfBlock());
}

Value AttentionMapper::beginOfQueries(Value head) {
  if (!spec.block)
    return i32.floorTo(visible.firstSeeing(firstRow), columns);
  const OrderScratch &at = orderScratch;
  rowBits = numbersAt(at.columnBits, at.tables * at.blocks * at.words);
  firstBit = i32.constant(0);
  listEnd = i32.constant(spec.seq);
  rowWords.clear();
  rowBegins.clear();
  for (Value first : firstRows) {
    Value row = i32.min(i32.div(first, spec.block), at.blocks - 1);
    if (spec.layouts > 1)
      row = i32.add(row, i32.mul(head, at.blocks));
    rowWords.push_back(i32.mul(row, at.words));
    rowBegins.push_back(visible.firstSeeing(first));
    listBegin = rowBegins.size() == 1 ? rowBegins.back()
                                      : i32.min(listBegin, rowBegins.back());
  }
  rowEnds.assign(firstRows.size(), listEnd);
  listBegin = i32.floorTo(listBegin, rangeLength());
  if (!isListedInParts())
    listed = listRanges(listBegin, listEnd);
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

/// The elements of the list for the tile that begins at element `place`.
AttentionMapper::Values AttentionMapper::entriesAt(Value place) {
  OpBuilder &b = f.builder;
  if (numRanges() == 1)
    return {loadNumber(list, i32.toIndex(place))};
  auto type = VectorType::get({numRanges()}, b.getI32Type());
  Value vector = b.create<vector::LoadOp>(f.loc, type, list,
                                          ValueRange{i32.toIndex(place)});
  Values entries;
  for (int64_t range = 0; range < numRanges(); ++range)
    entries.push_back(b.create<vector::ExtractOp>(f.loc, vector, range));
  return entries;
}

/// The first column of a range.
Value AttentionMapper::firstOf(Value entry) {
  return hasRowsOfManyBlocks() ? i32.bitsOfBoth(entry, i32.constant(~entryBits))
                               : entry;
}

/// The tile of columns at `place`: a column or, with a layout, an element of
/// the list.
RowRanges AttentionMapper::tileAt(Value place) {
  if (!spec.block)
    return place;
  return RowRanges(llvm::map_to_vector(
      entriesAt(place), [&](Value entry) { return firstOf(entry); }));
}

/// The column of a tile at `offset` + `lane`, where `lane` is less than 8 and
/// adds to `offset` without a carry beyond a multiple of 8.
Value AttentionMapper::columnAt(const ColumnTile &tileColumns, Value lane,
                                int64_t offset) {
  int64_t length = tileColumns.rangeLength();
  return i32.add(i32.add(tileColumns.ranges.firsts[offset / length], lane),
                 offset % length);
}

void AttentionMapper::beginColumns(Value begin, Copy copy) {
  if (!isListedInParts())
    copy(tileAt(begin), i32.constant(0));
  commitCopies();
}

AttentionMapper::Values AttentionMapper::forColumns(Value begin, Value end,
                                                    Values init, Copy copy,
                                                    Compute compute) {
  if (!isListedInParts())
    return forTiles(begin, end, init, copy, compute);
  int64_t part = mostListed * rangeLength();
  auto loop = f.builder.create<scf::ForOp>(
      f.loc, listBegin, listEnd, i32.constant(part), init,
      [&](OpBuilder &b, Location loc, Value first, ValueRange carried) {
        Value zero = i32.constant(0);
        Value count = listRanges(first, i32.min(i32.add(first, part), listEnd));
        ifThen(i32.less(zero, count), [&] { copy(tileAt(zero), zero); });
        commitCopies();
        b.create<scf::YieldOp>(
            loc, forTiles(zero, count, Values(carried.begin(), carried.end()),
                          copy, compute));
      });
  return Values(loop.getResults().begin(), loop.getResults().end());
}

AttentionMapper::Values AttentionMapper::forTiles(Value begin, Value end,
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
        Values next =
            hasRowsOfManyBlocks()
                ? computeSeen(place, stage, carried.drop_back(), compute)
                : compute({tileAt(place), columns, stage, Value()},
                          carried.drop_back());
        next.push_back(other);
        b.create<scf::YieldOp>(loc, next);
      });
  // The last iteration has started a copy of a tile of columns after the last
  // one. Nothing reads these columns, but their copy must finish before other
  // code uses the same workgroup memory.
  waitForCopies(0);
  return Values(loop.getResults().drop_back());
}

/// Emits `compute` for the ranges of a tile that this warp sees.
AttentionMapper::Values AttentionMapper::computeSeen(Value place, Value stage,
                                                     ValueRange carried,
                                                     Compute compute) {
  OpBuilder &b = f.builder;
  Value row = i32.div(warp, spec.block / warpRows);
  Values entries = entriesAt(place);
  Value byAll = entries.front();
  for (Value entry : llvm::drop_begin(entries))
    byAll = i32.bitsOfBoth(byAll, entry);
  Value seesAll = i32.bitsOfBoth(i32.shiftRight(byAll, row), i32.constant(1));
  auto seenOf = [&] {
    Value seen = i32.constant(0);
    for (auto [range, entry] : llvm::enumerate(entries)) {
      Value bit = i32.bitsOfBoth(i32.shiftRight(entry, row), i32.constant(1));
      seen = i32.add(seen, i32.mul(bit, int64_t(1) << range));
    }
    return seen;
  };
  auto branch = b.create<scf::IfOp>(
      f.loc, i32.atLeast(seesAll, i32.constant(1)),
      [&](OpBuilder &, Location loc) {
        b.create<scf::YieldOp>(
            loc, compute({tileAt(place), columns, stage, Value()}, carried));
      },
      [&](OpBuilder &, Location loc) {
        b.create<scf::YieldOp>(
            loc, numRanges() == 1
                     ? Values(carried.begin(), carried.end())
                     : computeRanges(place, stage, seenOf(), carried, compute));
      });
  return Values(branch.getResults().begin(), branch.getResults().end());
}

/// Emits `compute` for one range of a tile after the other, if its bit is set
/// in `seen`.
AttentionMapper::Values AttentionMapper::computeRanges(Value place, Value stage,
                                                       Value seen,
                                                       ValueRange carried,
                                                       Compute compute) {
  OpBuilder &b = f.builder;
  Values init(carried.begin(), carried.end());
  init.push_back(seen);
  auto loop = b.create<scf::ForOp>(
      f.loc, i32.constant(0), b.create<math::CtPopOp>(f.loc, seen),
      i32.constant(1), init,
      [&](OpBuilder &, Location loc, Value, ValueRange carried) {
        auto [range, rest] = takeLowestBit(carried.back());
        Value first =
            firstOf(loadNumber(list, i32.toIndex(i32.add(place, range))));
        Values next = compute(
            {first, rangeLength(), stage, i32.mul(range, rangeLength())},
            carried.drop_back());
        next.push_back(rest);
        b.create<scf::YieldOp>(loc, next);
      });
  return Values(loop.getResults().drop_back());
}

SharedRows AttentionMapper::columnsOf(Value memory, Value stage) {
  return {memory, i32.mul(stage, columns)};
}

Value AttentionMapper::placeOf(const ColumnTile &tile) {
  Value first = i32.mul(tile.stage, columns);
  return tile.firstInTile ? i32.add(first, tile.firstInTile) : first;
}

SharedRows AttentionMapper::columnsOf(Value memory, const ColumnTile &tile) {
  return {memory, placeOf(tile)};
}

} // namespace heddle::gpu
