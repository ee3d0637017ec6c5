//===- GemmFusion.cpp - Matrix products with what is fused onto them ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "PackedGemm.h"
#include "heddle/Codegen/CPU/Gemm.h"
#include "heddle/Codegen/Common/Product.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
/// A kernel of one product.
class GemmFusion {
public:
  GemmFusion(KernelEmitter &k, const codegen::Product &product)
      : k(k), b(k.b), ev(k.evaluator), product(product),
        addend(product.addend) {}

  LogicalResult emit();
  LogicalResult emitPacked();

private:
  void describe();
  bool isPlain() {
    return !addend && k.yields().size() == 1 &&
           k.yields()[0] == product.result();
  }
  Value finish(Value accumulator, Value row, Value column, Value mask);

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  const codegen::Product &product;
  Value addend; ///< That of the product, if the generator does not add it.
  GemmSpec spec;
};
} // namespace

static Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
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
  // A sum that grows in place is the generator's own business.
  if (addend && !product.addendIsRow && k.pointerOf(addend) == k.results[0] &&
      k.yields()[0] == product.result()) {
    spec.accumulate = true;
    addend = {};
  }
}

/// The epilogue: what is computed from one vector of the product.
Value GemmFusion::finish(Value accumulator, Value row, Value column,
                         Value mask) {
  TensorEvaluator::Scope scope(ev);
  ev.setMask(mask);
  Point at = ev.splitRow(b.toI64(row), product.rowDims());
  at.push_back({b.toI64(column), Coordinate::Consecutive});
  if (addend) {
    Point from = product.addendIsRow ? Point{at.back()} : at;
    accumulator = b.create<arith::AddFOp>(
        accumulator, b.widen(ev.evaluateVector(addend, from)));
  }
  Type type = elementType(product.result());
  ev.define(product.result(), at,
            {b.narrow(accumulator, type), Element::Vector});
  SmallVector<Value> vectors;
  for (Value yield : k.yields())
    vectors.push_back(ev.evaluateVector(yield, at));
  for (size_t i = 1; i < vectors.size(); ++i)
    ev.store(k.yields()[i], k.results[i], at, {vectors[i], Element::Vector});
  ev.setMask({});
  return b.widen(vectors[0]);
}

LogicalResult GemmFusion::emit() {
  describe();
  for (Value yield : k.yields())
    ev.hoistConstants(yield);
  k.scratchBytes = gemmScratchBytes(spec, k.target);
  auto epilogue = [&](OpBuilder &, Location, Value accumulator, Value row,
                      Value column, Value mask) {
    return finish(accumulator, row, column, mask);
  };
  if (failed(emitGemm(b.builder, b.loc, spec, k.target, k.pointerOf(product.a),
                      k.pointerOf(product.b), k.results[0], k.scratch, k.thread,
                      k.threads,
                      isPlain() ? EpilogueFn() : EpilogueFn(epilogue))))
    return k.kernel.emitError("holds a product that cannot be generated");
  return k.finish();
}

LogicalResult GemmFusion::emitPacked() {
  PackedGemmSpec packed;
  packed.m = product.m;
  packed.n = product.n;
  packed.k = product.k;
  packed.aType = elementType(product.a);
  packed.cType = elementType(k.yields()[0]);
  packed.bits = product.bits;
  packed.groups = product.groups;
  if (product.scales)
    packed.scaleType = elementType(product.scales);
  auto pointer = [&](Value value) {
    return value ? k.pointerOf(value) : Value();
  };
  PackedGemmOperands operands = {
      pointer(product.a),     pointer(product.b), pointer(product.scales),
      pointer(product.zeros), k.results[0],       k.scratch};
  for (Value yield : k.yields())
    ev.hoistConstants(yield);
  k.scratchBytes = packedGemmScratchBytes(packed);
  auto epilogue = [&](OpBuilder &, Location, Value accumulator, Value row,
                      Value column, Value mask) {
    return finish(accumulator, row, column, mask);
  };
  emitPackedGemm(b, packed, k.target, operands, k.thread, k.threads,
                 isPlain() ? EpilogueFn() : EpilogueFn(epilogue));
  return k.finish();
}

LogicalResult emitGemmKernel(KernelEmitter &k) {
  FailureOr<codegen::Product> product = codegen::describeProduct(k.kernel);
  if (failed(product))
    return failure();
  if (product->bits > 0)
    return GemmFusion(k, *product).emitPacked();
  return GemmFusion(k, *product).emit();
}

} // namespace heddle::cpu
