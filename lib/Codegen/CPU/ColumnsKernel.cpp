//===- ColumnsKernel.cpp - Sums over rows ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Emits kernels whose results are sums over rows, one for each column, such as
// the gradients of biases and of norms' weights. Each thread computes the sums
// of some columns. It adds the rows of a column in order, so the result does
// not depend on the number of threads.

#include "KernelEmitter.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
using linalg::GenericOp;

class ColumnsGenerator {
public:
  explicit ColumnsGenerator(KernelEmitter &k) : k(k), b(k.b), ev(k.evaluator) {}

  LogicalResult emit();

private:
  LogicalResult plan();
  void emitColumns(Value column, int64_t vectors);
  SmallVector<Value> sumRows(Value begin, Value end,
                             ArrayRef<Coordinate> columns);
  Value neutral() { return b.zeros(ev.vectorType(b.builder.getF32Type())); }

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  SmallVector<GenericOp> reductions;
  SmallVector<int64_t> rowDims;
  int64_t columns = 0;
};
} // namespace

LogicalResult ColumnsGenerator::plan() {
  for (Operation *op : producingGenerics(k.yields())) {
    auto generic = cast<GenericOp>(op);
    if (!generic.getNumReductionLoops())
      continue;
    SmallVector<int64_t> loops = generic.getStaticLoopRanges();
    unsigned last = generic.getNumLoops() - 1;
    auto combined =
        generic.getBody()->getTerminator()->getOperand(0).getDefiningOp();
    if (generic.getNumReductionLoops() != last ||
        generic.getIteratorTypesArray()[last] !=
            utils::IteratorType::parallel ||
        !isa_and_nonnull<arith::AddFOp>(combined))
      return k.kernel.emitError("holds something other than sums over rows; "
                                "its generator is not \"columns\"");
    ArrayRef<int64_t> dims = ArrayRef(loops).drop_back();
    if (columns && (columns != loops[last] || dims != ArrayRef(rowDims)))
      return k.kernel.emitError("sums rows of different shapes");
    columns = loops[last];
    rowDims.assign(dims.begin(), dims.end());
    reductions.push_back(generic);
  }
  for (Value yield : k.yields()) {
    auto type = cast<RankedTensorType>(yield.getType());
    if (type.getRank() != 1 || type.getDimSize(0) != columns)
      return k.kernel.emitError("yields ")
             << type << "; sums over rows have " << columns << " elements";
  }
  return success();
}

/// Computes the sum over rows `begin` to `end` for each reduction of the kernel
/// and each vector of columns in `at`.
SmallVector<Value> ColumnsGenerator::sumRows(Value begin, Value end,
                                             ArrayRef<Coordinate> at) {
  SmallVector<Value> init(reductions.size() * at.size(), neutral());
  return b.forLoop(begin, end, 1, init, [&](Value row, ValueRange carried) {
    TensorEvaluator::Scope scope(ev);
    Point rowPoint = ev.splitRow(row, rowDims);
    SmallVector<Value> next;
    for (auto [index, reduction] : llvm::enumerate(reductions))
      for (auto [vector, column] : llvm::enumerate(at)) {
        Point point = rowPoint;
        point.push_back(column);
        next.push_back(ev.accumulate(reduction, point,
                                     carried[index * at.size() + vector]));
      }
    return next;
  });
}

void ColumnsGenerator::emitColumns(Value column, int64_t vectors) {
  TensorEvaluator::Scope scope(ev);
  SmallVector<Coordinate> at;
  for (int64_t vector = 0; vector < vectors; ++vector)
    at.push_back(
        {b.add(column, vector * ev.laneCount()), Coordinate::Consecutive});
  SmallVector<Value> totals;
  for (GenericOp reduction : reductions)
    for (const Coordinate &c : at)
      totals.push_back(ev.evaluateVector(reduction.getDpsInits()[0], {c}));
  // Sum blocks of rows first, then the sums of blocks: rounding errors grow
  // with the length of a sum.
  constexpr int64_t block = 64;
  int64_t rows = 1;
  for (int64_t dim : rowDims)
    rows *= dim;
  totals = b.forLoop(b.constant(0), b.constant(rows), block, totals,
                     [&](Value row, ValueRange carried) {
                       Value end = b.min(b.add(row, block), b.constant(rows));
                       SmallVector<Value> sums = sumRows(row, end, at);
                       for (auto [sum, total] : llvm::zip(sums, carried))
                         sum = b.create<arith::AddFOp>(total, sum);
                       return sums;
                     });
  for (auto [index, reduction] : llvm::enumerate(reductions))
    for (auto [vector, c] : llvm::enumerate(at))
      ev.define(reduction.getResult(0), {c},
                {totals[index * at.size() + vector], Element::Vector});
  for (const Coordinate &c : at)
    for (auto [yield, pointer] : llvm::zip(k.yields(), k.results))
      ev.store(yield, pointer, {c}, ev.evaluate(yield, {c}));
}

LogicalResult ColumnsGenerator::emit() {
  if (failed(plan()))
    return failure();
  for (GenericOp reduction : reductions)
    ev.hoistConstants(reduction.getResult(0));
  int64_t lanes = ev.laneCount(), full = columns / lanes * lanes;
  constexpr int64_t wide = 4;
  auto [first, last] = k.share(llvm::divideCeil(columns, lanes));
  Value begin = b.mul(first, lanes), end = b.mul(last, lanes);
  Value fullEnd = b.min(end, b.constant(full));
  Value wideSteps = b.div(b.sub(fullEnd, b.min(begin, fullEnd)), wide * lanes);
  Value wideEnd = b.add(begin, b.mul(wideSteps, wide * lanes));
  b.forLoop(begin, wideEnd, wide * lanes,
            [&](Value column) { emitColumns(column, wide); });
  b.forLoop(wideEnd, fullEnd, lanes,
            [&](Value column) { emitColumns(column, 1); });
  if (full < columns)
    b.ifThen(b.less(b.constant(full), end), [&] {
      Value isOwner = b.less(begin, b.constant(columns));
      b.ifThen(isOwner, [&] {
        ev.setMask(b.mask(b.constant(columns - full), lanes));
        emitColumns(b.constant(full), 1);
        ev.setMask({});
      });
    });
  return k.finish();
}

LogicalResult emitColumnsKernel(KernelEmitter &k) {
  return ColumnsGenerator(k).emit();
}

} // namespace heddle::cpu
