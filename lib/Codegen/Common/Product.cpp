//===- Product.cpp - The matrix product of a kernel -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Product.h"
#include "dialects/NN/NNDialect.h"

using namespace mlir;

namespace heddle::codegen {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t columnsOf(Value value) {
  return typeOf(value).getShape().back();
}

static int64_t rowsOf(Value value) {
  return typeOf(value).getNumElements() / columnsOf(value);
}

static Product describe(nn::LinearOp op) {
  Product product;
  product.op = op;
  product.a = op.getInput();
  product.b = op.getWeight();
  product.transB = op.getTransposed();
  product.addend = op.getBias();
  product.addendIsRow = true;
  product.m = rowsOf(product.a);
  product.k = columnsOf(product.a);
  product.n = columnsOf(op.getOutput());
  return product;
}

static Product describe(nn::PackedLinearOp op) {
  Product product;
  product.op = op;
  product.a = op.getInput();
  product.b = op.getWeight();
  product.addend = op.getBias();
  product.addendIsRow = true;
  product.m = rowsOf(product.a);
  product.k = op.getInputs();
  product.n = op.getOutputs();
  product.bits = 32 / op.getPerWord();
  product.groups = op.getGroups();
  product.scales = op.getScales();
  product.zeros = op.getZeros();
  return product;
}

static Product describe(nn::LinearGradWeightOp op) {
  // out[i, o] = x^T grad; stored [out, in] it is grad^T x.
  Product product;
  product.op = op;
  product.a = op.getTransposed() ? op.getGrad() : op.getInput();
  product.b = op.getTransposed() ? op.getInput() : op.getGrad();
  product.transA = true;
  product.addend = op.getInit();
  product.k = rowsOf(product.a);
  product.m = columnsOf(product.a);
  product.n = columnsOf(product.b);
  return product;
}

FailureOr<Product> describeProduct(planir::KernelOp kernel) {
  std::optional<Product> product;
  for (Operation &op : kernel.getBody().front()) {
    auto linear = dyn_cast<nn::LinearOp>(op);
    auto packed = dyn_cast<nn::PackedLinearOp>(op);
    auto gradient = dyn_cast<nn::LinearGradWeightOp>(op);
    if (!linear && !packed && !gradient)
      continue;
    if (product)
      return kernel.emitError("holds more than one matrix product");
    product = linear   ? describe(linear)
              : packed ? describe(packed)
                       : describe(gradient);
  }
  if (!product)
    return kernel.emitError(
        "holds no matrix product; its generator is not \"gemm\"");
  auto isArgument = [](Value value) {
    return !value || isa<BlockArgument>(value);
  };
  if (!isArgument(product->a) || !isArgument(product->b) ||
      !isArgument(product->scales) || !isArgument(product->zeros))
    return product->op->emitError(
        "multiplies values that are not arguments of the kernel");
  for (Type type : kernel.getResultTypes())
    if (cast<RankedTensorType>(type).getShape() !=
        typeOf(product->result()).getShape())
      return kernel.emitError("yields tensors of another shape than that of "
                              "the product");
  return *product;
}

} // namespace heddle::codegen
