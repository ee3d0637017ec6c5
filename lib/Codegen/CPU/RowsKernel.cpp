//===- RowsKernel.cpp - Element-wise chains and reductions over rows ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A kernel whose values are all of one shape is flat: one loop over its
// elements. Otherwise threads share the rows (all dimensions but the last).
// For each row, reductions run in rounds, each round's terms depending on
// earlier rounds only, and one last loop makes the results. Between them
// nothing is stored but results that are read again: the rest is computed
// again from what the cache holds.

#include "KernelEmitter.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
using linalg::GenericOp;

class RowsGenerator {
public:
  explicit RowsGenerator(KernelEmitter &k)
      : k(k), b(k.b), ev(k.evaluator), generics(genericsBehind(k.yields())) {}

  LogicalResult emit();

private:
  struct Round {
    int64_t extent;
    SmallVector<GenericOp> reductions;
    SmallVector<unsigned> stores; ///< Results made in this round's loop.
  };

  bool isFlat();
  void emitFlat();
  void emitScalars();
  LogicalResult planRows();
  void planStores();
  void emitRow(Value row);
  void emitRound(const Round &round, const Point &row);
  SmallVector<Value> accumulators(const Round &round);
  Value combine(GenericOp reduction, Value a, Value b);
  Value reduceLanes(GenericOp reduction, Value vector);
  int depthOf(Value value);
  bool isRowResult(Value value) {
    return typeOf(value).getRank() == static_cast<int64_t>(rowDims.size());
  }
  RankedTensorType typeOf(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  bool mayStoreEarly(unsigned result);
  unsigned copiesFor(const Round &round);
  Point inRow(const Point &row, Value column) {
    Point at = row;
    at.push_back({column, Coordinate::Consecutive});
    return at;
  }

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  llvm::SetVector<Operation *> generics;
  SmallVector<int64_t> rowDims;
  SmallVector<Round> rounds;
  size_t reductionRounds = 0;
  llvm::DenseMap<Value, int> depths;
};
} // namespace

//===----------------------------------------------------------------------===//
// Flat kernels
//===----------------------------------------------------------------------===//

