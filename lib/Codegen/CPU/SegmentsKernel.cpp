//===- SegmentsKernel.cpp - Sums and factors of segments ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of nn.segment_sums and nn.scale_segments.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace heddle::cpu {

namespace {

/// Emits nn.segment_sums and nn.scale_segments for a kernel whose input is a
/// range of a bucket's flat tensor. The tensors of the bucket are its segments.
/// There may be thousands of segments, too many for code that names each one,
/// so a constant table holds their beginnings. Segments begin and end at
/// multiples of 64 elements, so there are no partial vectors.
class Segments {
public:
  Segments(KernelEmitter &k, Operation *op, Value input, Value first)
      : k(k), b(k.b), ev(k.evaluator), input(input), sizes(nn::segmentsOf(op)),
        length(cast<RankedTensorType>(input.getType()).getNumElements()) {
    ev.setFlat();
    table = makeTable();
    offset = first ? ev.scalarOf(first) : b.constant(0);
  }

  void emitSums(Value result);
  void emitScaled(Value result, Value factors);

private:
  static constexpr int64_t unit = 64;

  Value makeTable();
  /// The index of the first element of segment `segment`, which is also the end
  /// of the previous segment. The index counts from the beginning of the
  /// kernel's range and is clamped to [least, most].
  Value bound(Value segment, Value least, Value most);
  Value sumOf(Value begin, Value end);
  void forVectors(Value begin, Value end,
                  llvm::function_ref<Value(const Point &)> value, Value result);

  KernelEmitter &k;
  LoopBuilder &b;
  TensorEvaluator &ev;
  Value input;
  SmallVector<int64_t> sizes;
  int64_t length;
  Value table, offset;
};

} // namespace

Value Segments::makeTable() {
  SmallVector<int64_t> begins = {0};
  for (int64_t size : sizes)
    begins.push_back(begins.back() + size);
  auto count = static_cast<int64_t>(begins.size());
  auto function = b.builder.getInsertionBlock()
                      ->getParentOp()
                      ->getParentOfType<func::FuncOp>();
  if (!function)
    function = cast<func::FuncOp>(b.builder.getInsertionBlock()->getParentOp());
  auto module = function->getParentOfType<ModuleOp>();
  OpBuilder builder(module.getBodyRegion());
  std::string name = (function.getSymName() + ".segments").str();
  builder.create<LLVM::GlobalOp>(
      b.loc, LLVM::LLVMArrayType::get(builder.getI64Type(), count),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      builder.getI64TensorAttr(begins));
  return b.create<LLVM::AddressOfOp>(
      LLVM::LLVMPointerType::get(builder.getContext()), name);
}

Value Segments::bound(Value segment, Value least, Value most) {
  Type i64 = b.builder.getI64Type();
  Value place = b.sub(
      b.load(i64, b.advance(table, i64, segment), sizeof(int64_t)), offset);
  return b.min(b.select(b.less(place, least), least, place), most);
}

Value Segments::sumOf(Value begin, Value end) {
  VectorType wide = ev.vectorType(b.builder.getF64Type());
  constexpr unsigned sums = 4;
  SmallVector<Value> init(sums, b.zeros(wide));
  SmallVector<Value> carried =
      b.forLoop(begin, end, unit, init, [&](Value at, ValueRange before) {
        TensorEvaluator::Scope scope(ev);
        SmallVector<Value> next(before);
        for (int64_t chunk = 0; chunk < unit / ev.laneCount(); ++chunk) {
          Point point = {
              {b.add(at, chunk * ev.laneCount()), Coordinate::Consecutive}};
          Value x = b.create<arith::ExtFOp>(
              wide, b.widen(ev.evaluateVector(input, point)));
          Value &sum = next[chunk % sums];
          sum = b.create<arith::AddFOp>(sum, b.create<arith::MulFOp>(x, x));
        }
        return next;
      });
  Value total = carried[0];
  for (Value part : ArrayRef(carried).drop_front())
    total = b.create<arith::AddFOp>(total, part);
  Value sum = b.create<vector::ReductionOp>(vector::CombiningKind::ADD, total);
  return b.create<arith::TruncFOp>(b.builder.getF32Type(), sum);
}

/// Emits nn.segment_sums. One thread sums a whole segment, so the order of
/// additions does not depend on the number of threads.
void Segments::emitSums(Value result) {
  Value none = b.constant(0), all = b.constant(length);
  auto [first, last] = k.share(static_cast<int64_t>(sizes.size()));
  b.forLoop(first, last, 1, [&](Value segment) {
    TensorEvaluator::Scope scope(ev);
    Value sum =
        sumOf(bound(segment, none, all), bound(b.add(segment, 1), none, all));
    ev.store(result, k.results[0], {{segment}}, {sum});
  });
}

void Segments::forVectors(Value begin, Value end,
                          llvm::function_ref<Value(const Point &)> value,
                          Value result) {
  b.forLoop(begin, end, ev.laneCount(), [&](Value at) {
    TensorEvaluator::Scope scope(ev);
    Point point = {{at, Coordinate::Consecutive}};
    ev.store(result, k.results[0], point, {value(point), Element::Vector});
  });
}

void Segments::emitScaled(Value result, Value factors) {
  auto count = static_cast<int64_t>(sizes.size());
  auto [first, last] = k.share(length / unit);
  Value begin = b.mul(first, unit), end = b.mul(last, unit);
  b.forLoop(b.constant(0), b.constant(count), 1, [&](Value segment) {
    TensorEvaluator::Scope scope(ev);
    Value factor = ev.toVector(ev.evaluate(factors, {{segment}}));
    forVectors(
        bound(segment, begin, end), bound(b.add(segment, 1), begin, end),
        [&](const Point &at) -> Value {
          return b.create<arith::MulFOp>(ev.evaluateVector(input, at), factor);
        },
        result);
  });
  Value zero = b.zeros(ev.vectorType(b.builder.getF32Type()));
  forVectors(
      bound(b.constant(count), begin, end), end,
      [&](const Point &) { return zero; }, result);
}

LogicalResult emitSegmentsKernel(KernelEmitter &k) {
  Operation *op = &k.kernel.getBody().front().front();
  if (auto sums = dyn_cast<nn::SegmentSumsOp>(op))
    Segments(k, op, sums.getInput(), sums.getFirst())
        .emitSums(sums.getOutput());
  else if (auto scaled = dyn_cast<nn::ScaleSegmentsOp>(op))
    Segments(k, op, scaled.getInput(), scaled.getFirst())
        .emitScaled(scaled.getOutput(), scaled.getFactors());
  else
    return k.kernel.emitError("holds nothing of segments; its generator is not "
                              "\"segments\"");
  return k.finish();
}

} // namespace heddle::cpu
