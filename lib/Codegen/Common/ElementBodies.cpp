//===- ElementBodies.cpp - Vector code for scalar bodies ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of ElementEvaluator that emits the bodies of linalg operations, as
// vector code if operands differ between lanes.
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/ElementEvaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::codegen {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value ElementEvaluator::broadcast(Value scalar) {
  return create<vector::BroadcastOp>(vectorType(scalar.getType()), scalar);
}

Value ElementEvaluator::laneNumbers(Type scalar) {
  SmallVector<Attribute> numbers;
  for (int64_t lane = 0; lane < lanes; ++lane)
    numbers.push_back(builder.getIntegerAttr(scalar, lane));
  return create<arith::ConstantOp>(
      DenseElementsAttr::get(vectorType(scalar), numbers));
}

Value ElementEvaluator::castTo(Type scalar, Value value) {
  if (getElementTypeOrSelf(value) == scalar)
    return value;
  Type type = isa<VectorType>(value.getType()) ? vectorType(scalar) : scalar;
  return create<arith::IndexCastOp>(type, value);
}

Value ElementEvaluator::toVector(Element element) {
  switch (element.kind) {
  case Element::Vector:
    return element.value;
  case Element::Uniform:
    return broadcast(element.value);
  case Element::Consecutive:
    break;
  }
  Type type = element.value.getType();
  Value base =
      type.isIndex() ? castTo(coordinateType, element.value) : element.value;
  Value numbers = laneNumbers(base.getType());
  return castTo(type, create<arith::AddIOp>(broadcast(base), numbers));
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

Element ElementEvaluator::lookupScalar(Value value, const Locals &locals) {
  auto local = locals.find(value);
  if (local != locals.end())
    return local->second;
  auto scalar = scalars.find(value);
  if (scalar != scalars.end())
    return {castTo(value.getType(), scalar->second)};
  Operation *op = value.getDefiningOp();
  if (op && op->hasTrait<OpTrait::ConstantLike>())
    return {builder.clone(*op)->getResult(0)};
  Operation *owner = op ? op : value.getParentBlock()->getParentOp();
  return fail(owner, value.getType(), "a body reads an unknown value");
}

void ElementEvaluator::emitScalar(Operation &op) {
  Locals locals;
  runOp(op, {}, locals);
  for (Value result : op.getResults())
    scalars[result] = lookupScalar(result, locals).value;
}

void ElementEvaluator::runOp(Operation &op, const Point &iteration,
                             Locals &locals) {
  if (op.hasTrait<OpTrait::ConstantLike>())
    locals[op.getResult(0)] = {builder.clone(op)->getResult(0)};
  else if (auto index = dyn_cast<linalg::IndexOp>(op))
    locals[index] = position(index, iteration);
  else if (auto extracted = dyn_cast<tensor::ExtractOp>(op))
    locals[extracted] = extract(extracted, locals);
  else
    runElementwise(op, locals);
}

Element ElementEvaluator::position(linalg::IndexOp op, const Point &iteration) {
  if (flat && op->getParentOfType<linalg::GenericOp>().getNumLoops() != 1)
    return fail(op, op.getType(), "a position is asked for in a flat kernel");
  Coordinate at = iteration[op.getDim()];
  Value value = castTo(op.getType(), at.value);
  switch (at.kind) {
  case Coordinate::Uniform:
    return {value, Element::Uniform};
  case Coordinate::Consecutive:
    return {value, Element::Consecutive};
  case Coordinate::Scattered:
    return {value, Element::Vector};
  }
  llvm_unreachable("all kinds handled");
}

/// Whether lane i of the result of `op` with these operands is lane 0 plus i.
/// Such a result needs only a scalar, not a vector.
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

void ElementEvaluator::runElementwise(Operation &op, Locals &locals) {
  SmallVector<Element> operands;
  for (Value operand : op.getOperands())
    operands.push_back(lookupScalar(operand, locals));
  Element::Kind kind = Element::Vector;
  if (llvm::all_of(operands, [](const Element &element) {
        return element.kind == Element::Uniform;
      }))
    kind = Element::Uniform;
  else if (staysConsecutive(op, operands))
    kind = Element::Consecutive;
  bool isVector = kind == Element::Vector;
  if (op.getNumRegions() ||
      (isVector && !OpTrait::hasElementwiseMappableTraits(&op))) {
    for (Value result : op.getResults())
      locals[result] =
          fail(&op, result.getType(),
               "operation " + op.getName().getStringRef() + " in a body");
    return;
  }
  OperationState state(loc, op.getName());
  for (const Element &element : operands)
    state.addOperands(isVector ? toVector(element) : element.value);
  state.addAttributes(op.getAttrs());
  for (Type type : op.getResultTypes())
    state.addTypes(isVector ? vectorType(type) : type);
  Operation *created = builder.create(state);
  for (auto [from, to] : llvm::zip(op.getResults(), created->getResults()))
    locals[from] = {to, kind};
}

Element ElementEvaluator::extract(tensor::ExtractOp op, Locals &locals) {
  if (const Element *known = find({op.getOperation(), {}}))
    return *known;
  Point at;
  for (Value operand : op.getIndices()) {
    Element index = lookupScalar(operand, locals);
    Coordinate c = {castTo(coordinateType, index.value)};
    if (index.kind == Element::Vector)
      c.kind = Coordinate::Scattered;
    else if (index.kind == Element::Consecutive)
      c.kind = Coordinate::Consecutive;
    at.push_back(c);
  }
  return evaluate(op.getTensor(), at);
}

} // namespace heddle::codegen
