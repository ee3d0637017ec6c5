//===- ElementEvaluator.cpp - Emits elements of fused tensors -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace heddle::codegen {

bool hasLanes(const Point &at) {
  return llvm::any_of(
      at, [](const Coordinate &c) { return c.kind != Coordinate::Uniform; });
}

llvm::SetVector<Operation *> producingGenerics(ValueRange values) {
  llvm::SetVector<Operation *> found;
  std::function<void(Value)> visit = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isa<linalg::GenericOp>(op) || found.contains(op))
      return;
    for (Value operand : op->getOperands())
      visit(operand);
    op->getRegion(0).walk(
        [&](tensor::ExtractOp extract) { visit(extract.getTensor()); });
    found.insert(op);
  };
  for (Value value : values)
    visit(value);
  return found;
}

//===----------------------------------------------------------------------===//
// Cached values
//===----------------------------------------------------------------------===//

ElementEvaluator::Key ElementEvaluator::keyOf(Value tensor, const Point &at) {
  Key key;
  key.first = tensor.getAsOpaquePointer();
  for (const Coordinate &c : at)
    key.second.push_back({c.value.getAsOpaquePointer(), c.kind});
  return key;
}

const Element *ElementEvaluator::find(const Key &key) const {
  for (const auto &scope : llvm::reverse(scopes)) {
    auto it = scope.find(key);
    if (it != scope.end())
      return &it->second;
  }
  return nullptr;
}

void ElementEvaluator::define(Value tensor, const Point &at, Element element) {
  scopes.back()[keyOf(tensor, at)] = element;
}

Element ElementEvaluator::fail(Operation *op, Type type, const Twine &reason) {
  if (!failed)
    failed = Failure{op, reason.str()};
  return {create<arith::ConstantOp>(builder.getZeroAttr(type))};
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Element ElementEvaluator::evaluate(Value tensor, const Point &at) {
  if (const Element *known = find(keyOf(tensor, at)))
    return *known;
  auto reader = readers.find(tensor);
  if (reader == readers.end())
    return compute(tensor, at);
  Element element = reader->second(at);
  if (!element.value) {
    Operation *op = tensor.getDefiningOp();
    return fail(op ? op : tensor.getParentBlock()->getParentOp(),
                getElementTypeOrSelf(tensor), "an element at another position");
  }
  define(tensor, at, element);
  return element;
}

Element ElementEvaluator::compute(Value tensor, const Point &at) {
  Type type = getElementTypeOrSelf(tensor);
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return fail(tensor.getParentBlock()->getParentOp(), type,
                "an argument has no memory");
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return lookupScalar(fill.getInputs()[0], Locals());
  DenseElementsAttr splat;
  if (matchPattern(op, m_Constant(&splat)) && splat.isSplat())
    return {create<arith::ConstantOp>(splat.getSplatValue<TypedAttr>())};
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return fail(op, type, "operation " + op->getName().getStringRef());
  if (generic.getNumReductionLoops())
    return fail(op, type, "a reduction is asked for before it is known");
  return evaluateGeneric(generic, cast<OpResult>(tensor).getResultNumber(), at);
}

Value ElementEvaluator::evaluateVector(Value tensor, const Point &at) {
  return toVector(evaluate(tensor, at));
}

Point ElementEvaluator::iterationOf(linalg::GenericOp op, unsigned result,
                                    const Point &at) {
  if (flat)
    return at;
  Point iteration(op.getNumLoops());
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(result));
  for (auto [expr, coordinate] : llvm::zip(map.getResults(), at))
    iteration[cast<AffineDimExpr>(expr).getPosition()] = coordinate;
  return iteration;
}

Point ElementEvaluator::operandPoint(AffineMap map, const Point &iteration) {
  if (flat)
    return map.getNumResults() ? iteration : Point();
  Point point;
  for (AffineExpr expr : map.getResults())
    point.push_back(iteration[cast<AffineDimExpr>(expr).getPosition()]);
  return point;
}

Element ElementEvaluator::operandOf(linalg::GenericOp op, OpOperand &operand,
                                    const Point &iteration) {
  if (!isa<RankedTensorType>(operand.get().getType()))
    return lookupScalar(operand.get(), Locals());
  return evaluate(operand.get(),
                  operandPoint(op.getMatchingIndexingMap(&operand), iteration));
}

void ElementEvaluator::bindInputs(linalg::GenericOp op, const Point &iteration,
                                  Locals &locals) {
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (!arg.use_empty())
      locals[arg] = operandOf(op, *input, iteration);
  }
}

