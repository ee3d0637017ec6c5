//===- TensorEvaluator.cpp - Elements of tensors in memory ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorEvaluator.h"

using namespace mlir;

namespace heddle::cpu {

void TensorEvaluator::setMemory(Value tensor, Value pointer, bool oneRow) {
  bind(tensor,
       [=](const Point &at) { return load(tensor, pointer, oneRow, at); });
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

Value TensorEvaluator::linearize(Value outer, int64_t size, Value inner) {
  auto known = linearized.find(
      {outer.getAsOpaquePointer(), size, inner.getAsOpaquePointer()});
  if (known != linearized.end())
    return known->second;
  return b.add(b.mul(outer, size), inner);
}

TensorEvaluator::Offset
TensorEvaluator::offsetOf(RankedTensorType type, const Point &at, bool oneRow) {
  ArrayRef<int64_t> shape = type.getShape();
  Point point = at;
  if (oneRow) {
    shape = shape.take_back();
    point.assign(1, at.back());
  } else if (isFlat()) {
    shape = {};
  }
  Offset offset;
  int64_t stride = 1;
  auto addLanes = [&](const Coordinate &c) {
    if (c.kind == Coordinate::Consecutive) {
      offset.laneStride += stride;
      return;
    }
    Value scaled = c.value;
    if (stride != 1)
      scaled = b.create<arith::MulIOp>(scaled, broadcast(b.constant(stride)));
    offset.scattered =
        offset.scattered ? b.add(offset.scattered, scaled) : scaled;
  };
  for (int64_t dim = point.size() - 1; dim >= 0; --dim) {
    if (point[dim].kind != Coordinate::Uniform)
      addLanes(point[dim]);
    if (dim > 0)
      stride *= shape[dim];
  }
  for (auto [dim, c] : llvm::enumerate(point)) {
    Value value = c.value;
    if (c.kind == Coordinate::Scattered)
      value = b.constant(0);
    offset.base =
        offset.base ? linearize(offset.base, shape[dim], value) : value;
  }
  if (!offset.base)
    offset.base = b.constant(0);
  return offset;
}

Element TensorEvaluator::gather(Type type, Value pointer, Value offsets) {
  // There is no instruction that gathers 16-bit elements. LLVM expands such a
  // gather to single loads and selects.
  Type loaded = b.accessType(type);
  auto pointers = LLVM::getFixedVectorType(pointer.getType(),
                                           static_cast<unsigned>(laneCount()));
  Value addresses = b.create<LLVM::GEPOp>(pointers, type, pointer,
                                          ArrayRef<LLVM::GEPArg>(offsets));
  Value all = mask ? mask
                   : b.create<arith::ConstantOp>(DenseElementsAttr::get(
                         vectorType(b.builder.getI1Type()), true));
  VectorType result = vectorType(loaded);
  Value zero = b.zeros(result);
  Value gathered = b.create<LLVM::masked_gather>(
      result, addresses, all, ValueRange(zero), dist::byteSize(type));
  if (loaded != type)
    gathered = b.create<arith::BitcastOp>(vectorType(type), gathered);
  return {gathered, Element::Vector};
}

Element TensorEvaluator::load(Value tensor, Value begin, bool oneRow,
                              const Point &at) {
  auto tensorType = cast<RankedTensorType>(tensor.getType());
  Type type = tensorType.getElementType();
  Offset offset = offsetOf(tensorType, at, oneRow);
  Value pointer = b.advance(begin, type, offset.base);
  if (!offset.scattered && offset.laneStride == 0)
    return {b.load(type, pointer, dist::byteSize(type))};
  if (!offset.scattered && offset.laneStride == 1)
    return {b.load(vectorType(type), pointer, dist::byteSize(type), mask),
            Element::Vector};
  Value offsets = offset.scattered;
  if (offset.laneStride) {
    Value steps =
        b.create<arith::MulIOp>(laneNumbers(b.builder.getI64Type()),
                                broadcast(b.constant(offset.laneStride)));
    offsets = offsets ? b.add(offsets, steps) : steps;
  }
  return gather(type, pointer, offsets);
}

void TensorEvaluator::store(Value tensor, Value pointer, const Point &at,
                            Element element) {
  auto tensorType = cast<RankedTensorType>(tensor.getType());
  Type type = tensorType.getElementType();
  Offset offset = offsetOf(tensorType, at, /*oneRow=*/false);
  Value address = b.advance(pointer, type, offset.base);
  if (codegen::hasLanes(at))
    b.store(toVector(element), address, dist::byteSize(type), mask);
  else
    b.store(element.value, address, dist::byteSize(type));
}

} // namespace heddle::cpu
