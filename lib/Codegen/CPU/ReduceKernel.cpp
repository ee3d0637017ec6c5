//===- ReduceKernel.cpp - Sums of all elements ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits kernels that sum the elements of tensors to scalars, and kernels that
// sum squares over blocks of elements (nn.square_sums).
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

using namespace mlir;

namespace heddle::cpu {

using linalg::GenericOp;

/// Emits a sum of vectors over `size` elements in f64. `add` gets the index of
/// the first lane's element and the sum so far, and returns the new sum.
static Value sumVectors(KernelEmitter &k, int64_t size,
                        llvm::function_ref<Value(Value, Value)> add) {
  LoopBuilder &b = k.b;
  Value zero = b.zeros(k.evaluator.vectorType(b.builder.getF64Type()));
  constexpr unsigned copies = 4;
  SmallVector<Value> carried = k.forColumns(
      size, copies, zero,
      [&](Value element, ValueRange carried, unsigned) -> SmallVector<Value> {
        return {add(element, carried[0])};
      });
  Value total = carried[0];
  for (Value part : ArrayRef(carried).drop_front())
    total = b.create<arith::AddFOp>(total, part);
  return b.create<vector::ReductionOp>(vector::CombiningKind::ADD, total);
}

/// Emits the sum of squares of block `block`, which has `extent` elements.
static void emitBlockSum(KernelEmitter &k, nn::SquareSumsOp op, Value block,
                         int64_t extent) {
  LoopBuilder &b = k.b;
  TensorEvaluator &ev = k.evaluator;
  TensorEvaluator::Scope scope(ev);
  VectorType wide = ev.vectorType(b.builder.getF64Type());
  Value begin = b.mul(block, nn::SquareSumsOp::blockSize);
  Value total = sumVectors(k, extent, [&](Value at, Value sum) -> Value {
    Point point = {{b.add(begin, at), Coordinate::Consecutive}};
    Value x = b.create<arith::ExtFOp>(
        wide, b.widen(ev.evaluateVector(op.getInput(), point)));
    Value square = b.create<arith::MulFOp>(x, x);
    return b.create<arith::AddFOp>(sum, square);
  });
  Value sum = b.create<arith::TruncFOp>(b.builder.getF32Type(), total);
  ev.store(op.getOutput(), k.results[0], {{block}}, {sum});
}

/// Emits nn.square_sums: the sum of squares of each block of a fixed number of
/// elements. The blocks are distributed over the threads.
LogicalResult emitBlockSumsKernel(KernelEmitter &k) {
  auto op = dyn_cast<nn::SquareSumsOp>(k.kernel.getBody().front().front());
  if (!op || k.yields().size() != 1 || k.yields()[0] != op.getOutput())
    return k.kernel.emitError("holds something other than nn.square_sums; its "
                              "generator is not \"block_sums\"");
  LoopBuilder &b = k.b;
  k.evaluator.setFlat();
  constexpr int64_t size = nn::SquareSumsOp::blockSize;
  int64_t elements =
      cast<RankedTensorType>(op.getInput().getType()).getNumElements();
  int64_t full = elements / size, rest = elements % size;
  auto [begin, end] = k.share(full + (rest != 0));
  b.forLoop(begin, b.min(end, b.constant(full)), 1,
            [&](Value block) { emitBlockSum(k, op, block, size); });
  if (rest) {
    Value ownsRest = b.create<arith::AndIOp>(
        b.less(b.constant(full), end), b.less(begin, b.constant(full + 1)));
    b.ifThen(ownsRest, [&] { emitBlockSum(k, op, b.constant(full), rest); });
  }
  return k.finish();
}

/// Emits sums to scalars on one thread. They are short: long sums are computed
/// in two steps, by nn.square_sums and then the sum of its blocks.
LogicalResult emitReduceKernel(KernelEmitter &k) {
  LoopBuilder &b = k.b;
  TensorEvaluator &ev = k.evaluator;
  SmallVector<GenericOp> reductions;
  for (Operation *op : producingGenerics(k.yields())) {
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
  b.ifThen(b.equal(k.self.thread, b.constant(0)), [&] {
    TensorEvaluator::Scope scope(ev);
    for (GenericOp reduction : reductions) {
      int64_t size = 1;
      for (int64_t extent : reduction.getStaticLoopRanges())
        size *= extent;
      ev.hoistConstants(reduction.getResult(0));
      Value sum = sumVectors(k, size, [&](Value element, Value accumulator) {
        Point at = {{element, Coordinate::Consecutive}};
        return ev.accumulate(reduction, at, accumulator);
      });
      ev.define(reduction.getResult(0), {}, {sum});
    }
    // Evaluate all results before storing any, because a result may overwrite a
    // tensor that another one reads.
    SmallVector<Element> elements;
    for (Value yield : k.yields())
      elements.push_back(ev.evaluate(yield, {}));
    for (auto [yield, pointer, element] :
         llvm::zip(k.yields(), k.results, elements))
      ev.store(yield, pointer, {}, element);
  });
  return k.finish();
}

} // namespace heddle::cpu
