//===- TensorBodies.cpp - Scalar bodies as vector code --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorEvaluator.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::cpu {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value TensorEvaluator::broadcast(Value scalar) {
  return b.create<vector::BroadcastOp>(vectorType(scalar.getType()), scalar);
}

Value TensorEvaluator::laneNumbers(Type scalar) {
  SmallVector<Attribute> numbers;
  for (int64_t lane = 0; lane < lanes; ++lane)
    numbers.push_back(b.builder.getIntegerAttr(scalar, lane));
  return b.create<arith::ConstantOp>(
      DenseElementsAttr::get(vectorType(scalar), numbers));
}

Value TensorEvaluator::toVector(Element element) {
  switch (element.kind) {
  case Element::Vector:
    return element.value;
  case Element::Uniform:
    return broadcast(element.value);
  case Element::Consecutive:
    break;
  }
  Type type = element.value.getType();
  Value base = b.toI64(element.value);
  Value numbers = laneNumbers(base.getType());
  Value vector = b.create<arith::AddIOp>(broadcast(base), numbers);
  if (type.isIndex())
    vector = b.create<arith::IndexCastOp>(vectorType(type), vector);
  return vector;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

Element TensorEvaluator::lookupScalar(Value value, Locals &locals) {
  auto local = locals.find(value);
  if (local != locals.end())
    return local->second;
  auto scalar = scalars.find(value);
  if (scalar != scalars.end())
    return {b.toIndex(scalar->second)};
  Operation *op = value.getDefiningOp();
  if (op && op->hasTrait<OpTrait::ConstantLike>())
    return {b.builder.clone(*op)->getResult(0)};
  Operation *owner = op ? op : value.getParentBlock()->getParentOp();
  return fail(owner, value.getType(), "a body reads an unknown value");
}

void TensorEvaluator::runBody(linalg::GenericOp op, const Point &iteration,
                              Locals &locals) {
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (inner.getNumResults() == 1) {
      locals[inner.getResult(0)] = runOp(inner, iteration, locals);
      continue;
    }
    // Several results (extended products) are known one by one.
    SmallVector<Value> operands;
    for (Value operand : inner.getOperands())
      operands.push_back(toVector(lookupScalar(operand, locals)));
    runMany(inner, operands, locals);
  }
}

void TensorEvaluator::runMany(Operation &op, ArrayRef<Value> operands,
                              Locals &locals) {
  OperationState state(b.loc, op.getName());
  state.addOperands(operands);
  state.addAttributes(op.getAttrs());
  for (Type type : op.getResultTypes())
    state.addTypes(vectorType(type));
  Operation *created = b.builder.create(state);
  for (auto [from, to] : llvm::zip(op.getResults(), created->getResults()))
    locals[from] = {to, Element::Vector};
}

Element TensorEvaluator::runOp(Operation &op, const Point &iteration,
                               Locals &locals) {
  if (op.hasTrait<OpTrait::ConstantLike>())
    return {b.builder.clone(op)->getResult(0)};
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    if (flat)
      return fail(&op, op.getResult(0).getType(),
                  "a position is asked for in a flat kernel");
    Coordinate at = iteration[index.getDim()];
    if (at.kind == Coordinate::Scattered)
      return {b.create<arith::IndexCastOp>(vectorType(b.builder.getIndexType()),
                                           at.value),
              Element::Vector};
    return {b.toIndex(at.value), at.kind == Coordinate::Consecutive
                                     ? Element::Consecutive
                                     : Element::Uniform};
  }
  if (auto extractOp = dyn_cast<tensor::ExtractOp>(op))
    return extract(extractOp, locals);
  SmallVector<Element> operands;
  for (Value operand : op.getOperands())
    operands.push_back(lookupScalar(operand, locals));
  return runElementwise(op, operands);
}

/// Creates `op` on other operands.
static Value recreate(LoopBuilder &b, Operation &op, ArrayRef<Value> operands,
                      Type type) {
  OperationState state(b.loc, op.getName());
  state.addOperands(operands);
  state.addAttributes(op.getAttrs());
  state.addTypes(type);
  return b.builder.create(state)->getResult(0);
}

/// Whether lane i of the result is lane 0 of it plus i.
static bool staysConsecutive(Operation &op, ArrayRef<Element> operands) {
  auto is = [&](unsigned i, Element::Kind kind) {
    return operands[i].kind == kind;
  };
  if (isa<arith::IndexCastOp, arith::TruncIOp>(op))
    return is(0, Element::Consecutive);
  if (isa<arith::AddIOp>(op))
    return (is(0, Element::Consecutive) && is(1, Element::Uniform)) ||
           (is(0, Element::Uniform) && is(1, Element::Consecutive));
  return isa<arith::SubIOp>(op) && is(0, Element::Consecutive) &&
         is(1, Element::Uniform);
}

Element TensorEvaluator::runElementwise(Operation &op,
                                        ArrayRef<Element> operands) {
  Type type = op.getResult(0).getType();
  bool uniform = llvm::all_of(operands, [](const Element &element) {
    return element.kind == Element::Uniform;
  });
  bool consecutive = staysConsecutive(op, operands);
  SmallVector<Value> values;
  if (uniform || consecutive) {
    for (const Element &element : operands)
      values.push_back(element.value);
    return {recreate(b, op, values, type),
            consecutive ? Element::Consecutive : Element::Uniform};
  }
  if (!OpTrait::hasElementwiseMappableTraits(&op))
    return fail(&op, type, "an operation has no vector form");
  for (const Element &element : operands)
    values.push_back(toVector(element));
  return {recreate(b, op, values, vectorType(type)), Element::Vector};
}

Element TensorEvaluator::extract(tensor::ExtractOp op, Locals &locals) {
  if (const Element *known = find({op.getOperation(), {}}))
    return *known;
  Point at;
  for (Value operand : op.getIndices()) {
    Element index = lookupScalar(operand, locals);
    if (index.kind == Element::Vector)
      at.push_back({b.create<arith::IndexCastOp>(
                        vectorType(b.builder.getI64Type()), index.value),
                    Coordinate::Scattered});
    else
      at.push_back({b.toI64(index.value), index.kind == Element::Consecutive
                                              ? Coordinate::Consecutive
                                              : Coordinate::Uniform});
  }
  return evaluate(op.getTensor(), at);
}

} // namespace heddle::cpu