SmallVector<Element> ElementEvaluator::run(linalg::GenericOp op,
                                           const Point &iteration,
                                           ArrayRef<Element> outputs) {
  llvm::SaveAndRestore<Location> place(loc, op.getLoc());
  Locals locals;
  bindInputs(op, iteration, locals);
  for (auto [arg, output] : llvm::zip(op.getRegionOutputArgs(), outputs))
    if (output.value)
      locals[arg] = output;
  for (Operation &inner : op.getBody()->without_terminator())
    runOp(inner, iteration, locals);
  SmallVector<Element> yielded;
  for (Value value : op.getBody()->getTerminator()->getOperands())
    yielded.push_back(lookupScalar(value, locals));
  return yielded;
}

Element ElementEvaluator::evaluateGeneric(linalg::GenericOp op, unsigned result,
                                          const Point &at) {
  Point iteration = iterationOf(op, result, at);
  SmallVector<Element> outputs;
  for (OpOperand &init : op.getDpsInitsMutable())
    outputs.push_back(op.payloadUsesValueFromOperand(&init)
                          ? operandOf(op, init, iteration)
                          : Element());
  SmallVector<Element> values = run(op, iteration, outputs);
  for (auto [value, element] : llvm::zip(op.getResults(), values))
    define(value, at, element);
  return values[result];
}

Value ElementEvaluator::accumulate(linalg::GenericOp reduction,
                                   const Point &iteration, Value accumulator) {
  bool isVector = isa<VectorType>(accumulator.getType());
  Element before = {accumulator, isVector ? Element::Vector : Element::Uniform};
  Element next = run(reduction, iteration, before).front();
  return isVector ? toVector(next) : next.value;
}

Element ElementEvaluator::term(linalg::GenericOp reduction,
                               const Point &iteration) {
  llvm::SaveAndRestore<Location> place(loc, reduction.getLoc());
  Locals locals;
  bindInputs(reduction, iteration, locals);
  Operation *combiner =
      reduction.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  for (Operation &inner : reduction.getBody()->without_terminator())
    if (&inner != combiner)
      runOp(inner, iteration, locals);
  Value first = combiner->getOperand(0);
  bool isRunning = first == reduction.getRegionOutputArgs()[0];
  return lookupScalar(isRunning ? combiner->getOperand(1) : first, locals);
}

//===----------------------------------------------------------------------===//
// Hoisting
//===----------------------------------------------------------------------===//

void ElementEvaluator::hoistExtracts(linalg::GenericOp op) {
  op.getBody()->walk([&](tensor::ExtractOp extract) {
    auto reader = readers.find(extract.getTensor());
    Point at;
    for (Value index : extract.getIndices()) {
      auto constant = index.getDefiningOp<arith::ConstantIndexOp>();
      if (!constant)
        return;
      at.push_back({create<arith::ConstantOp>(
          builder.getIntegerAttr(coordinateType, constant.value()))});
    }
    if (reader != readers.end())
      scopes.back()[{extract.getOperation(), {}}] = reader->second(at);
  });
}

static bool dependsOnReduction(Value value) {
  auto op = value.getDefiningOp<linalg::GenericOp>();
  return op && (op.getNumReductionLoops() ||
                llvm::any_of(op->getOperands(), dependsOnReduction));
}

void ElementEvaluator::hoistConstants(Value tensor) {
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || readers.count(tensor) || find(keyOf(tensor, {})))
    return;
  hoistExtracts(op);
  for (OpOperand *input : op.getDpsInputOperands()) {
    bool constant = op.getMatchingIndexingMap(input).getNumResults() == 0;
    if (constant && !dependsOnReduction(input->get()))
      operandOf(op, *input, {});
    else
      hoistConstants(input->get());
  }
}

void ElementEvaluator::hoist(Value tensor, const Point &at) {
  if (find(keyOf(tensor, at)) || readers.count(tensor))
    return;
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (op && !op.getNumReductionLoops())
    hoistInputs(op,
                iterationOf(op, cast<OpResult>(tensor).getResultNumber(), at));
}

void ElementEvaluator::hoistInputs(linalg::GenericOp op,
                                   const Point &iteration) {
  for (OpOperand *input : op.getDpsInputOperands()) {
    Point point = operandPoint(op.getMatchingIndexingMap(input), iteration);
    if (hasLanes(point))
      hoist(input->get(), point);
    else if (!op.getMatchingBlockArgument(input).use_empty())
      operandOf(op, *input, iteration);
  }
}

} // namespace heddle::codegen
