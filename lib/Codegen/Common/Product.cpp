//===- Product.cpp - The matrix product of a kernel -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Product.h"
#include "dialects/NN/HeadColumns.h"
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
  product.startsWithAddend = bool(op.getInit());
  product.addendIsRow = !product.startsWithAddend;
  product.addend = op.getInit() ? op.getInit() : op.getBias();
  product.m = rowsOf(product.a);
  product.k = columnsOf(product.a);
  product.n = columnsOf(op.getOutput());
  return product;
}

Product describe(nn::PackedLinearOp op) {
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
  product.inputBlock = static_cast<int64_t>(op.getInputBlock().value_or(0));
  product.scales = op.getScales();
  product.zeros = op.getZeros();
  return product;
}

static Product describe(nn::LinearGradWeightOp op) {
  // The gradient of a weight [in, out] is x^T grad. The gradient of a weight
  // that is stored as [out, in] is grad^T x.
  Product product;
  product.op = op;
  product.a = op.getTransposed() ? op.getGrad() : op.getInput();
  product.b = op.getTransposed() ? op.getInput() : op.getGrad();
  product.transA = true;
  product.addend = op.getInit();
  product.sumsA = op.getTransposed();
  product.k = rowsOf(product.a);
  product.m = columnsOf(product.a);
  product.n = columnsOf(product.b);
  return product;
}

/// Reports an error if an operand of the product A B is computed by the kernel
/// instead of being an argument. As an exception, the kernel may compute A if B
/// is a packed weight (nn.packed_linear).
static LogicalResult verifyOperands(const Product &product) {
  for (Value value : {product.a, product.b, product.scales, product.zeros})
    if (value && !isa<BlockArgument>(value) &&
        (product.bits == 0 || value != product.a))
      return product.op->emitError(
          "multiplies values that are not arguments of the kernel");
  return success();
}

/// Finds the nn.sum_rows operations in the kernel of a weight's gradient. Each
/// of them must sum the output's gradient, which the product multiplies.
static LogicalResult findSums(planir::KernelOp kernel, Product &product) {
  auto gradient = dyn_cast<nn::LinearGradWeightOp>(product.op);
  for (auto sum : kernel.getBody().getOps<nn::SumRowsOp>()) {
    if (!gradient || sum.getInput() != gradient.getGrad())
      return sum.emitError("sums what the kernel's product does not multiply");
    product.sums.push_back(sum);
  }
  return success();
}

FailureOr<SmallVector<Product, 1>> describeProducts(planir::KernelOp kernel) {
  SmallVector<Product, 1> products;
  for (Operation &op : kernel.getBody().front()) {
    if (auto linear = dyn_cast<nn::LinearOp>(op))
      products.push_back(describe(linear));
    else if (auto packed = dyn_cast<nn::PackedLinearOp>(op))
      products.push_back(describe(packed));
    else if (auto gradient = dyn_cast<nn::LinearGradWeightOp>(op))
      products.push_back(describe(gradient));
    else
      continue;
    const Product &first = products.front(), &last = products.back();
    bool areJoined = first.bits > 0 && last.bits > 0 && first.a == last.a;
    if (products.size() > 1 && !areJoined)
      return kernel.emitError("holds more than one matrix product");
    if (failed(verifyOperands(last)))
      return failure();
  }
  if (products.empty())
    return kernel.emitError(
        "holds no matrix product; its generator is not \"gemm\"");
  if (failed(findSums(kernel, products.front())))
    return failure();
  for (Value value : kernel.getBody().front().getTerminator()->getOperands()) {
    Operation *op = value.getDefiningOp();
    // A kernel whose weights B are packed may compute the left operand A itself
    // and also return it. So accept results with the shape of A.
    bool isRows =
        products.front().bits > 0 &&
        typeOf(value).getShape() == typeOf(products.front().a).getShape();
    if (isRows || (op && nn::headColumnsOf(op) > 0))
      continue;
    if (llvm::none_of(products, [&](const Product &product) {
          return product.isSum(value) ||
                 typeOf(value).getShape() ==
                     typeOf(product.result()).getShape();
        }))
      return kernel.emitError("yields tensors of another shape than that of "
                              "the product");
  }
  return products;
}

LogicalResult verifyLayout(ArrayRef<Product> products,
                           nn::PackedLayout layout) {
  for (const Product &product : products) {
    auto packed = dyn_cast<nn::PackedLinearOp>(product.op);
    if (!packed || packed.getLayout() == layout)
      continue;
    auto error = packed.emitError("H0174: its weight has the layout ")
                 << stringifyPackedLayout(packed.getLayout())
                 << ", and kernels of this target read "
                 << stringifyPackedLayout(layout);
    error.attachNote() << "help: compile again from a dump of a phase before "
                          "fuse, which chooses the layout";
    return failure();
  }
  return success();
}

FailureOr<Product> soleProduct(planir::KernelOp kernel,
                               ArrayRef<Product> products) {
  if (products.size() > 1)
    return kernel.emitError("holds more than one matrix product");
  if (!isa<BlockArgument>(products.front().a))
    return kernel.emitError("makes the rows that its product multiplies");
  return products.front();
}

} // namespace heddle::codegen
