//===- ProductResults.cpp - Results computed from a product ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The epilogue of kernels with a matrix product: adds the addend, rounds, and
// computes the other operations of the kernel.
//
//===----------------------------------------------------------------------===//

#include "ProductResults.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

int64_t widestChunk(const codegen::Product &product, int64_t most) {
  while (product.n % most)
    most /= 2;
  return most;
}

int64_t resultChunk(planir::KernelOp kernel, const codegen::Product &product) {
  auto shape = cast<RankedTensorType>(product.result().getType()).getShape();
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(),
                                            kernel.getResultTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (tensor.getShape() == shape &&
          dist::byteSize(tensor.getElementType()) == 2)
        return 8;
  return 4;
}

/// Adds the product's addend to its sums, and rounds them to the product's
/// element type.
FailureOr<Value> ProductResults::finishSums(const ProductSums &of,
                                            ArrayRef<Value> leading) {
  const codegen::Product &product = of.product;
  auto width = static_cast<int64_t>(of.sums.size());
  Value sums = of.sums[0];
  if (width > 1)
    sums = f.builder.create<vector::FromElementsOp>(
        f.loc, VectorType::get({width}, sums.getType()), of.sums);
  if (product.addend) {
    FailureOr<Value> values = f.emitter.elements(
        product.addend, product.addendIsRow ? ArrayRef<Value>() : leading);
    if (failed(values))
      return failure();
    sums = c.create<arith::AddFOp>(sums, c.widen(*values));
  }
  return c.narrow(sums, getElementTypeOrSelf(product.result().getType()));
}

LogicalResult ProductResults::store(Value row, Value column,
                                    ArrayRef<ProductSums> products,
                                    bool isShifted) {
  const codegen::Product &first = products[0].product;
  Chunk chunk =
      f.chunk(c.toIndex(column), static_cast<int64_t>(products[0].sums.size()));
  SmallVector<Value> leading = c.split(row, first.rowDims());
  if (isShifted) {
    chunk.row = leading;
    chunk.shape = cast<RankedTensorType>(first.result().getType()).getShape();
  }
  ElementEmitter::Scope scope(f.emitter, chunk);
  for (const ProductSums &of : products) {
    FailureOr<Value> finished = finishSums(of, leading);
    if (failed(finished))
      return failure();
    f.emitter.define(of.product.result(), leading, *finished);
  }
  SmallVector<Value> elements;
  SmallVector<unsigned> stored;
  for (unsigned i : outputs) {
    if (first.isSum(f.yielded(i)))
      continue;
    FailureOr<Value> values = f.emitter.elements(f.yielded(i), leading);
    if (failed(values))
      return failure();
    elements.push_back(*values);
    stored.push_back(i);
  }
  SmallVector<Value> start(leading);
  start.push_back(chunk.base);
  for (auto [i, value] : llvm::zip(stored, elements))
    f.store(value, f.outputBuffer(i), start);
  return success();
}

} // namespace heddle::gpu
