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
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace heddle::cpu {

static Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

namespace {

/// A product, and what its generator leaves to be added to it; or null.
struct Addition {
  const codegen::Product *product;
  Value addend;
};

/// What is computed of one vector of each product: results of the kernel.
class Epilogue {
public:
  Epilogue(KernelEmitter &k, ArrayRef<Addition> additions,
           ArrayRef<unsigned> yields)
      : k(k), additions(additions), yields(yields) {}

  /// Whether the results are the sums as they are.
  bool isEmpty() const {
    return additions.size() == 1 && !additions[0].addend &&
           yields.size() == 1 &&
           k.yields()[yields[0]] == additions[0].product->result();
  }
  /// Stores all results but the first, and returns that.
  Value finish(ValueRange sums, Value row, Value column, Value mask);

private:
  KernelEmitter &k;
  SmallVector<Addition, 2> additions;
  SmallVector<unsigned> yields; ///< Of the kernel's.
};

/// A kernel of one product.
class GemmFusion {
public:
  GemmFusion(KernelEmitter &k, const codegen::Product &product)
      : k(k), product(product), addend(product.addend) {}

  LogicalResult emit();

private:
  void describe();

  KernelEmitter &k;
  const codegen::Product &product;
  Value addend; ///< That of the product, if the generator does not add it.
  GemmSpec spec;
};

/// A kernel of products with packed weights.
class PackedFusion {
public:
  PackedFusion(KernelEmitter &k, ArrayRef<codegen::Product> products)
      : k(k), products(products) {}

  LogicalResult emit();

private:
  void collect(Value value, llvm::SmallBitVector &found);
  PackedPart describe(const llvm::SmallBitVector &members,
                      ArrayRef<unsigned> yields);
  Value pointer(Value value) { return value ? k.pointerOf(value) : Value(); }

  KernelEmitter &k;
  ArrayRef<codegen::Product> products;
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
        {b.narrow(element, elementType(product->result())), Element::Vector});
  }
  SmallVector<Value> vectors;
  for (unsigned yield : yields)
    vectors.push_back(ev.evaluateVector(k.yields()[yield], at));
  for (size_t i = 1; i < vectors.size(); ++i)
    ev.store(k.yields()[yields[i]], k.results[yields[i]], at,
             {vectors[i], Element::Vector});
  ev.setMask({});
  return b.widen(vectors[0]);
}

//===----------------------------------------------------------------------===//
// One product
//===----------------------------------------------------------------------===//

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

LogicalResult GemmFusion::emit() {
  describe();
  for (Value yield : k.yields())
    k.evaluator.hoistConstants(yield);
  k.scratchBytes = gemmScratchBytes(spec, k.target);
  Epilogue ending(k, {{&product, addend}},
                  llvm::to_vector(llvm::seq<unsigned>(0, k.yields().size())));
  auto epilogue = [&](OpBuilder &, Location, Value accumulator, Value row,
                      Value column, Value mask) {
    return ending.finish(accumulator, row, column, mask);
  };
  if (failed(emitGemm(k.b.builder, k.b.loc, spec, k.target,
                      k.pointerOf(product.a), k.pointerOf(product.b),
                      k.results[0], k.scratch, k.thread, k.threads,
                      ending.isEmpty() ? EpilogueFn() : EpilogueFn(epilogue))))
    return k.kernel.emitError("holds a product that cannot be generated");
  return k.finish();
}

//===----------------------------------------------------------------------===//
// Packed weights
//===----------------------------------------------------------------------===//

/// Sets the numbers of the products that a value is computed of.
void PackedFusion::collect(Value value, llvm::SmallBitVector &found) {
  for (auto [number, product] : llvm::enumerate(products))
    if (product.result() == value) {
      found.set(number);
      return;
    }
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      collect(operand, found);
}

PackedPart PackedFusion::describe(const llvm::SmallBitVector &members,
                                  ArrayRef<unsigned> yields) {
  PackedPart part;
  SmallVector<Addition, 2> additions;
  for (unsigned number : members.set_bits()) {
    const codegen::Product &product = products[number];
    part.n = product.n;
    part.weights.push_back(
        {pointer(product.b), pointer(product.scales), pointer(product.zeros)});
    additions.push_back({&product, product.addend});
  }
  part.cType = elementType(k.yields()[yields[0]]);
  part.c = k.results[yields[0]];
  Epilogue ending(k, additions, yields);
  if (!ending.isEmpty())
    part.epilogue = [ending](ValueRange sums, Value row, Value column,
                             Value mask) mutable {
      return ending.finish(sums, row, column, mask);
    };
  return part;
}

LogicalResult PackedFusion::emit() {
  const codegen::Product &first = products.front();
  PackedGemmSpec spec;
  spec.m = first.m;
  spec.k = first.k;
  spec.aType = elementType(first.a);
  spec.bits = first.bits;
  spec.groups = first.groups;
  if (first.scales)
    spec.scaleType = elementType(first.scales);
  // Results of the same products are made together.
  SmallVector<std::pair<llvm::SmallBitVector, SmallVector<unsigned>>> sets;
  for (auto [number, yield] : llvm::enumerate(k.yields())) {
    k.evaluator.hoistConstants(yield);
    std::pair<llvm::SmallBitVector, SmallVector<unsigned>> joined = {
        llvm::SmallBitVector(products.size()), {}};
    collect(yield, joined.first);
    llvm::erase_if(sets, [&](auto &known) {
      if (!known.first.anyCommon(joined.first))
        return false;
      joined.first |= known.first;
      llvm::append_range(joined.second, known.second);
      return true;
    });
    joined.second.push_back(number);
    sets.push_back(std::move(joined));
  }
  SmallVector<PackedPart> parts;
  for (auto &[members, yields] : sets)
    parts.push_back(describe(members, yields));
  k.scratchBytes = packedGemmScratchBytes(spec);
  emitPackedGemm(k.b, spec, k.target, k.pointerOf(first.a), k.scratch, parts,
                 k.thread, k.threads);
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
  if (first.bits > 0)
    return PackedFusion(k, *products).emit();
  return GemmFusion(k, first).emit();
}

} // namespace heddle::cpu
