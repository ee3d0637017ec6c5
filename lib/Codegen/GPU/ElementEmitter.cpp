//===- ElementEmitter.cpp - Elements of tensors as code -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds the inputs of codegen::ElementEvaluator to memrefs. This file decides
// which loads become vector loads, and which loaded vectors are reused.
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace heddle::gpu {

using codegen::Coordinate;

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

void ElementEmitter::bind(Value tensor, Reader reader) {
  evaluator.bind(tensor, [this, reader = std::move(reader)](const Point &at) {
    return readLanes(reader, at);
  });
}

void ElementEmitter::bindBuffer(Value tensor, Value buffer) {
  evaluator.bind(tensor,
                 [this, buffer](const Point &at) { return load(buffer, at); });
}

void ElementEmitter::setChunk(Chunk newChunk) {
  chunk = std::move(newChunk);
  evaluator.setLanes(std::max<int64_t>(chunk.width(), 1));
}

ElementEmitter::Scope::Scope(ElementEmitter &emitter, Chunk chunk)
    : emitter(emitter), values(emitter.evaluator), outer(emitter.chunk) {
  outerVectors.swap(emitter.vectors);
  emitter.setChunk(std::move(chunk));
}

ElementEmitter::Scope::~Scope() {
  outerVectors.swap(emitter.vectors);
  emitter.setChunk(std::move(outer));
}

/// Reads an element for each lane of the vector separately, because the lanes
/// have different indices.
ElementEmitter::Element ElementEmitter::readLanes(const Reader &reader,
                                                  const Point &at) {
  Location loc = evaluator.location();
  SmallVector<Value> values;
  int64_t lanes = codegen::hasLanes(at) ? evaluator.laneCount() : 1;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    SmallVector<Value> indices;
    for (const Coordinate &c : at) {
      Value index = c.value;
      if (c.kind == Coordinate::Scattered)
        index = builder.create<vector::ExtractOp>(loc, index, lane);
      else if (c.kind == Coordinate::Consecutive && c.value == chunk.base)
        index = chunk.columns[lane];
      else if (c.kind == Coordinate::Consecutive && lane)
        index = builder.create<arith::AddIOp>(
            loc, index, builder.create<arith::ConstantIndexOp>(loc, lane));
      indices.push_back(index);
    }
    values.push_back(reader(indices));
    if (!values.back())
      return {};
  }
  if (!codegen::hasLanes(at))
    return {values.front()};
  VectorType type = evaluator.vectorType(values.front().getType());
  return {builder.create<vector::FromElementsOp>(loc, type, values),
          Element::Vector};
}

/// Whether `column` is a multiple of the number of columns that a thread
/// handles together (a chunk). The first column of the chunk is such a
/// multiple.
bool ElementEmitter::startsChunk(Value column) const {
  if (column == chunk.base)
    return true;
  auto add = column.getDefiningOp<arith::AddIOp>();
  APInt offset;
  return add && matchPattern(add.getRhs(), m_ConstantInt(&offset)) &&
         offset.getSExtValue() % chunk.width() == 0 &&
         startsChunk(add.getLhs());
}

/// Whether one vector access can load the elements of `buffer` for the adjacent
/// columns that a thread handles together (a chunk). `start` has the indices of
/// the first element.
bool ElementEmitter::isAligned(Value buffer, Indices start) const {
  auto type = cast<MemRefType>(buffer.getType());
  ArrayRef<int64_t> shape = type.getShape();
  if (!chunk.shape.empty())
    return shape == chunk.shape && start.back() == chunk.base &&
           start.drop_back() == ArrayRef<Value>(chunk.row);
  // In a tensor of several dimensions, every row must begin at a multiple of
  // the number of columns that a thread handles together.
  return startsChunk(start.back()) &&
         (shape.size() == 1 ||
          *dist::leadingDimension(type) % chunk.width() == 0);
}

ElementEmitter::Element ElementEmitter::load(Value buffer, const Point &at) {
  Location loc = evaluator.location();
  // Flat kernels access every tensor with one linear index, even a tensor of
  // rank 0. But the buffer of a tensor of rank 0 takes no index.
  if (cast<MemRefType>(buffer.getType()).getRank() == 0)
    return {builder.create<memref::LoadOp>(loc, buffer, ValueRange())};
  auto isUniform = [](const Coordinate &c) {
    return c.kind == Coordinate::Uniform;
  };
  if (codegen::hasLanes(at) && at.back().kind == Coordinate::Consecutive &&
      llvm::all_of(ArrayRef(at).drop_back(), isUniform)) {
    SmallVector<Value> start;
    for (const Coordinate &c : at)
      start.push_back(c.value);
    if (isAligned(buffer, start))
      return {loadChunk(buffer, start), Element::Vector};
  }
  return readLanes(
      [&](Indices indices) { return loadElement(buffer, indices); }, at);
}

