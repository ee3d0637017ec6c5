//===- TensorEvaluator.cpp - Elements of tensor programs, on demand -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorEvaluator.h"

using namespace mlir;

namespace heddle::cpu {

static bool hasLanes(const Point &at) {
  return llvm::any_of(
      at, [](const Coordinate &c) { return c.kind != Coordinate::Uniform; });
}

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

void TensorEvaluator::setMemory(Value tensor, Value pointer, bool oneRow) {
  memories[tensor] = {pointer, oneRow};
}

void TensorEvaluator::setScalar(Value scalar, Value value) {
  scalars[scalar] = value;
}

TensorEvaluator::Key TensorEvaluator::keyOf(Value tensor, const Point &at) {
  Key key;
  key.first = tensor.getAsOpaquePointer();
  for (const Coordinate &c : at)
    key.second.push_back({c.value.getAsOpaquePointer(), c.kind});
  return key;
}

const Element *TensorEvaluator::find(const Key &key) const {
  for (const auto &scope : llvm::reverse(scopes)) {
    auto it = scope.find(key);
    if (it != scope.end())
      return &it->second;
  }
  return nullptr;
}

void TensorEvaluator::define(Value tensor, const Point &at, Element element) {
  scopes.back()[keyOf(tensor, at)] = element;
}

Point TensorEvaluator::splitRow(Value row, ArrayRef<int64_t> dims) {
  Point point(dims.size());
  Value rest = row;
  for (int64_t dim = dims.size() - 1; dim > 0; --dim) {
    int64_t size = dims[dim];
    Value outer = b.div(rest, size);
    Value inner = b.sub(rest, b.mul(outer, size));
    point[dim].value = inner;
    linearized[{outer.getAsOpaquePointer(), size, inner.getAsOpaquePointer()}] =
        rest;
    rest = outer;
  }
  if (!dims.empty())
    point[0].value = rest;
  return point;
}

Element TensorEvaluator::fail(Operation *op, Type type, StringRef message) {
  if (!failed)
    op->emitError("x86-64 code generation: ") << message;
  failed = true;
  return {b.create<arith::ConstantOp>(b.builder.getZeroAttr(type))};
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Element TensorEvaluator::evaluate(Value tensor, const Point &at) {
  Key key = keyOf(tensor, at);
  if (const Element *known = find(key))
    return *known;
  auto memory = memories.find(tensor);
  if (memory != memories.end()) {
    Element element = load(tensor, memory->second, at);
    define(tensor, at, element);
    return element;
  }
  Type type = getElementTypeOrSelf(tensor);
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return fail(tensor.getParentBlock()->getParentOp(), type,
                "an argument has no memory");
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    Locals none;
    return lookupScalar(fill.getInputs()[0], none);
  }
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getNumReductionLoops())
    return fail(op, type, "its result is asked for before it is known");
  return evaluateGeneric(generic, cast<OpResult>(tensor).getResultNumber(), at);
}

Value TensorEvaluator::evaluateVector(Value tensor, const Point &at) {
  return toVector(evaluate(tensor, at));
}

Point TensorEvaluator::iterationOf(linalg::GenericOp op, unsigned result,
                                   const Point &at) {
  if (flat)
    return at;
  Point iteration(op.getNumLoops());
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(result));
  for (auto [expr, coordinate] : llvm::zip(map.getResults(), at))
    iteration[cast<AffineDimExpr>(expr).getPosition()] = coordinate;
  return iteration;
}

Point TensorEvaluator::operandPoint(AffineMap map, const Point &iteration) {
  if (flat)
    return map.getNumResults() ? iteration : Point();
  Point point;
  for (AffineExpr expr : map.getResults())
    point.push_back(iteration[cast<AffineDimExpr>(expr).getPosition()]);
  return point;
}

void TensorEvaluator::bindInputs(linalg::GenericOp op, const Point &iteration,
                                 Locals &locals) {
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (arg.use_empty())
      continue;
    locals[arg] =
        evaluate(input->get(),
                 operandPoint(op.getMatchingIndexingMap(input), iteration));
  }
}

Element TensorEvaluator::evaluateGeneric(linalg::GenericOp op, unsigned result,
                                         const Point &at) {
  Point iteration = iterationOf(op, result, at);
  Locals locals;
  bindInputs(op, iteration, locals);
  runBody(op, iteration, locals);
  Operation *yield = op.getBody()->getTerminator();
  for (auto [value, operand] : llvm::zip(op.getResults(), yield->getOperands()))
    define(value, at, lookupScalar(operand, locals));
  return lookupScalar(yield->getOperand(result), locals);
}

Value TensorEvaluator::accumulate(linalg::GenericOp reduction,
                                  const Point &iteration, Value accumulator) {
  Locals locals;
  bindInputs(reduction, iteration, locals);
  locals[reduction.getRegionOutputArgs()[0]] = {
      accumulator, isa<VectorType>(accumulator.getType()) ? Element::Vector
                                                          : Element::Uniform};
  runBody(reduction, iteration, locals);
  Element next =
      lookupScalar(reduction.getBody()->getTerminator()->getOperand(0), locals);
  return isa<VectorType>(accumulator.getType()) ? toVector(next) : next.value;
}

//===----------------------------------------------------------------------===//
// Hoisting
//===----------------------------------------------------------------------===//

void TensorEvaluator::hoistExtracts(linalg::GenericOp op) {
  op.getBody()->walk([&](tensor::ExtractOp extract) {
    auto memory = memories.find(extract.getTensor());
    Point at;
    for (Value index : extract.getIndices()) {
      auto constant = index.getDefiningOp<arith::ConstantIndexOp>();
      if (!constant)
        return;
      at.push_back({b.constant(constant.value())});
    }
    if (memory != memories.end())
      scopes.back()[{extract.getOperation(), {}}] =
          load(extract.getTensor(), memory->second, at);
  });
}

static bool dependsOnReduction(Value value) {
  auto op = value.getDefiningOp<linalg::GenericOp>();
  return op && (op.getNumReductionLoops() ||
                llvm::any_of(op->getOperands(), dependsOnReduction));
}

void TensorEvaluator::hoistConstants(Value tensor) {
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || memories.count(tensor) || find(keyOf(tensor, {})))
    return;
  hoistExtracts(op);
  for (OpOperand *input : op.getDpsInputOperands()) {
    bool constant = op.getMatchingIndexingMap(input).getNumResults() == 0;
    if (constant && !dependsOnReduction(input->get()))
      evaluate(input->get(), {});
    else
      hoistConstants(input->get());
  }
}

void TensorEvaluator::hoist(Value tensor, const Point &at) {
  if (find(keyOf(tensor, at)) || memories.count(tensor))
    return;
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (op && !op.getNumReductionLoops())
    hoistInputs(op,
                iterationOf(op, cast<OpResult>(tensor).getResultNumber(), at));
}

void TensorEvaluator::hoistInputs(linalg::GenericOp op,
                                  const Point &iteration) {
  for (OpOperand *input : op.getDpsInputOperands()) {
    Point point = operandPoint(op.getMatchingIndexingMap(input), iteration);
    if (hasLanes(point))
      hoist(input->get(), point);
    else if (!op.getMatchingBlockArgument(input).use_empty())
      evaluate(input->get(), point);
  }
}

} // namespace heddle::cpu
