//===- SortPositions.cpp - Positions sorted by row ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code of the counting sort of token positions: counts the positions of
// each row, computes prefix sums of the counts, and writes the positions in
// order.
//
//===----------------------------------------------------------------------===//

#include "SortPositions.h"
#include "BlockReduce.h"
#include "ThreadCode.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

/// Limits of a block. Every block reads all positions, so that there should be
/// few blocks. But the counters of a block's rows must fit into its workgroup
/// memory, which limits the number of rows.
static constexpr int64_t mostBlocks = 32, mostRowsOfBlock = 2048;

SortedPositions::SortedPositions(int64_t positions, int64_t rows)
    : positions(positions), rows(rows),
      rowsOfBlock(std::min<int64_t>(llvm::divideCeil(rows + 1, mostBlocks),
                                    mostRowsOfBlock)) {}

int64_t SortedPositions::blocks() const {
  return llvm::divideCeil(rows + 1, rowsOfBlock);
}

Value SortedPositions::order(KernelFrame &f) const {
  return f.scratch(0, {positions}, f.builder.getI32Type());
}

Value SortedPositions::segments(KernelFrame &f) const {
  return f.scratch(listBytes(), {positions, 2}, f.builder.getI32Type());
}

namespace {
/// Emits the code of one block, which handles a range of the embedding table's
/// rows.
class Sorter {
public:
  Sorter(KernelFrame &f, int64_t positions, int64_t rows, int64_t rowsOfBlock,
         Value order, Value segments, SortedPositions::RowOf rowOf)
      : f(f), b(f.builder), c(f.builder, f.loc), positions(positions),
        rows(rows), rowsOfBlock(rowsOfBlock), order(order), segments(segments),
        rowOf(rowOf), thread(c.threadId()), lane(c.rem(thread, warpSize)),
        firstRow(c.mul(c.blockId(mlir::gpu::Dimension::x), rowsOfBlock)) {}

  LogicalResult emit();

private:
  static constexpr int64_t threads = SortedPositions::threads;

  struct Prefix {
    Value before, total; ///< The sum over earlier threads, and over all.
  };
  Prefix sumBefore(Value value);
  FailureOr<Value> localRow(Value position);
  FailureOr<Value> count();
  void placeRows(Value earlier);
  LogicalResult placePositions();
  void placeListed(Value tile, Value total);
  void store(Value value, Value memory, Value at) {
    b.create<memref::StoreOp>(f.loc, value, memory, c.toIndex(at));
  }
  Value load(Value memory, Value at) {
    return b.create<memref::LoadOp>(f.loc, memory, c.toIndex(at));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return b.create<arith::CmpIOp>(f.loc, predicate, x, y);
  }
  /// Returns the condition that the row with the index `local` is one of this
  /// block's rows.
  Value isOwn(Value local) {
    return compare(arith::CmpIPredicate::ult, local, c.constant(rowsOfBlock));
  }
  void ifThen(Value condition, function_ref<void()> body) {
    b.create<scf::IfOp>(f.loc, condition, [&](OpBuilder &, Location) {
      body();
      b.create<scf::YieldOp>(f.loc);
    });
  }
  void syncWarp() { b.create<NVVM::SyncWarpOp>(f.loc, c.constant(-1)); }

  KernelFrame &f;
  OpBuilder &b;
  ThreadCode c;
  int64_t positions, rows, rowsOfBlock;
  Value order, segments;
  SortedPositions::RowOf rowOf;
  Value thread, lane, firstRow;
  /// Arrays with an element for each of the block's rows, and a list of
  /// positions. `next` first counts the positions of a row; later it is the
  /// index at which the row's next position is written. `starts` and `ends` are
  /// the range of a row in the sorted list. `list` has the positions that the
  /// current iteration writes.
  Value next, starts, ends, list;
};
} // namespace

Sorter::Prefix Sorter::sumBefore(Value value) {
  int64_t warps = threads / warpSize;
  Value slots = f.addWorkgroup({warps}, b.getI32Type());
  Value sum = value;
  for (int64_t offset = 1; offset < warpSize; offset *= 2) {
    auto other = b.create<mlir::gpu::ShuffleOp>(f.loc, sum, offset, warpSize,
                                                mlir::gpu::ShuffleMode::UP);
    sum = c.add(sum, c.orZero(other.getValid(), other.getShuffleResult()));
  }
  Value warp = c.div(thread, warpSize);
  ifThen(compare(arith::CmpIPredicate::eq, lane, c.constant(warpSize - 1)),
         [&] { store(sum, slots, warp); });
  c.barrier();
  Prefix prefix = {c.sub(sum, value), c.constant(0)};
  for (int64_t i = 0; i < warps; ++i) {
    Value part = load(slots, c.constant(i));
    prefix.total = c.add(prefix.total, part);
    prefix.before =
        c.add(prefix.before, c.orZero(c.less(c.constant(i), warp), part));
  }
  return prefix;
}

/// Returns the index, among this block's rows of the embedding table, of the
/// row to which a token position adds. The index is out of range if another
/// block has the row.
FailureOr<Value> Sorter::localRow(Value position) {
  ElementEmitter::Scope scope(f.emitter);
  FailureOr<Value> row = rowOf(c.toIndex(position));
  if (failed(row))
    return failure();
  return c.sub(*row, firstRow);
}

