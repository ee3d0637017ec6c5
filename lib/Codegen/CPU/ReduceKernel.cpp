//===- ReduceKernel.cpp - Sums of all elements ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

using namespace mlir;

namespace heddle::cpu {

using linalg::GenericOp;

/// The sum, in f64, of one full reduction over `size` elements.
static Value sumAll(KernelEmitter &k, GenericOp reduction, int64_t size) {
  LoopBuilder &b = k.b;
  TensorEvaluator &ev = k.evaluator;
  Value zero = b.zeros(ev.vectorType(b.builder.getF64Type()));
  constexpr unsigned copies = 4;
  SmallVector<Value> carried = k.forColumns(
      size, copies, zero,
      [&](Value element, ValueRange carried, unsigned) -> SmallVector<Value> {
        Point at = {{element, Coordinate::Consecutive}};
        return {ev.accumulate(reduction, at, carried[0])};
      });
  Value total = carried[0];
  for (Value part : ArrayRef(carried).drop_front())
    total = b.create<arith::AddFOp>(total, part);
  return b.create<vector::ReductionOp>(vector::CombiningKind::ADD, total);
}

/// One thread makes the sums, which are short: long ones are made in two
/// steps, sums of blocks (`block_sums`) and the sum of those.
LogicalResult emitReduceKernel(KernelEmitter &k) {
  LoopBuilder &b = k.b;
  TensorEvaluator &ev = k.evaluator;
  SmallVector<GenericOp> reductions;
  for (Operation *op : genericsBehind(k.yields())) {
    auto generic = cast<GenericOp>(op);
    if (!generic.getNumReductionLoops())
      continue;
    if (generic.getNumParallelLoops() ||
        !getElementTypeOrSelf(generic.getResult(0)).isF64())
      return k.kernel.emitError("reduces to something other than one f64; its "
                                "generator is not \"reduce\"");
    reductions.push_back(generic);
  }
  ev.setFlat();
  b.ifThen(b.equal(k.thread, b.constant(0)), [&] {
    TensorEvaluator::Scope scope(ev);
    for (GenericOp reduction : reductions) {
      int64_t size = 1;
      for (int64_t extent : reduction.getStaticLoopRanges())
        size *= extent;
      ev.hoistConstants(reduction.getResult(0));
      ev.define(reduction.getResult(0), {}, {sumAll(k, reduction, size)});
    }
    for (auto [yield, pointer] : llvm::zip(k.yields(), k.results))
      ev.store(yield, pointer, {}, ev.evaluate(yield, {}));
  });
  return failure(ev.hasFailed());
}

} // namespace heddle::cpu