bool RowsGenerator::isFlat() {
  ArrayRef<int64_t> shape = typeOf(k.yields()[0]).getShape();
  for (Value yield : k.yields())
    if (typeOf(yield).getShape() != shape)
      return false;
  return llvm::all_of(generics, [&](Operation *op) {
    auto generic = cast<GenericOp>(op);
    if (generic.getNumReductionLoops())
      return false;
    for (AffineMap map : generic.getIndexingMapsArray())
      if (!map.isIdentity() && map.getNumResults())
        return false;
    WalkResult walk = generic.getBody()->walk([&](Operation *inner) {
      return isa<linalg::IndexOp, tensor::ExtractOp>(inner)
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return !walk.wasInterrupted();
  });
}

void RowsGenerator::emitScalars() {
  b.ifThen(b.equal(k.thread, b.constant(0)), [&] {
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
  if (typeOf(k.yields()[0]).getRank() == 0)
    return emitScalars();
  ev.setFlat();
  // Threads meet at multiples of a cache line of the narrowest type.
  constexpr int64_t unit = 64;
  int64_t size = typeOf(k.yields()[0]).getNumElements();
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
// Rounds
//===----------------------------------------------------------------------===//

/// The round after which `value` can be computed: the longest chain of
/// reductions behind it.
int RowsGenerator::depthOf(Value value) {
  auto known = depths.find(value);
  if (known != depths.end())
    return known->second;
  auto op = value.getDefiningOp<GenericOp>();
  if (!op)
    return 0;
  int depth = 0;
  for (Value operand : op->getOperands())
    depth = std::max(depth, depthOf(operand));
  op.getBody()->walk([&](tensor::ExtractOp extract) {
    depth = std::max(depth, depthOf(extract.getTensor()));
  });
  if (op.getNumReductionLoops())
    ++depth;
  return depths[value] = depth;
}

LogicalResult RowsGenerator::planRows() {
  bool known = false;
  for (Operation *op : generics) {
    auto generic = cast<GenericOp>(op);
    if (!generic.getNumReductionLoops())
      continue;
    SmallVector<int64_t> loops = generic.getStaticLoopRanges();
    unsigned last = generic.getNumLoops() - 1;
    ArrayRef<int64_t> dims = ArrayRef(loops).drop_back();
    if (generic.getNumReductionLoops() != 1 || generic->getNumResults() != 1 ||
        generic.getIteratorTypesArray()[last] != utils::IteratorType::reduction)
      return k.kernel.emitError("reduces something other than the last "
                                "dimension; its generator is not \"rows\"");
    if (known && dims != ArrayRef(rowDims))
      return k.kernel.emitError("reduces over rows of different shapes");
    rowDims.assign(dims.begin(), dims.end());
    known = true;
    size_t depth = depthOf(generic.getResult(0));
    while (rounds.size() < depth)
      rounds.push_back({loops[last], {}, {}});
    if (rounds[depth - 1].reductions.empty())
      rounds[depth - 1].extent = loops[last];
    if (rounds[depth - 1].extent != loops[last])
      return k.kernel.emitError("reduces rows of different lengths");
    rounds[depth - 1].reductions.push_back(generic);
  }
  if (!known) {
    ArrayRef<int64_t> dims = typeOf(k.yields()[0]).getShape().drop_back();
    rowDims.assign(dims.begin(), dims.end());
  }
  for (Value yield : k.yields()) {
    ArrayRef<int64_t> shape = typeOf(yield).getShape();
    if (shape != ArrayRef(rowDims) &&
        (shape.empty() || shape.drop_back() != ArrayRef(rowDims)))
      return k.kernel.emitError("yields tensors without a common row shape");
  }
  planStores();
  return success();
}

/// Whether result `result` may be written while later rounds still run: then
/// they read it back. Its memory must not hold an argument that they need.
bool RowsGenerator::mayStoreEarly(unsigned result) {
  Value yield = k.yields()[result];
  if (!yield.getDefiningOp<GenericOp>())
    return false;
  int64_t tie = k.kernel.getTies()[result];
  if (tie < 0)
    return true;
  BlockArgument argument = k.kernel.getBody().getArgument(tie);
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    return user == yield.getDefiningOp();
  });
}

void RowsGenerator::planStores() {
  SmallVector<Round> last;
  for (auto [index, yield] : llvm::enumerate(k.yields())) {
    if (isRowResult(yield))
      continue;
    int64_t extent = typeOf(yield).getShape().back();
    size_t depth = depthOf(yield);
    // A result that a later reduction reads is made with that reduction.
    if (depth < rounds.size() && rounds[depth].extent == extent &&
        !yield.use_empty() && !yield.hasOneUse() && mayStoreEarly(index)) {
      rounds[depth].stores.push_back(index);
      continue;
    }
    auto round = llvm::find_if(
        last, [&](const Round &other) { return other.extent == extent; });
    if (round == last.end()) {
      last.push_back({extent, {}, {}});
      round = last.end() - 1;
    }
    round->stores.push_back(index);
  }
  reductionRounds = rounds.size();
  rounds.append(last);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

static Operation *combinerOf(GenericOp reduction) {
  Operation *yield = reduction.getBody()->getTerminator();
  return yield->getOperand(0).getDefiningOp();
}

Value RowsGenerator::combine(GenericOp reduction, Value x, Value y) {
  if (isa<arith::AddFOp>(combinerOf(reduction)))
    return b.create<arith::AddFOp>(x, y);
  return b.create<arith::MaximumFOp>(x, y);
}

Value RowsGenerator::reduceLanes(GenericOp reduction, Value vector) {
  if (isa<arith::AddFOp>(combinerOf(reduction))) {
    // In halves: the order does not depend on the target's instructions.
    for (int64_t width = ev.laneCount() / 2; width; width /= 2) {
      SmallVector<int64_t> low, high;
      for (int64_t lane = 0; lane < width; ++lane) {
        low.push_back(lane);
        high.push_back(lane + width);
      }
      vector = b.create<arith::AddFOp>(b.shuffle(vector, vector, low),
                                       b.shuffle(vector, vector, high));
    }
    return b.create<vector::ExtractOp>(vector, ArrayRef<int64_t>{0});
  }
  return b.create<vector::ReductionOp>(vector::CombiningKind::MAXIMUMF, vector);
}

SmallVector<Value> RowsGenerator::accumulators(const Round &round) {
  SmallVector<Value> init;
  for (GenericOp reduction : round.reductions) {
    Element start = ev.evaluate(reduction.getDpsInits()[0], {});
    init.push_back(ev.toVector(start));
  }
  return init;
}

/// Reductions carry several accumulators, so that additions need not wait for
/// each other; long bodies hide that by themselves.
unsigned RowsGenerator::copiesFor(const Round &round) {
  if (round.reductions.empty())
    return 1;
  constexpr size_t longBody = 48;
  SmallVector<Value> values;
  for (GenericOp reduction : round.reductions)
    values.push_back(reduction.getResult(0));
  size_t ops = 0;
  for (Operation *op : genericsBehind(values))
    ops += cast<GenericOp>(op).getBody()->getOperations().size();
  return ops > longBody ? 1 : 4;
}

void RowsGenerator::emitRound(const Round &round, const Point &row) {
  for (unsigned result : round.stores)
    ev.hoist(k.yields()[result], inRow(row, b.constant(0)));
  for (GenericOp reduction : round.reductions)
    ev.hoistInputs(reduction, inRow(row, b.constant(0)));
  unsigned copies = copiesFor(round);
  size_t width = round.reductions.size();
  SmallVector<Value> carried = k.forColumns(
      round.extent, copies, accumulators(round),
      [&](Value column, ValueRange carried, unsigned) {
        Point at = inRow(row, column);
        SmallVector<Element> elements;
        for (unsigned result : round.stores)
          elements.push_back(ev.evaluate(k.yields()[result], at));
        SmallVector<Value> next;
        for (auto [reduction, accumulator] :
             llvm::zip(round.reductions, carried))
          next.push_back(ev.accumulate(reduction, at, accumulator));
        for (auto [result, element] : llvm::zip(round.stores, elements))
          ev.store(k.yields()[result], k.results[result], at, element);
        return next;
      });
  for (size_t index = 0; index < width; ++index) {
    GenericOp reduction = round.reductions[index];
    Value total = carried[index];
    for (unsigned copy = 1; copy < copies; ++copy)
      total = combine(reduction, total, carried[copy * width + index]);
    ev.define(reduction.getResult(0), row, {reduceLanes(reduction, total)});
  }
}

void RowsGenerator::emitRow(Value row) {
  TensorEvaluator::Scope scope(ev);
  Point at = ev.splitRow(row, rowDims);
  auto emitRounds = [&](ArrayRef<Round> part) {
    for (const Round &round : part) {
      emitRound(round, at);
      for (unsigned result : round.stores)
        if (k.yields()[result].getDefiningOp())
          ev.setMemory(k.yields()[result], k.results[result]);
    }
  };
  emitRounds(ArrayRef(rounds).take_front(reductionRounds));
  // Before the last loops, which may overwrite arguments.
  SmallVector<Element> rowResults;
  for (Value yield : k.yields())
    rowResults.push_back(isRowResult(yield) ? ev.evaluate(yield, at)
                                            : Element());
  emitRounds(ArrayRef(rounds).drop_front(reductionRounds));
  for (auto [yield, pointer, element] :
       llvm::zip(k.yields(), k.results, rowResults))
    if (element.value)
      ev.store(yield, pointer, at, element);
}

LogicalResult RowsGenerator::emit() {
  if (isFlat()) {
    emitFlat();
    return k.finish();
  }
  if (failed(planRows()))
    return failure();
  for (Value yield : k.yields())
    ev.hoistConstants(yield);
  int64_t rows = 1;
  for (int64_t dim : rowDims)
    rows *= dim;
  auto [begin, end] = k.share(rows);
  b.forLoop(begin, end, 1, [&](Value row) { emitRow(row); });
  return k.finish();
}

LogicalResult emitRowsKernel(KernelEmitter &k) {
  return RowsGenerator(k).emit();
}

} // namespace heddle::cpu
