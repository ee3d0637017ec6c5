//===- ScatterKernel.cpp - The gradient of an embedding table -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Emits kernels of nn.embedding_grad. Each thread computes some columns of the
// embedding table's gradient. It first sorts the token positions by token id,
// so that it writes every row of these columns once, in order. The gradients of
// positions with the same id are summed in f32, in the order of the positions,
// so the result does not depend on the number of threads.

#include "KernelEmitter.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
class ScatterGenerator {
public:
  ScatterGenerator(KernelEmitter &k, nn::EmbeddingGradOp op)
      : k(k), b(k.b), ev(k.evaluator), op(op), lanes(k.evaluator.laneCount()),
        tableRows(op.getOutput().getType().getDimSize(0)),
        columns(op.getOutput().getType().getDimSize(1)),
        positions(
            cast<RankedTensorType>(op.getIds().getType()).getNumElements()) {}

  LogicalResult emit();

private:
  /// Loads and stores entries of an i32 array in the thread's scratch memory.
  Value loadFrom(Value list, Value index);
  void storeTo(Value list, Value index, Value value);

  void forIds(llvm::function_ref<void(Value position, Value id)> body);
  void sortPositions();
  void forOwnColumns(llvm::function_ref<void(Coordinate)> body);
  void writeRow(Value row, Value first, Value last);
  Value before(const Point &at);
  Value sum(Value total, Value first, Value last, Coordinate column);

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  nn::EmbeddingGradOp op;
  int64_t lanes, tableRows, columns, positions;
  bool inPlace = false;
  Value begin, end; ///< The thread's columns.
  /// Addresses of two arrays in scratch memory: the token positions sorted by
  /// token id, and for each id the end of its positions in that order.
  Value order, ends;
};
} // namespace

Value ScatterGenerator::loadFrom(Value list, Value index) {
  Type i32 = b.builder.getI32Type();
  Value value = b.load(i32, b.advance(list, i32, index), sizeof(int32_t));
  return b.create<arith::ExtSIOp>(b.builder.getI64Type(), value);
}

void ScatterGenerator::storeTo(Value list, Value index, Value value) {
  Type i32 = b.builder.getI32Type();
  b.store(b.create<arith::TruncIOp>(i32, value), b.advance(list, i32, index),
          sizeof(int32_t));
}

/// If ranks split the embedding table, this rank has a range of the table's
/// rows. Calls `body` with each position whose id is a row of this rank, and
/// with the index of the row among the rank's rows.
void ScatterGenerator::forIds(llvm::function_ref<void(Value, Value)> body) {
  auto ids = cast<RankedTensorType>(op.getIds().getType());
  b.forLoop(b.constant(0), b.constant(positions), 1, [&](Value position) {
    TensorEvaluator::Scope scope(ev);
    Value id =
        ev.evaluate(op.getIds(), ev.splitRow(position, ids.getShape())).value;
    id = b.create<arith::ExtSIOp>(b.builder.getI64Type(), id);
    Value row = op.getFirst() ? b.sub(id, ev.scalarOf(op.getFirst())) : id;
    // Skip ids whose row this rank does not have. A row before the rank's first
    // row gives a negative number, which is large as an unsigned number, so one
    // comparison checks both bounds.
    Value adds = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, row,
                                         b.constant(tableRows));
    if (std::optional<int64_t> padding = op.getPadding())
      adds = b.create<arith::AndIOp>(
          adds, b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, id,
                                        b.constant(*padding)));
    b.ifThen(adds, [&] { body(position, row); });
  });
}

/// Sorts the positions by id with a counting sort (Knuth, The Art of Computer
/// Programming 3, algorithm 5.2D).
void ScatterGenerator::sortPositions() {
  Value zero = b.constant(0), rows = b.constant(tableRows);
  b.forLoop(zero, rows, 1, [&](Value row) { storeTo(ends, row, zero); });
  forIds([&](Value, Value row) {
    storeTo(ends, row, b.add(loadFrom(ends, row), 1));
  });
  b.forLoop(zero, rows, 1, zero, [&](Value row, ValueRange first) {
    Value next = b.add(first[0], loadFrom(ends, row));
    storeTo(ends, row, first[0]);
    return SmallVector<Value>{next};
  });
  forIds([&](Value position, Value row) {
    Value slot = loadFrom(ends, row);
    storeTo(order, slot, position);
    storeTo(ends, row, b.add(slot, 1));
  });
}

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

/// The value, in f32, to which the sum of an element's gradients is added: the
/// element of the operand `init`, or zero if there is no such operand.
Value ScatterGenerator::before(const Point &at) {
  if (!op.getInit())
    return b.zeros(ev.vectorType(b.builder.getF32Type()));
  if (inPlace)
    return b.widen(ev.loadFrom(op.getOutput(), k.results[0], at).value);
  return b.widen(ev.evaluateVector(op.getInit(), at));
}

Value ScatterGenerator::sum(Value total, Value first, Value last,
                            Coordinate column) {
  auto ids = cast<RankedTensorType>(op.getIds().getType());
  return b.forLoop(first, last, 1, total, [&](Value index, ValueRange carried) {
    TensorEvaluator::Scope scope(ev);
    Point point = ev.splitRow(loadFrom(order, index), ids.getShape());
    point.push_back(column);
    Value grad = b.widen(ev.evaluateVector(op.getGrad(), point));
    return SmallVector<Value>{b.create<arith::AddFOp>(carried[0], grad)};
  })[0];
}

/// Computes row `row` of the result from the gradients at indices `first` to
/// `last` of the sorted positions.
void ScatterGenerator::writeRow(Value row, Value first, Value last) {
  Type element = op.getOutput().getType().getElementType();
  forOwnColumns([&](Coordinate column) {
    Point at = {{row}, column};
    Value total = sum(before(at), first, last, column);
    ev.store(op.getOutput(), k.results[0], at,
             {b.narrow(total, element), Element::Vector});
  });
}

LogicalResult ScatterGenerator::emit() {
  if (k.yields().size() != 1 || k.yields()[0] != op.getOutput())
    return k.kernel.emitError(
        "must yield the gradient of the table and nothing else");
  auto [first, last] = k.share(llvm::divideCeil(columns, lanes));
  begin = b.mul(first, lanes);
  end = b.mul(last, lanes);
  ends = k.scratch;
  order = b.advance(k.scratch, b.builder.getI32Type(), tableRows);
  k.scratchBytes = llvm::alignTo<64>((tableRows + positions) * sizeof(int32_t));
  inPlace = op.getInit() && k.pointerOf(op.getInit()) == k.results[0];
  ev.hoistConstants(op.getGrad());
  sortPositions();
  b.forLoop(b.constant(0), b.constant(tableRows), 1, b.constant(0),
            [&](Value row, ValueRange first) {
              Value last = loadFrom(ends, row);
              // Nothing is added to a row of the embedding table that no id
              // refers to. So skip such a row if the result overwrites the
              // operand `init`, to which the gradients are added.
              if (inPlace)
                b.ifThen(b.less(first[0], last),
                         [&] { writeRow(row, first[0], last); });
              else
                writeRow(row, first[0], last);
              return SmallVector<Value>{last};
            });
  return k.finish();
}

LogicalResult emitScatterKernel(KernelEmitter &k) {
  for (Operation &op : k.kernel.getBody().front())
    if (auto grad = dyn_cast<nn::EmbeddingGradOp>(op))
      return ScatterGenerator(k, grad).emit();
  return k.kernel.emitError("has no nn.embedding_grad; its generator is not "
                            "\"scatter\"");
}

} // namespace heddle::cpu