/// Counts, for each of the block's rows of the embedding table, the token
/// positions that add to it. Returns how many of the positions that this thread
/// has read add to rows of earlier blocks.
FailureOr<Value> Sorter::count() {
  b.create<scf::ForOp>(
      f.loc, f.threadId(), f.constant(rowsOfBlock), f.constant(threads),
      ValueRange(), [&](OpBuilder &, Location, Value at, ValueRange) {
        b.create<memref::StoreOp>(f.loc, c.constant(0), next, at);
        b.create<scf::YieldOp>(f.loc);
      });
  c.barrier();
  auto loop = b.create<scf::ForOp>(f.loc, f.threadId(), f.constant(positions),
                                   f.constant(threads), c.constant(0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  FailureOr<Value> local = localRow(c.toI32(loop.getInductionVar()));
  if (failed(local))
    return failure();
  // The additions are atomic and in any order. The order does not matter, since
  // integers are added.
  ifThen(isOwn(*local), [&] {
    b.create<memref::AtomicRMWOp>(f.loc, arith::AtomicRMWKind::addi,
                                  c.constant(1), next, c.toIndex(*local));
  });
  Value isEarlier = c.less(*local, 0);
  Value seen = c.add(loop.getRegionIterArg(0),
                     c.create<arith::ExtUIOp>(b.getI32Type(), isEarlier));
  b.create<scf::YieldOp>(f.loc, seen);
  return loop.getResult(0);
}

/// Computes where each of the block's rows begins and ends in the sorted list.
/// `earlier` is the number of token positions, among those that this thread has
/// read, that add to rows of earlier blocks.
void Sorter::placeRows(Value earlier) {
  Value begin = sumBefore(earlier).total;
  int64_t perThread = llvm::divideCeil(rowsOfBlock, threads);
  SmallVector<Value> counts, places;
  Value sum = c.constant(0);
  for (int64_t i = 0; i < perThread; ++i) {
    Value row = c.add(c.mul(thread, perThread), i);
    Value last = c.constant(rowsOfBlock - 1);
    Value exists = c.less(row, rowsOfBlock);
    places.push_back(row);
    counts.push_back(
        c.orZero(exists, load(next, c.create<arith::MinSIOp>(row, last))));
    sum = c.add(sum, counts.back());
  }
  Value at = c.add(begin, sumBefore(sum).before);
  for (auto [row, count] : llvm::zip(places, counts)) {
    Value end = c.add(at, count);
    ifThen(c.less(row, rowsOfBlock), [&, row = row] {
      store(at, starts, row);
      store(at, next, row);
      store(end, ends, row);
    });
    at = end;
  }
}

LogicalResult Sorter::placePositions() {
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0), f.constant(positions),
                                   f.constant(threads));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value tile = c.toI32(loop.getInductionVar());
  Value position = c.add(tile, thread);
  FailureOr<Value> local =
      localRow(c.create<arith::MinSIOp>(position, c.constant(positions - 1)));
  if (failed(local))
    return failure();
  Value isListed = c.both(isOwn(*local), c.less(position, positions));
  Prefix prefix = sumBefore(c.create<arith::ExtUIOp>(b.getI32Type(), isListed));
  ifThen(isListed, [&] {
    store(c.add(c.mul(*local, threads), thread), list, prefix.before);
  });
  c.barrier();
  // A single warp writes the positions: its lanes exchange values without a
  // barrier.
  ifThen(c.less(thread, warpSize), [&] { placeListed(tile, prefix.total); });
  c.barrier();
  return success();
}

void Sorter::placeListed(Value tile, Value total) {
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0), c.toIndex(total),
                                   f.constant(warpSize));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value at = c.add(c.toI32(loop.getInductionVar()), lane);
  Value isHere = compare(arith::CmpIPredicate::slt, at, total);
  Value entry =
      load(list, c.create<arith::MinSIOp>(at, c.sub(total, c.constant(1))));
  Value local = c.div(entry, threads);
  // Lanes after the end of the list get keys that no other lane has, so that
  // they match no lane.
  Value key =
      c.create<arith::SelectOp>(isHere, local, c.sub(c.constant(-1), lane));
  Type i32 = b.getI32Type();
  Value same =
      c.call("llvm.nvvm.match.any.sync.i32", i32, {c.constant(-1), key});
  Value lower = c.call("llvm.nvvm.read.ptx.sreg.lanemask.lt", i32, {});
  auto bits = [&](Value mask) -> Value {
    return b.create<math::CtPopOp>(f.loc, mask);
  };
  Value rank = bits(c.create<arith::AndIOp>(same, lower));
  Value place = c.add(load(next, local), rank);
  syncWarp();
  ifThen(isHere, [&] {
    Value row = c.add(firstRow, local);
    Value begins =
        c.both(c.less(row, rows),
               compare(arith::CmpIPredicate::eq, place, load(starts, local)));
    store(c.add(tile, c.rem(entry, threads)), order, place);
    f.store({c.orZero(begins, load(ends, local)), c.orZero(begins, row)},
            segments, {c.toIndex(place), f.constant(0)});
    ifThen(compare(arith::CmpIPredicate::eq, rank, c.constant(0)),
           [&] { store(c.add(place, bits(same)), next, local); });
  });
  syncWarp();
}

LogicalResult Sorter::emit() {
  for (Value *memory : {&next, &starts, &ends})
    *memory = f.addWorkgroup({rowsOfBlock}, b.getI32Type());
  list = f.addWorkgroup({threads}, b.getI32Type());
  FailureOr<Value> earlier = count();
  if (failed(earlier))
    return failure();
  placeRows(*earlier);
  return placePositions();
}

LogicalResult SortedPositions::emit(KernelFrame &f, RowOf rowOf) const {
  return Sorter(f, positions, rows, rowsOfBlock, order(f), segments(f), rowOf)
      .emit();
}

} // namespace heddle::gpu
