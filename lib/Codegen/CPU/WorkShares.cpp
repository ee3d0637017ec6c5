//===- WorkShares.cpp - Who does what of a kernel's work ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WorkShares.h"

using namespace mlir;

namespace heddle::cpu {

/// For each thread, as long as they have `least` units: the last one to come
/// finds little left to wait for.
static constexpr int64_t piecesOfThread = 4;

/// Scalars that an operation of regions carries, as its builders want them.
static SmallVector<Location> locationsOf(LoopBuilder &b, ValueRange values) {
  return SmallVector<Location>(values.size(), b.loc);
}

Value Participant::take(LoopBuilder &b) const {
  return b.create<LLVM::AtomicRMWOp>(LLVM::AtomicBinOp::add, taken,
                                     b.constant(1),
                                     LLVM::AtomicOrdering::monotonic);
}

void Participant::forPieces(LoopBuilder &b, int64_t count,
                            llvm::function_ref<void(Value)> body) const {
  OpBuilder::InsertionGuard guard(b.builder);
  auto loop = b.builder.create<scf::WhileOp>(
      b.loc, TypeRange(b.builder.getI64Type()), ValueRange());
  b.builder.createBlock(&loop.getBefore());
  Value piece = take(b);
  b.builder.create<scf::ConditionOp>(b.loc, b.less(piece, b.constant(count)),
                                     piece);
  Block *after = b.builder.createBlock(&loop.getAfter(), {},
                                       {b.builder.getI64Type()}, {b.loc});
  body(after->getArgument(0));
  b.builder.create<scf::YieldOp>(b.loc);
}

WorkShares::WorkShares(LoopBuilder &b, const Participant &self, int64_t units,
                       int64_t least)
    : b(b), self(self), units(units), own(units) {
  int64_t left = units / 3;
  if (left < 2 * least)
    return;
  own = units - left;
  Value even = b.div(b.constant(left), b.mul(self.threads, piecesOfThread));
  unitsOfPiece = b.create<arith::MaxSIOp>(even, b.constant(least));
  pieces = b.div(b.add(unitsOfPiece, left - 1), unitsOfPiece);
}

Value WorkShares::emitRound(
    Value round, Value held,
    llvm::function_ref<void(Value begin, Value end)> body) {
  auto bound = [&](Value thread) {
    return b.div(b.mul(thread, own), self.threads);
  };
  Value begin = bound(self.thread), end = bound(b.add(self.thread, 1));
  if (own == units) {
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
  Value next = b.add(b.mul(b.sub(piece, before), unitsOfPiece), own);
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
