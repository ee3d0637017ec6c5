//===- WorkShares.cpp - Distributes a kernel's work over threads ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/WorkShares.h"

using namespace mlir;

namespace heddle::cpu {

/// The largest number of pieces of work per thread that threads take
/// dynamically. With many small pieces, all threads end at about the same time.
static constexpr int64_t mostPieces = 8;
/// `forTaken` splits the work into this many pieces per thread, which threads
/// take dynamically.
static constexpr int64_t timesOfThread = 16;

/// MLIR needs a location for each argument of a new block. Returns one for each
/// of `values`.
static SmallVector<Location> locationsOf(LoopBuilder &b, ValueRange values) {
  return SmallVector<Location>(values.size(), b.loc);
}

static Value ceilDiv(LoopBuilder &b, int64_t count, Value parts) {
  return b.div(b.add(parts, count - 1), parts);
}

static Value atLeastOne(LoopBuilder &b, Value value) {
  return b.create<arith::MaxSIOp>(value, b.constant(1));
}

std::pair<Value, Value> LaunchThread::share(LoopBuilder &b, Value units) const {
  auto bound = [&](Value part) { return b.div(b.mul(units, part), threads); };
  return {bound(thread), bound(b.add(thread, 1))};
}

Value LaunchThread::take(LoopBuilder &b) const {
  return b.create<LLVM::AtomicRMWOp>(LLVM::AtomicBinOp::add, taken,
                                     b.constant(1),
                                     LLVM::AtomicOrdering::monotonic);
}

void LaunchThread::forTaken(LoopBuilder &b, int64_t units,
                            llvm::function_ref<void(Value)> body) const {
  Value together =
      atLeastOne(b, b.div(b.constant(units), b.mul(threads, timesOfThread)));
  OpBuilder::InsertionGuard guard(b.builder);
  auto loop = b.builder.create<scf::WhileOp>(
      b.loc, TypeRange(b.builder.getI64Type()), ValueRange());
  b.builder.createBlock(&loop.getBefore());
  Value begin = b.mul(take(b), together);
  b.builder.create<scf::ConditionOp>(b.loc, b.less(begin, b.constant(units)),
                                     begin);
  Block *after = b.builder.createBlock(&loop.getAfter(), {},
                                       {b.builder.getI64Type()}, {b.loc});
  Value first = after->getArgument(0);
  b.forLoop(first, b.min(b.add(first, together), b.constant(units)), 1, body);
  b.builder.create<scf::YieldOp>(b.loc);
}

WorkShares::WorkShares(LoopBuilder &b, const LaunchThread &self, int64_t units,
                       int64_t least)
    : b(b), self(self), units(units), assigned(b.constant(units)) {
  int64_t left = units / 3;
  if (left < 2 * least)
    return;
  // Use only static shares if there is one thread, or if there would be less
  // than one piece per thread.
  Value perThread = b.min(b.div(b.constant(left), b.mul(self.threads, least)),
                          b.constant(mostPieces));
  perThread =
      b.select(b.less(b.constant(1), self.threads), perThread, b.constant(0));
  Value most = b.mul(self.threads, perThread);
  Value any = b.less(b.constant(0), most);
  assigned = b.select(any, b.constant(units - left), b.constant(units));
  unitsOfPiece = ceilDiv(b, left, atLeastOne(b, most));
  pieces = b.select(any, ceilDiv(b, left, unitsOfPiece), b.constant(0));
}

Value WorkShares::emitRound(
    Value round, Value held,
    llvm::function_ref<void(Value begin, Value end)> body) {
  auto [begin, end] = self.share(b, assigned);
  if (!pieces) {
    body(begin, end);
    return held;
  }
  Value before = b.mul(round, pieces), limit = b.add(before, pieces);
  OpBuilder::InsertionGuard guard(b.builder);
  SmallVector<Value> init = {begin, end, held};
  auto loop =
      b.builder.create<scf::WhileOp>(b.loc, ValueRange(init).getTypes(), init);
  Block *work = b.builder.createBlock(
      &loop.getBefore(), {}, ValueRange(init).getTypes(), locationsOf(b, init));
  body(work->getArgument(0), work->getArgument(1));
  Value piece = work->getArgument(2);
  auto mayTake = b.builder.create<scf::IfOp>(
      b.loc, b.less(piece, b.constant(0)),
      [&](OpBuilder &, Location) {
        b.builder.create<scf::YieldOp>(b.loc, self.take(b));
      },
      [&](OpBuilder &, Location) {
        b.builder.create<scf::YieldOp>(b.loc, piece);
      });
  piece = mayTake.getResult(0);
  Value isOfRound = b.less(piece, limit);
  Value next = b.add(assigned, b.mul(b.sub(piece, before), unitsOfPiece));
  Value nextEnd = b.min(b.add(next, unitsOfPiece), b.constant(units));
  b.builder.create<scf::ConditionOp>(
      b.loc, isOfRound,
      ValueRange{next, nextEnd, b.select(isOfRound, none(), piece)});
  Block *again = b.builder.createBlock(
      &loop.getAfter(), {}, ValueRange(init).getTypes(), locationsOf(b, init));
  b.builder.create<scf::YieldOp>(b.loc, again->getArguments());
  return loop.getResult(2);
}

} // namespace heddle::cpu
