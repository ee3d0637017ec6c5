//===- GemmFusion.cpp - Matrix products with what is fused onto them ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "heddle/Codegen/CPU/Gemm.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
/// A kernel of one product: nn.linear or nn.linear_grad_weight.
class GemmFusion {
public:
  GemmFusion(KernelEmitter &k, Operation *product)
      : k(k), b(k.b), ev(k.evaluator), product(product),
        output(product->getResult(0)) {}

  LogicalResult emit();

private:
  LogicalResult describe();
  void describeLinear(nn::LinearOp op);
  void describeGradWeight(nn::LinearGradWeightOp op);
  Value finish(Value accumulator, Value row, Value column, Value mask);

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  Operation *product;
  Value output;
  Value a, bOperand;
  Value addend; ///< Added to the product: a bias or an initial value.
  bool addendIsRow = false; ///< The addend has columns only.
  SmallVector<int64_t> rowDims;
  GemmSpec spec;
};
} // namespace

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t rowsOf(Value value) {
  return typeOf(value).getNumElements() / typeOf(value).getShape().back();
}

void GemmFusion::describeLinear(nn::LinearOp op) {
  a = op.getInput();
  bOperand = op.getWeight();
  addend = op.getBias();
  addendIsRow = true;
  spec.m = rowsOf(a);
  spec.k = typeOf(a).getShape().back();
  spec.n = typeOf(output).getShape().back();
  spec.transB = op.getTransposed();
}

void GemmFusion::describeGradWeight(nn::LinearGradWeightOp op) {
  // out[i, o] = x^T grad; stored [out, in] it is grad^T x.
  a = op.getTransposed() ? op.getGrad() : op.getInput();
  bOperand = op.getTransposed() ? op.getInput() : op.getGrad();
  addend = op.getInit();
  spec.k = rowsOf(a);
  spec.m = typeOf(a).getShape().back();
  spec.n = typeOf(bOperand).getShape().back();
  spec.transA = true;
}

LogicalResult GemmFusion::describe() {
  if (auto linear = dyn_cast<nn::LinearOp>(product))
    describeLinear(linear);
  else
    describeGradWeight(cast<nn::LinearGradWeightOp>(product));
  ArrayRef<int64_t> dims = typeOf(output).getShape().drop_back();
  rowDims.assign(dims.begin(), dims.end());
  spec.aType = typeOf(a).getElementType();
  spec.bType = typeOf(bOperand).getElementType();
  spec.cType = typeOf(k.yields()[0]).getElementType();
  if (!k.pointerOf(a) || !k.pointerOf(bOperand))
    return product->emitError("multiplies values that are not arguments of "
                              "the kernel");
  for (Value yield : k.yields())
    if (typeOf(yield).getShape() != typeOf(output).getShape())
      return k.kernel.emitError("yields tensors of another shape than that of "
                                "the product");
  // A sum that grows in place is the generator's own business.
  if (addend && !addendIsRow && k.pointerOf(addend) == k.results[0] &&
      k.yields()[0] == output) {
    spec.accumulate = true;
    addend = {};
  }
  return success();
}

/// The epilogue: what is computed from one vector of the product.
Value GemmFusion::finish(Value accumulator, Value row, Value column,
                         Value mask) {
  TensorEvaluator::Scope scope(ev);
  ev.setMask(mask);
  Point at = ev.splitRow(b.toI64(row), rowDims);
  at.push_back({b.toI64(column), Coordinate::Consecutive});
  if (addend) {
    Point from = addendIsRow ? Point{at.back()} : at;
    accumulator = b.create<arith::AddFOp>(
        accumulator, b.widen(ev.evaluateVector(addend, from)));
  }
  Type type = typeOf(output).getElementType();
  ev.define(output, at, {b.narrow(accumulator, type), Element::Vector});
  SmallVector<Value> vectors;
  for (Value yield : k.yields())
    vectors.push_back(ev.evaluateVector(yield, at));
  for (size_t i = 1; i < vectors.size(); ++i)
    ev.store(k.yields()[i], k.results[i], at, {vectors[i], Element::Vector});
  ev.setMask({});
  return b.widen(vectors[0]);
}

LogicalResult GemmFusion::emit() {
  if (failed(describe()))
    return failure();
  for (Value yield : k.yields())
    ev.hoistConstants(yield);
  k.scratchBytes = gemmScratchBytes(spec, k.target);
  bool plain = !addend && k.yields().size() == 1 && k.yields()[0] == output;
  auto epilogue = [&](OpBuilder &, Location, Value accumulator, Value row,
                      Value column, Value mask) {
    return finish(accumulator, row, column, mask);
  };
  if (failed(emitGemm(b.builder, b.loc, spec, k.target, k.pointerOf(a),
                      k.pointerOf(bOperand), k.results[0], k.scratch, k.thread,
                      k.threads, plain ? EpilogueFn() : EpilogueFn(epilogue))))
    return k.kernel.emitError("holds a product that cannot be generated");
  return failure(ev.hasFailed());
}

LogicalResult emitGemmKernel(KernelEmitter &k) {
  Operation *product = nullptr;
  for (Operation &op : k.kernel.getBody().front()) {
    if (!isa<nn::LinearOp, nn::LinearGradWeightOp>(op))
      continue;
    if (product)
      return k.kernel.emitError("holds more than one matrix product");
    product = &op;
  }
  if (!product)
    return k.kernel.emitError(
        "holds no matrix product; its generator is not \"gemm\"");
  return GemmFusion(k, product).emit();
}

} // namespace heddle::cpu