Value ElementEmitter::loadChunk(Value buffer, Indices start) {
  Location loc = evaluator.location();
  std::vector<void *> key = {buffer.getAsOpaquePointer()};
  for (Value index : start)
    key.push_back(index.getAsOpaquePointer());
  Value &known = vectors[key];
  if (!known)
    known = builder.create<vector::LoadOp>(
        loc, evaluator.vectorType(getElementTypeOrSelf(buffer)), buffer, start);
  return known;
}

/// Emits an element of a small tensor, such as the words of a random number
/// generator, by one access that loads the whole tensor. Returns null if the
/// tensor's size is not that of one access.
Value ElementEmitter::loadFromAccess(Value buffer, Indices indices) {
  Location loc = evaluator.location();
  auto type = cast<MemRefType>(buffer.getType());
  APInt index;
  if (type.getRank() != 1 || dist::byteSize(type) != accessBytes ||
      !matchPattern(indices.front(), m_ConstantInt(&index)))
    return {};
  auto vector = VectorType::get(type.getShape(), type.getElementType());
  Value zero = builder.create<arith::ConstantIndexOp>(loc, 0);
  Value all = builder.create<vector::LoadOp>(loc, vector, buffer, zero);
  return builder.create<vector::ExtractOp>(loc, all, index.getSExtValue());
}

Value ElementEmitter::loadElement(Value buffer, Indices indices) {
  Location loc = evaluator.location();
  if (Value element = loadFromAccess(buffer, indices))
    return element;
  const auto *column = indices.empty()
                           ? chunk.columns.end()
                           : llvm::find(chunk.columns, indices.back());
  if (chunk.width() <= 1 || column == chunk.columns.end())
    return builder.create<memref::LoadOp>(loc, buffer, indices);
  SmallVector<Value> start(indices.drop_back());
  start.push_back(chunk.base);
  if (!isAligned(buffer, start))
    return builder.create<memref::LoadOp>(loc, buffer, indices);
  return builder.create<vector::ExtractOp>(
      loc, loadChunk(buffer, start),
      static_cast<int64_t>(column - chunk.columns.begin()));
}

//===----------------------------------------------------------------------===//
// Computed elements
//===----------------------------------------------------------------------===//

ElementEmitter::Point ElementEmitter::pointOf(Indices indices) const {
  Point at;
  for (Value index : indices)
    at.push_back({index});
  return at;
}

ElementEmitter::Point ElementEmitter::chunkPoint(Indices leading) const {
  Point at = pointOf(leading);
  at.push_back({chunk.base, chunk.width() > 1 ? Coordinate::Consecutive
                                              : Coordinate::Uniform});
  return at;
}

FailureOr<Value> ElementEmitter::checked(Value value) const {
  if (evaluator.failure())
    return failure();
  return value;
}

LogicalResult ElementEmitter::scalar(Operation &op) {
  evaluator.emitScalar(op);
  return failure(evaluator.failure().has_value());
}

FailureOr<Value> ElementEmitter::element(Value tensor, Indices indices) {
  return checked(evaluator.evaluate(tensor, pointOf(indices)).value);
}

/// Returns coordinates for hoisting code that is the same for all columns.
/// `leading` are the indices in all dimensions but the last. The last
/// coordinate, the column, has a null value: the evaluator hoists no code that
/// depends on it.
ElementEmitter::Point ElementEmitter::anyColumn(Indices leading) const {
  Point at = pointOf(leading);
  at.push_back({Value(), Coordinate::Consecutive});
  return at;
}

void ElementEmitter::hoist(Value tensor, Indices leading) {
  evaluator.hoist(tensor, anyColumn(leading));
}

void ElementEmitter::hoistTerms(linalg::GenericOp reduction, Indices leading) {
  evaluator.hoistInputs(reduction, anyColumn(leading));
}

Value ElementEmitter::ofChunk(Element element) {
  return chunk.width() == 1 ? element.value : evaluator.toVector(element);
}

FailureOr<Value> ElementEmitter::elements(Value tensor, Indices leading) {
  return checked(ofChunk(evaluator.evaluate(tensor, chunkPoint(leading))));
}

void ElementEmitter::define(Value tensor, Indices leading, Value values) {
  bool isVector = isa<VectorType>(values.getType());
  evaluator.define(tensor, chunkPoint(leading),
                   {values, isVector ? Element::Vector : Element::Uniform});
}

void ElementEmitter::defineElement(Value tensor, Indices indices, Value value) {
  evaluator.define(tensor, pointOf(indices), {value});
}

FailureOr<Value> ElementEmitter::terms(linalg::GenericOp reduction,
                                       Indices leading) {
  return checked(ofChunk(evaluator.term(reduction, chunkPoint(leading))));
}

FailureOr<SmallVector<Value>> ElementEmitter::payload(linalg::GenericOp op,
                                                      Indices indices,
                                                      ArrayRef<Value> outputs) {
  SmallVector<Element> before;
  for (Value output : outputs)
    before.push_back({output});
  SmallVector<Value> values;
  for (const Element &element : evaluator.run(op, pointOf(indices), before))
    values.push_back(element.value);
  if (evaluator.failure())
    return failure();
  return values;
}

} // namespace heddle::gpu
