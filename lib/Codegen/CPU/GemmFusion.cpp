//===- GemmFusion.cpp - Kernels of one matrix product ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits kernels of one product (nn.linear, nn.linear_grad_weight) and its
// epilogue.
//
//===----------------------------------------------------------------------===//

#include "GemmEpilogue.h"
#include "heddle/Codegen/CPU/Gemm.h"

using namespace mlir;

namespace heddle::cpu {

static Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

namespace {

/// Emits a kernel of one product.
class GemmFusion {
public:
  GemmFusion(KernelEmitter &k, const codegen::Product &product)
      : k(k), product(product), addend(product.addend) {}

  LogicalResult emit();

private:
  void describe();
  Value startingSums(Value row, Value column, Value mask);

  KernelEmitter &k;
  const codegen::Product &product;
  Value addend; ///< The product's addend, if the epilogue must add it.
  Value start;  ///< The tensor of initial sums, or null.
  GemmSpec spec;
};

} // namespace

Value Epilogue::finish(ValueRange sums, Value row, Value column, Value mask) {
  LoopBuilder &b = k.b;
  TensorEvaluator &ev = k.evaluator;
  TensorEvaluator::Scope scope(ev);
  ev.setMask(mask);
  Point at = ev.splitRow(b.toI64(row), additions[0].product->rowDims());
  at.push_back({b.toI64(column), Coordinate::Consecutive});
  for (auto [addition, sum] : llvm::zip(additions, sums)) {
    auto [product, addend] = addition;
    Value element = sum;
    if (addend) {
      Point from = product->addendIsRow ? Point{at.back()} : at;
      element = b.create<arith::AddFOp>(
          element, b.widen(ev.evaluateVector(addend, from)));
    }
    ev.define(
        product->result(), at,
        {b.narrow(element, getElementTypeOrSelf(product->result().getType())),
         Element::Vector});
  }
  SmallVector<Value> vectors;
  for (const Output &output : outputs)
    vectors.push_back(ev.evaluateVector(output.value, at));
  for (size_t i = 1; i < vectors.size(); ++i)
    ev.store(outputs[i].value, outputs[i].pointer, at,
             {vectors[i], Element::Vector});
  ev.setMask({});
  return b.widen(vectors[0]);
}

void GemmFusion::describe() {
  spec.m = product.m;
  spec.n = product.n;
  spec.k = product.k;
  spec.transA = product.transA;
  spec.transB = product.transB;
  spec.aType = elementType(product.a);
  spec.bType = elementType(product.b);
  spec.cType = elementType(k.yields()[0]);
  if (product.startsWithAddend) {
    start = addend;
    addend = {};
    return;
  }
  // If the epilogue's addend is the old value of the kernel's result (C += A *
  // B), emitGemm adds it.
  if (addend && !product.addendIsRow && k.pointerOf(addend) == k.results[0] &&
      k.yields()[0] == product.result()) {
    spec.accumulate = true;
    addend = {};
  }
}

Value GemmFusion::startingSums(Value row, Value column, Value mask) {
  LoopBuilder &b = k.b;
  TensorEvaluator &ev = k.evaluator;
  TensorEvaluator::Scope scope(ev);
  ev.setMask(mask);
  Point at = ev.splitRow(b.toI64(row), product.rowDims());
  at.push_back({b.toI64(column), Coordinate::Consecutive});
  Value vector = b.widen(ev.evaluateVector(start, at));
  ev.setMask({});
  return vector;
}

LogicalResult GemmFusion::emit() {
  describe();
  for (Value yield : k.yields())
    k.evaluator.hoistConstants(yield);
  k.scratchBytes = gemmScratchBytes(spec, k.target);
  SmallVector<Output> outputs;
  for (auto [value, pointer] : llvm::zip(k.yields(), k.results))
    outputs.push_back({value, pointer});
  Epilogue ending(k, {{&product, addend}}, outputs);
  auto epilogue = [&](OpBuilder &, Location, Value accumulator, Value row,
                      Value column, Value mask) {
    return ending.finish(accumulator, row, column, mask);
  };
  auto init = [&](OpBuilder &, Location, Value row, Value column, Value mask) {
    return startingSums(row, column, mask);
  };
  if (failed(emitGemm(k.b.builder, k.b.loc, spec, k.target,
                      k.pointerOf(product.a), k.pointerOf(product.b),
                      k.results[0], k.scratch, k.self.thread, k.self.threads,
                      ending.isEmpty() ? EpilogueFn() : EpilogueFn(epilogue),
                      start ? InitFn(init) : InitFn())))
    return k.kernel.emitError("holds a product that cannot be generated");
  return k.finish();
}

LogicalResult emitGemmKernel(KernelEmitter &k) {
  FailureOr<SmallVector<codegen::Product, 1>> products =
      codegen::describeProducts(k.kernel);
  if (failed(products))
    return failure();
  const codegen::Product &first = products->front();
  if (!first.sums.empty())
    return first.sums[0]->emitError("is in the kernel of a product, which sums "
                                    "nothing beside on this target");
  if (first.bits > 0 &&
      failed(codegen::verifyLayout(*products, nn::PackedLayout::Panels)))
    return failure();
  if (first.bits > 0)
    return emitPackedProducts(k, *products);
  return GemmFusion(k, first).emit();
}

} // namespace heddle::cpu
