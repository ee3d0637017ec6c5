//===- RowsKernel.cpp - Element-wise chains and reductions over rows ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Emits kernels of element-wise operations and of reductions over the last
// dimension, for x86-64. RowsForm.h splits the operations of a kernel into
// rounds: the operations of a round run in one loop over vectors of columns,
// and a later round may read the reductions of an earlier one. Rows are
// distributed over the threads. If all values of a kernel have the same shape,
// their elements are distributed instead (flat).

#include "KernelEmitter.h"
#include "heddle/Codegen/Common/RowsForm.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
using codegen::RowReduction;
using codegen::RowRound;
using codegen::RowsForm;

class RowsGenerator {
public:
  RowsGenerator(KernelEmitter &k, RowsForm form)
      : k(k), b(k.b), ev(k.evaluator), form(std::move(form)) {}

  LoopBuilder &builder() { return b; }
  TensorEvaluator &evaluator() { return ev; }
  void emit();
  /// Emits the loops that compute row `row`: one loop over its columns for each
  /// round of `form`. A new round begins where an operation needs the result of
  /// a reduction over the whole row. Result i of the kernel is written to the
  /// address `targets`[i].
  void emitRow(Value row, ArrayRef<Value> targets);

private:
  void emitFlat();
  void emitScalars();
  void emitRounds(ArrayRef<RowRound> rounds, const Point &row,
                  ArrayRef<Value> targets);
  void emitRound(const RowRound &round, const Point &row,
                 ArrayRef<Value> targets);
  SmallVector<Value> accumulators(const RowRound &round);
  Value reduceLanes(const RowReduction &reduction, Value vector);
  unsigned copiesFor(const RowRound &round);
  Point inRow(const Point &row, Value column) {
    Point at = row;
    at.push_back({column, Coordinate::Consecutive});
    return at;
  }

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  RowsForm form;
};
} // namespace

//===----------------------------------------------------------------------===//
// Flat kernels
//===----------------------------------------------------------------------===//

void RowsGenerator::emitScalars() {
  b.ifThen(b.equal(k.self.thread, b.constant(0)), [&] {
    TensorEvaluator::Scope scope(ev);
    SmallVector<Element> elements;
    for (Value yield : k.yields())
      elements.push_back(ev.evaluate(yield, {}));
    for (auto [yield, pointer, element] :
         llvm::zip(k.yields(), k.results, elements))
      ev.store(yield, pointer, {}, element);
  });
}

