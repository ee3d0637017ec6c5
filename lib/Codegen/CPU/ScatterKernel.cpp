//===- ScatterKernel.cpp - The gradient of an embedding table -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Threads share the columns. Each walks all ids in order, so that rows that
// several ids name are summed in that order, whatever the number of threads.

#include "KernelEmitter.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
class ScatterGenerator {
public:
  ScatterGenerator(KernelEmitter &k, nn::EmbeddingGradOp op)
      : k(k), b(k.b), ev(k.evaluator), op(op), lanes(k.evaluator.laneCount()),
        columns(op.getOutput().getType().getDimSize(1)) {}

  LogicalResult emit();

private:
  void forOwnColumns(llvm::function_ref<void(Coordinate)> body);
  void initialize(Value result);
  void addRow(Value row, Value result);
  void addTo(Value tableRow, const Point &idPoint, Value result);

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  nn::EmbeddingGradOp op;
  int64_t lanes, columns;
  Value begin, end;
};
} // namespace

void ScatterGenerator::forOwnColumns(
    llvm::function_ref<void(Coordinate)> body) {
  int64_t full = columns / lanes * lanes;
  auto run = [&](Value column) {
    TensorEvaluator::Scope scope(ev);
    body({column, Coordinate::Consecutive});
  };
  b.forLoop(begin, b.min(end, b.constant(full)), lanes, run);
  if (full == columns)
    return;
  Value ownsTail = b.create<arith::AndIOp>(b.less(b.constant(full), end),
                                           b.less(begin, b.constant(columns)));
  b.ifThen(ownsTail, [&] {
    ev.setMask(b.mask(b.constant(columns - full), lanes));
    run(b.constant(full));
    ev.setMask({});
  });
}

/// Fills this thread's columns of the table with `init` or zero.
void ScatterGenerator::initialize(Value result) {
  Value init = op.getInit();
  Value zero = b.zeros(ev.vectorType(b.builder.getF32Type()));
  int64_t tableRows = op.getOutput().getType().getDimSize(0);
  b.forLoop(b.constant(0), b.constant(tableRows), 1, [&](Value row) {
    forOwnColumns([&](Coordinate column) {
      Point at = {{row}, column};
      Element element =
          init ? ev.evaluate(init, at) : Element{zero, Element::Vector};
      ev.store(op.getOutput(), result, at, element);
    });
  });
}

void ScatterGenerator::addRow(Value row, Value result) {
  auto ids = cast<RankedTensorType>(op.getIds().getType());
  TensorEvaluator::Scope scope(ev);
  Point idPoint = ev.splitRow(row, ids.getShape());
  Value id = ev.evaluate(op.getIds(), idPoint).value;
  Value tableRow = b.create<arith::ExtSIOp>(b.builder.getI64Type(), id);
  if (!op.getFirst())
    return addTo(tableRow, idPoint, result);
  tableRow = b.sub(tableRow, ev.scalarOf(op.getFirst()));
  Value tableRows = b.constant(op.getOutput().getType().getDimSize(0));
  // Rows before the first become large unsigned numbers.
  b.ifThen(
      b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, tableRow, tableRows),
      [&] { addTo(tableRow, idPoint, result); });
}

/// Adds the gradient of the id at `idPoint` to one row of the table.
void ScatterGenerator::addTo(Value tableRow, const Point &idPoint,
                             Value result) {
  Type f32 = b.builder.getF32Type();
  forOwnColumns([&](Coordinate column) {
    Point gradPoint = idPoint;
    gradPoint.push_back(column);
    Value grad = ev.evaluateVector(op.getGrad(), gradPoint);
    if (grad.getType() != ev.vectorType(f32))
      grad = b.create<arith::ExtFOp>(ev.vectorType(f32), grad);
    Point at = {{tableRow}, column};
    Value sum = b.create<arith::AddFOp>(
        ev.loadFrom(op.getOutput(), result, at).value, grad);
    ev.store(op.getOutput(), result, at, {sum, Element::Vector});
  });
}

LogicalResult ScatterGenerator::emit() {
  if (k.yields().size() != 1 || k.yields()[0] != op.getOutput())
    return k.kernel.emitError(
        "must yield the gradient of the table and nothing else");
  Value result = k.results[0];
  auto units = k.share(llvm::divideCeil(columns, lanes));
  begin = b.mul(units.begin, lanes);
  end = b.mul(units.end, lanes);
  ev.hoistConstants(op.getGrad());
  bool inPlace = op.getInit() && k.pointerOf(op.getInit()) == result;
  if (!inPlace)
    initialize(result);
  int64_t rows = cast<RankedTensorType>(op.getIds().getType()).getNumElements();
  b.forLoop(b.constant(0), b.constant(rows), 1,
            [&](Value row) { addRow(row, result); });
  return failure(ev.hasFailed());
}

LogicalResult emitScatterKernel(KernelEmitter &k) {
  for (Operation &op : k.kernel.getBody().front())
    if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op))
      return ScatterGenerator(k, grad).emit();
  return k.kernel.emitError("has no nn.embedding_grad; its generator is not "
                            "\"scatter\"");
}

} // namespace heddle::cpu
