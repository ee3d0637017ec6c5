//===- ElementEmitter.cpp - Single elements of linalg on tensors ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace heddle::gpu {

/// The entry of a small cache, or null.
template <typename Key>
static Value lookup(ArrayRef<std::pair<Key, Value>> cache, Value of,
                    ArrayRef<Value> indices) {
  for (const auto &[key, value] : cache)
    if (key.first == of && ArrayRef<Value>(key.second) == indices)
      return value;
  return {};
}

LogicalResult ElementEmitter::fail(const Twine &why) {
  if (failureReason.empty())
    failureReason = why.str();
  return failure();
}

void ElementEmitter::bind(Value tensor, Reader reader) {
  readers[tensor] = std::move(reader);
}

void ElementEmitter::bindBuffer(Value tensor, Value buffer) {
  bind(tensor,
       [this, buffer](Indices indices) { return loadBuffer(buffer, indices); });
}

void ElementEmitter::enterScope(Chunk newChunk) {
  chunk = std::move(newChunk);
  elements.clear();
  vectors.clear();
}

Value ElementEmitter::loadBuffer(Value buffer, Indices indices) {
  // A flat kernel has an index even where there is no dimension.
  if (cast<MemRefType>(buffer.getType()).getRank() == 0)
    return builder.create<memref::LoadOp>(loc, buffer, ValueRange());
  if (chunk.width() <= 1)
    return builder.create<memref::LoadOp>(loc, buffer, indices);
  const auto *column = llvm::find(chunk.columns, indices.back());
  if (column == chunk.columns.end())
    return builder.create<memref::LoadOp>(loc, buffer, indices);
  SmallVector<Value> start(indices.drop_back());
  start.push_back(chunk.base);
  Value vector = lookup<Key>(vectors, buffer, start);
  if (!vector) {
    auto type = VectorType::get(
        {chunk.width()}, cast<MemRefType>(buffer.getType()).getElementType());
    vector = builder.create<vector::LoadOp>(loc, type, buffer, start);
    vectors.push_back({{buffer, start}, vector});
  }
  return builder.create<vector::ExtractOp>(
      loc, vector, static_cast<int64_t>(column - chunk.columns.begin()));
}

FailureOr<Value> ElementEmitter::element(Value tensor, Indices indices) {
  if (Value known = lookup<Key>(elements, tensor, indices))
    return known;
  FailureOr<Value> result = compute(tensor, indices);
  if (succeeded(result))
    elements.push_back({{tensor, SmallVector<Value>(indices)}, *result});
  return result;
}

FailureOr<Value> ElementEmitter::compute(Value tensor, Indices indices) {
  if (auto reader = readers.find(tensor); reader != readers.end()) {
    if (Value value = reader->second(indices))
      return value;
    return fail("an element of another row or tile");
  }
  Operation *op = tensor.getDefiningOp();
  if (!op)
    return fail("a value that is not an argument of the kernel");
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return genericElement(generic, cast<OpResult>(tensor).getResultNumber(),
                          indices);
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return scalars.lookup(fill.value());
  DenseElementsAttr splat;
  if (matchPattern(tensor, m_Constant(&splat)) && splat.isSplat())
    return builder
        .create<arith::ConstantOp>(loc, splat.getSplatValue<TypedAttr>())
        .getResult();
  Type type = getElementTypeOrSelf(tensor.getType());
  if (isa<tensor::EmptyOp>(op))
    return builder.create<ub::PoisonOp>(loc, type).getResult();
  return fail("operation " + op->getName().getStringRef());
}

FailureOr<Value> ElementEmitter::genericElement(linalg::GenericOp op,
                                                unsigned result,
                                                Indices indices) {
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(result));
  if (op.getNumReductionLoops() || !map.isIdentity())
    return fail("a reduction that is not over the last dimension");
  SmallVector<Value> outputs;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    // Empty initial values have no element to compute.
    if (!op.payloadUsesValueFromOperand(&init)) {
      outputs.push_back({});
      continue;
    }
    FailureOr<Value> value = element(init.get(), indices);
    if (failed(value))
      return failure();
    outputs.push_back(*value);
  }
  FailureOr<SmallVector<Value>> values = payload(op, indices, outputs);
  if (failed(values))
    return failure();
  for (auto [number, value] : llvm::enumerate(*values))
    elements.push_back(
        {{op->getResult(number), SmallVector<Value>(indices)}, value});
  return (*values)[result];
}

SmallVector<Value> ElementEmitter::apply(AffineMap map, Indices indices) {
  // Flat element-wise kernels have one index whatever the rank.
  if (map.isIdentity())
    return SmallVector<Value>(indices);
  SmallVector<Value> results;
  for (AffineExpr expr : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      results.push_back(indices[dim.getPosition()]);
    else
      results.push_back(
          affine::expandAffineExpr(builder, loc, expr, indices, {}));
  }
  return results;
}

FailureOr<SmallVector<Value>> ElementEmitter::payload(linalg::GenericOp op,
                                                      Indices indices,
                                                      ArrayRef<Value> outputs) {
  IRMapping mapping(scalars);
  Block &body = *op.getBody();
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(input);
    if (argument.use_empty())
      continue;
    Value operand = input->get();
    if (!isa<RankedTensorType>(operand.getType())) {
      mapping.map(argument, scalars.lookup(operand));
      continue;
    }
    FailureOr<Value> value =
        element(operand, apply(op.getMatchingIndexingMap(input), indices));
    if (failed(value))
      return failure();
    mapping.map(argument, *value);
  }
  for (auto [init, output] : llvm::zip(op.getDpsInitsMutable(), outputs))
    if (output)
      mapping.map(op.getMatchingBlockArgument(&init), output);
  for (Operation &inner : body.without_terminator())
    if (failed(cloneScalar(inner, indices, mapping)))
      return failure();
  SmallVector<Value> results;
  for (Value yielded : body.getTerminator()->getOperands())
    results.push_back(mapping.lookup(yielded));
  return results;
}

LogicalResult ElementEmitter::cloneScalar(Operation &op, Indices indices,
                                          IRMapping &mapping) {
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    mapping.map(index.getResult(), indices[index.getDim()]);
    return success();
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    SmallVector<Value> at;
    for (Value index : extract.getIndices())
      at.push_back(mapping.lookup(index));
    FailureOr<Value> value = element(extract.getTensor(), at);
    if (failed(value))
      return failure();
    mapping.map(extract.getResult(), *value);
    return success();
  }
  if (op.getNumRegions())
    return fail("operation " + op.getName().getStringRef());
  builder.clone(op, mapping);
  return success();
}

} // namespace heddle::gpu
