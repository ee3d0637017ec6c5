//===- GemmLoop.cpp - A product's loop over k -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GemmLoop: the loop over k of a product. The loop has two forms. In the first,
// cp.async copies tiles to a ring of stages in shared memory. In the second,
// for tf32, registers hold the next tile while the current one is multiplied.
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

GemmLoop::GemmLoop(ThreadCode &c, const Tiling &tiling, TileCopy &left,
                   TileCopy &right, Value memory, Value elements, bool sumsLeft)
    : c(c), tiling(tiling), left(left), right(right), memory(memory),
      sumsLeft(sumsLeft), next{{left.begin(), right.begin()}, elements} {
  if (tiling.tf32)
    fetchFirst();
  else
    startRing();
}

GemmLoop::Values GemmLoop::emit(Multiplier &multiplier, TileSums *factorSums) {
  int64_t numSums =
      multiplier.numSums() + (factorSums ? factorSums->numSums() : 0);
  Values sums(numSums, c.zero(c.builder.getF32Type()));
  return tiling.tf32 ? emitTf32(multiplier, factorSums, sums)
                     : emitRing(multiplier, factorSums, sums);
}

void GemmLoop::advance(Source &source) {
  source.pointers[0] = c.at(source.pointers[0], left.step());
  source.pointers[1] = c.at(source.pointers[1], right.step());
  source.left = c.add(source.left, -tiling.k);
}

//===----------------------------------------------------------------------===//
// By asynchronous copies
//===----------------------------------------------------------------------===//

/// Starts the copies of both operands' tiles of one step along k.
void GemmLoop::startCopies(const Source &source, Value target) {
  left.start(source.pointers[0], source.left, target);
  right.start(source.pointers[1], source.left, c.at(target, left.tileBytes()));
}

/// Starts the copies of the first steps, one fewer than the ring has stages.
void GemmLoop::startRing() {
  for (int64_t step = 0; step < tiling.stages - 1; ++step) {
    if (step < tiling.steps())
      startCopies(next, c.at(memory, step * tiling.stageBytes()));
    c.commitCopies();
    advance(next);
  }
}

GemmLoop::Values GemmLoop::emitRing(Multiplier &multiplier,
                                    TileSums *factorSums, Values carried) {
  OpBuilder &b = c.builder;
  int64_t steps = tiling.steps(), ahead = tiling.stages - 1;
  int64_t numProducts = multiplier.numSums(), numSums = carried.size();
  llvm::append_range(carried, next.pointers);
  carried.append(
      {next.left, c.constant(0), c.constant(ahead * tiling.stageBytes())});
  auto loop = b.create<scf::ForOp>(c.loc, c.constant(0), c.constant(steps),
                                   c.constant(1), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Values sums(loop.getRegionIterArgs().take_front(numSums));
  auto rest = loop.getRegionIterArgs().drop_front(numSums);
  Source source = {{rest[0], rest[1]}, rest[2]};
  Value reading = rest[3], writing = rest[4];
  c.waitForCopies(tiling.stages - 2);
  // After the barrier all threads see the current tile. No thread still reads
  // the previous tile, which the next copies overwrite.
  c.barrier();
  if (steps > ahead) {
    InsideIf more(c, c.less(loop.getInductionVar(), steps - ahead));
    startCopies(source, c.at(memory, writing));
  }
  c.commitCopies();
  Value leftTile = c.at(memory, reading);
  Value rightTile = c.at(leftTile, left.tileBytes());
  auto all = MutableArrayRef<Value>(sums);
  multiplier.multiply(leftTile, rightTile, 0, tiling.k,
                      all.take_front(numProducts));
  if (factorSums)
    factorSums->add(sumsLeft ? leftTile : rightTile,
                    all.drop_front(numProducts));
  advance(source);
  Value after = c.add(reading, tiling.stageBytes());
  Value isInside = c.less(after, tiling.stages * tiling.stageBytes());
  llvm::append_range(sums, source.pointers);
  sums.append({source.left, c.orZero(isInside, after), reading});
  b.create<scf::YieldOp>(c.loc, sums);
  return Values(loop.getResults().take_front(numSums));
}

//===----------------------------------------------------------------------===//
// Through registers (tf32)
//===----------------------------------------------------------------------===//

void GemmLoop::fetchFirst() {
  Values ofLeft = left.fetch(next.pointers[0], next.left);
  Values ofRight = right.fetch(next.pointers[1], next.left);
  left.put(ofLeft, memory);
  right.put(ofRight, c.at(memory, left.tileBytes()));
  firstOfFactor = sumsLeft ? ofLeft : ofRight;
  advance(next);
}

/// Emits the loop for tf32, with two stages. While the first half of a step is
/// multiplied, this thread loads its part of the next left tile into registers.
/// During the second half it loads its part of the next right tile. The last
/// step has no next tile: it is emitted after the loop, so that the loop's body
/// needs no branch.
GemmLoop::Values GemmLoop::emitTf32(Multiplier &multiplier,
                                    TileSums *factorSums, Values carried) {
  OpBuilder &b = c.builder;
  int64_t numProducts = multiplier.numSums(), numSums = carried.size();
  if (factorSums)
    factorSums->addFetched(
        firstOfFactor, MutableArrayRef<Value>(carried).drop_front(numProducts));
  llvm::append_range(carried, next.pointers);
  carried.append({next.left, c.constant(0)});
  auto multiply = [&](Value reading, int64_t begin, int64_t end,
                      MutableArrayRef<Value> sums) {
    Value tile = c.at(memory, reading);
    multiplier.multiply(tile, c.at(tile, left.tileBytes()), begin, end,
                        sums.take_front(numProducts));
  };
  auto loop =
      b.create<scf::ForOp>(c.loc, c.constant(0), c.constant(tiling.steps() - 1),
                           c.constant(1), carried);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Values sums(loop.getRegionIterArgs().take_front(numSums));
    auto rest = loop.getRegionIterArgs().drop_front(numSums);
    Source source = {{rest[0], rest[1]}, rest[2]};
    Value reading = rest[3];
    Value writing = c.sub(c.constant(tiling.stageBytes()), reading);
    c.barrier(); // For the same reason as in emitRing.
    for (bool isLeft : {true, false}) {
      TileCopy &copy = isLeft ? left : right;
      Values values = copy.fetch(source.pointers[isLeft ? 0 : 1], source.left);
      int64_t half = tiling.k / 2, begin = isLeft ? 0 : half;
      multiply(reading, begin, begin + half, sums);
      if (factorSums && sumsLeft == isLeft)
        factorSums->addFetched(
            values, MutableArrayRef<Value>(sums).drop_front(numProducts));
      Value target = c.at(memory, writing);
      copy.put(values, isLeft ? target : c.at(target, left.tileBytes()));
    }
    advance(source);
    llvm::append_range(sums, source.pointers);
    sums.append({source.left, writing});
    b.create<scf::YieldOp>(c.loc, sums);
  }
  Values sums(loop.getResults().take_front(numSums));
  c.barrier();
  multiply(loop.getResults().back(), 0, tiling.k, sums);
  return sums;
}

} // namespace heddle::gpu