void RowsGenerator::emitFlat() {
  auto type = cast<RankedTensorType>(k.yields()[0].getType());
  if (type.getRank() == 0)
    return emitScalars();
  ev.setFlat();
  // The share of a thread begins at a multiple of 64 elements. Elements have at
  // least one byte, so two threads never write to the same cache line.
  constexpr int64_t unit = 64;
  int64_t size = type.getNumElements();
  int64_t lanes = ev.laneCount(), full = size / lanes * lanes;
  for (Value yield : k.yields())
    ev.hoistConstants(yield);
  auto [first, last] = k.share(llvm::divideCeil(size, unit));
  Value begin = b.mul(first, unit), end = b.mul(last, unit);
  auto body = [&](Value element) {
    TensorEvaluator::Scope scope(ev);
    Point at = {{element, Coordinate::Consecutive}};
    SmallVector<Element> elements;
    for (Value yield : k.yields())
      elements.push_back(ev.evaluate(yield, at));
    for (auto [yield, pointer, value] :
         llvm::zip(k.yields(), k.results, elements))
      ev.store(yield, pointer, at, value);
  };
  b.forLoop(begin, b.min(end, b.constant(full)), lanes, body);
  if (full == size)
    return;
  Value ownsTail = b.create<arith::AndIOp>(b.less(b.constant(full), end),
                                           b.less(begin, b.constant(size)));
  b.ifThen(ownsTail, [&] {
    ev.setMask(b.mask(b.constant(size - full), lanes));
    body(b.constant(full));
    ev.setMask({});
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Reduces the lanes of `vector` to a scalar by combining halves, in an order
/// that does not depend on the target's instructions.
Value RowsGenerator::reduceLanes(const RowReduction &reduction, Value vector) {
  for (int64_t width = ev.laneCount() / 2; width; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < width; ++lane) {
      low.push_back(lane);
      high.push_back(lane + width);
    }
    vector = codegen::combine(b.builder, b.loc, reduction,
                              b.shuffle(vector, vector, low),
                              b.shuffle(vector, vector, high));
  }
  return b.create<vector::ExtractOp>(vector, ArrayRef<int64_t>{0});
}

SmallVector<Value> RowsGenerator::accumulators(const RowRound &round) {
  SmallVector<Value> init;
  for (RowReduction reduction : round.reductions) {
    Element start = ev.evaluate(reduction.op.getDpsInits()[0], {});
    init.push_back(ev.toVector(start));
  }
  return init;
}

/// The unroll factor of a round, which is a loop over a row's columns.
/// Reductions with short bodies are unrolled, and each copy has its own
/// accumulator, so that additions are independent. Long bodies hide the latency
/// of additions anyway.
unsigned RowsGenerator::copiesFor(const RowRound &round) {
  if (round.reductions.empty())
    return 1;
  constexpr size_t longBody = 48;
  SmallVector<Value> values;
  for (RowReduction reduction : round.reductions)
    values.push_back(reduction.op.getResult(0));
  size_t ops = 0;
  for (Operation *op : producingGenerics(values))
    ops += cast<linalg::GenericOp>(op).getBody()->getOperations().size();
  return ops > longBody ? 1 : 4;
}

void RowsGenerator::emitRound(const RowRound &round, const Point &row,
                              ArrayRef<Value> targets) {
  for (unsigned result : round.stores)
    ev.hoist(form.result(result), inRow(row, b.constant(0)));
  for (const RowReduction &reduction : round.reductions)
    ev.hoistInputs(reduction.op, inRow(row, b.constant(0)));
  unsigned copies = copiesFor(round);
  size_t width = round.reductions.size();
  SmallVector<Value> carried = k.forColumns(
      round.extent, copies, accumulators(round),
      [&](Value column, ValueRange carried, unsigned) {
        Point at = inRow(row, column);
        SmallVector<Element> elements;
        for (unsigned result : round.stores)
          elements.push_back(ev.evaluate(form.result(result), at));
        SmallVector<Value> next;
        for (auto [reduction, accumulator] :
             llvm::zip(round.reductions, carried))
          next.push_back(ev.accumulate(reduction.op, at, accumulator));
        for (auto [result, element] : llvm::zip(round.stores, elements))
          ev.store(form.result(result), targets[result], at, element);
        return next;
      });
  for (size_t index = 0; index < width; ++index) {
    RowReduction reduction = round.reductions[index];
    Value total = carried[index];
    for (unsigned copy = 1; copy < copies; ++copy)
      total = codegen::combine(b.builder, b.loc, reduction, total,
                               carried[copy * width + index]);
    ev.define(reduction.op.getResult(0), row, {reduceLanes(reduction, total)});
  }
}

void RowsGenerator::emitRounds(ArrayRef<RowRound> rounds, const Point &row,
                               ArrayRef<Value> targets) {
  for (const RowRound &round : rounds) {
    emitRound(round, row, targets);
    for (unsigned result : round.stores)
      if (form.result(result).getDefiningOp())
        ev.setMemory(form.result(result), targets[result]);
  }
}

void RowsGenerator::emitRow(Value row, ArrayRef<Value> targets) {
  TensorEvaluator::Scope scope(ev);
  Point at = ev.splitRow(row, form.rowDims());
  emitRounds(form.reductionRounds(), at, targets);
  SmallVector<Element> rowResults;
  for (unsigned index = 0; index < form.numResults(); ++index)
    rowResults.push_back(form.isRowResult(index)
                             ? ev.evaluate(form.result(index), at)
                             : Element());
  emitRounds(form.lastRounds(), at, targets);
  for (auto [index, element] : llvm::enumerate(rowResults))
    if (element.value)
      ev.store(form.result(index), targets[index], at, element);
}

void RowsGenerator::emit() {
  if (form.isFlat())
    return emitFlat();
  for (Value yield : k.yields())
    ev.hoistConstants(yield);
  auto [begin, end] = k.share(form.rows());
  b.forLoop(begin, end, 1, [&](Value row) { emitRow(row, k.results); });
}

FailureOr<RowEmitter> rowEmitterOf(KernelEmitter &k, ValueRange tensors) {
  FailureOr<RowsForm> form = RowsForm::ofRows(k.kernel, tensors);
  if (failed(form))
    return failure();
  SmallVector<Value> made(tensors);
  for (auto [index, tensor] : llvm::enumerate(made)) {
    if (form->hasColumnSums() || form->isRowResult(index))
      return k.kernel.emitError("multiplies rows that depend on other rows");
    k.evaluator.hoistConstants(tensor);
  }
  auto generator = std::make_shared<RowsGenerator>(k, *form);
  return RowEmitter([=](Value row, ArrayRef<Value> to) {
    // `emitRow` expects addresses of whole tensors and adds the offset of row
    // `row` to them. The addresses in `to` are for a single row, so subtract
    // this offset first.
    LoopBuilder &b = generator->builder();
    SmallVector<Value> begins;
    for (auto [tensor, place] : llvm::zip(made, to)) {
      auto type = cast<RankedTensorType>(tensor.getType());
      Value before = b.sub(b.constant(0), b.mul(row, type.getShape().back()));
      begins.push_back(b.advance(place, type.getElementType(), before));
    }
    generator->emitRow(row, begins);
    for (Value tensor : made)
      generator->evaluator().unbind(tensor);
  });
}

LogicalResult emitRowsKernel(KernelEmitter &k) {
  FailureOr<RowsForm> form = RowsForm::of(k.kernel);
  if (failed(form))
    return failure();
  if (form->hasColumnSums())
    return k.kernel.emitError(
        "has sums over rows, which need a separate kernel on x86-64");
  RowsGenerator(k, *form).emit();
  return k.finish();
}

} // namespace heddle::cpu
