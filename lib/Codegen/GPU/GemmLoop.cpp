//===- GemmLoop.cpp - A product's loop over k -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RingLoop: the loop over k of a product, in which cp.async copies tiles to a
// ring of stages in shared memory. GemmLoop: what all such loops share.
//
//===----------------------------------------------------------------------===//

#include "GemmTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

GemmLoop::Values GemmLoop::emit(Multiplier &multiplier, TileSums *factorSums) {
  int64_t numSums =
      multiplier.numSums() + (factorSums ? factorSums->numSums() : 0);
  Values sums(numSums, c.zero(c.builder.getF32Type()));
  return emitSteps(multiplier, factorSums, sums);
}

void GemmLoop::advance(Source &source) {
  source.pointers[0] = c.at(source.pointers[0], block.left.shape.step());
  source.pointers[1] = c.at(source.pointers[1], block.right.shape.step());
  source.left = c.add(source.left, -block.tiling.k);
}

RingLoop::RingLoop(ThreadCode &c, const GemmBlock &block)
    : GemmLoop(c, block), left(c, block, block.left),
      right(c, block, block.right) {}

/// Starts the copies of both operands' tiles of one step along k.
void RingLoop::startCopies(const Source &source, Value target) {
  left.start(source.pointers[0], source.left, target);
  right.start(source.pointers[1], source.left,
              c.at(target, block.left.shape.tileBytes()));
}

/// Starts the copies of the first steps, one fewer than the ring has stages.
void RingLoop::start(Value elements) {
  const Tiling &tiling = block.tiling;
  next = {{left.begin(), right.begin()}, elements};
  for (int64_t step = 0; step < tiling.stages - 1; ++step) {
    if (step < tiling.steps())
      startCopies(next, c.at(block.memory, step * block.stageBytes()));
    c.commitCopies();
    advance(next);
  }
}

/// `carried` are the sums, the pointers to both operands' next tiles, the
/// elements that are left along k, and the stages that are read and written.
GemmLoop::Values RingLoop::emitStep(Multiplier &multiplier,
                                    TileSums *factorSums, Value step,
                                    const Values &carried) {
  const Tiling &tiling = block.tiling;
  int64_t steps = tiling.steps(), ahead = tiling.stages - 1;
  constexpr int64_t numOthers = 5;
  Values sums(ArrayRef(carried).drop_back(numOthers));
  auto others = ArrayRef(carried).take_back(numOthers);
  Source source = {{others[0], others[1]}, others[2]};
  Value reading = others[3], writing = others[4];
  c.waitForCopies(tiling.stages - 2);
  // After the barrier all threads see the current tile. No thread still reads
  // the previous tile, which the next copies overwrite.
  c.barrier();
  if (steps > ahead) {
    InsideIf more(c, c.less(step, steps - ahead));
    startCopies(source, c.at(block.memory, writing));
  }
  c.commitCopies();
  Value leftTile = c.at(block.memory, reading);
  Value rightTile = c.at(leftTile, block.left.shape.tileBytes());
  auto all = MutableArrayRef<Value>(sums);
  int64_t numProducts = multiplier.numSums();
  multiplier.multiply(leftTile, rightTile, 0, tiling.k,
                      all.take_front(numProducts));
  if (factorSums)
    factorSums->add({block.sumsLeft ? leftTile : rightTile, {}},
                    all.drop_front(numProducts));
  advance(source);
  Value after = c.add(reading, block.stageBytes());
  Value isInside = c.less(after, tiling.stages * block.stageBytes());
  llvm::append_range(sums, source.pointers);
  sums.append({source.left, c.orZero(isInside, after), reading});
  return sums;
}

GemmLoop::Values RingLoop::emitSteps(Multiplier &multiplier,
                                     TileSums *factorSums, Values carried) {
  OpBuilder &b = c.builder;
  const Tiling &tiling = block.tiling;
  int64_t steps = tiling.steps(), ahead = tiling.stages - 1;
  int64_t numSums = carried.size();
  llvm::append_range(carried, next.pointers);
  carried.append(
      {next.left, c.constant(0), c.constant(ahead * block.stageBytes())});
  if (steps <= multiplier.mostUnrolledSteps()) {
    for (int64_t step = 0; step < steps; ++step)
      carried = emitStep(multiplier, factorSums, c.constant(step), carried);
    return Values(ArrayRef(carried).take_front(numSums));
  }
  auto loop = b.create<scf::ForOp>(c.loc, c.constant(0), c.constant(steps),
                                   c.constant(1), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  b.create<scf::YieldOp>(c.loc, emitStep(multiplier, factorSums,
                                         loop.getInductionVar(),
                                         Values(loop.getRegionIterArgs())));
  return Values(loop.getResults().take_front(numSums));
}

} // namespace heddle::gpu
