//===- SegmentsKernel.cpp - Sums and factors of segments ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of nn.segment_sums, nn.segment_maxima and nn.scale_segments.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include <limits>

using namespace mlir;

namespace heddle::cpu {

namespace {

/// Emits operations on segments for a kernel whose input is a range of a
/// bucket's flat tensor. The tensors of the bucket are its segments.
/// There may be thousands of segments, too many for code that names each one,
/// so a constant table holds their beginnings. Segments begin and end at
/// multiples of 64 elements, so there are no partial vectors.
class Segments {
public:
  /// `sizes` are the elements of the segments with their padding.
  Segments(KernelEmitter &k, ArrayRef<int64_t> sizes, Value input, Value first)
      : k(k), b(k.b), ev(k.evaluator), input(input),
        sizes(sizes.begin(), sizes.end()),
        length(cast<RankedTensorType>(input.getType()).getNumElements()) {
    ev.setFlat();
    SmallVector<int64_t> begins = {0};
    for (int64_t size : sizes)
      begins.push_back(begins.back() + size);
    table = k.makeTable(begins, "segments");
    offset = first ? ev.scalarOf(first) : b.constant(0);
  }

  void emitSums(Value result);
  void emitMaxima(nn::SegmentMaximaOp op);
  void emitScaled(Value result, Value factors);

private:
  static constexpr int64_t unit = KernelEmitter::flatUnit;

  /// The index of the first element of segment `segment`, which is also the end
  /// of the previous segment. The index counts from the beginning of the
  /// kernel's range and is clamped to [least, most].
  Value bound(Value segment, Value least, Value most);
  Value clamp(Value x, Value least, Value most) {
    return b.min(b.select(b.less(x, least), least, x), most);
  }
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

Value Segments::bound(Value segment, Value least, Value most) {
  Type i64 = b.builder.getI64Type();
  Value place = b.sub(
      b.load(i64, b.advance(table, i64, segment), sizeof(int64_t)), offset);
  return clamp(place, least, most);
}

/// Emits nn.segment_sums. One thread sums a whole segment, so the order of
/// additions does not depend on the number of threads.
void Segments::emitSums(Value result) {
  Value none = b.constant(0), all = b.constant(length);
  auto [first, last] = k.share(static_cast<int64_t>(sizes.size()));
  b.forLoop(first, last, 1, [&](Value segment) {
    TensorEvaluator::Scope scope(ev);
    Value sum = k.sumOfSquares(input, bound(segment, none, all),
                               bound(b.add(segment, 1), none, all));
    ev.store(result, k.results[0], {{segment}},
             {b.create<arith::TruncFOp>(b.builder.getF32Type(), sum)});
  });
}

/// Emits nn.segment_maxima. Elements between the end of a tensor and that of
/// its segment are in the buffer, but do not count.
void Segments::emitMaxima(nn::SegmentMaximaOp op) {
  auto count = static_cast<int64_t>(sizes.size());
  int64_t rows = cast<RankedTensorType>(op.getOutput().getType()).getDimSize(0);
  Type i64 = b.builder.getI64Type();
  auto vector = ev.vectorType(b.builder.getF32Type());
  Value least = b.create<arith::ConstantOp>(
      DenseElementsAttr::get(vector, -std::numeric_limits<float>::infinity()));
  Value counts = k.makeTable(nn::segmentCountsOf(op), "counts");
  auto [first, last] = k.share(rows * count);
  b.forLoop(first, last, 1, [&](Value index) {
    TensorEvaluator::Scope scope(ev);
    Value row = b.div(index, count), segment = b.rem(index, count);
    Value low = b.mul(row, length / rows), high = b.add(low, length / rows);
    Value start = b.sub(
        b.load(i64, b.advance(table, i64, segment), sizeof(int64_t)), offset);
    Value elements =
        b.load(i64, b.advance(counts, i64, segment), sizeof(int64_t));
    Value begin = clamp(start, low, high);
    Value end = clamp(b.add(start, elements), low, high);
    SmallVector<Value> largest = b.forLoop(
        begin, end, ev.laneCount(), least,
        [&](Value at, ValueRange before) -> SmallVector<Value> {
          TensorEvaluator::Scope inside(ev);
          Point point = {{at, Coordinate::Consecutive}};
          Value x = b.select(b.mask(b.sub(end, at), ev.laneCount()),
                             b.widen(ev.evaluateVector(input, point)), least);
          return {b.create<arith::MaximumFOp>(before[0], x)};
        });
    ev.store(op.getOutput(), k.results[0], {{index}},
             {b.create<vector::ReductionOp>(vector::CombiningKind::MAXIMUMF,
                                            largest[0])});
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
  if (auto sums = dyn_cast<nn::SegmentSumsOp>(op)) {
    Segments(k, nn::segmentsOf(op), sums.getInput(), sums.getFirst())
        .emitSums(sums.getOutput());
  } else if (auto scaled = dyn_cast<nn::ScaleSegmentsOp>(op)) {
    Segments(k, nn::segmentsOf(op), scaled.getInput(), scaled.getFirst())
        .emitScaled(scaled.getOutput(), scaled.getFactors());
  } else if (auto maxima = dyn_cast<nn::SegmentMaximaOp>(op)) {
    SmallVector<int64_t> sizes = nn::segmentCountsOf(op);
    for (int64_t &size : sizes)
      size = nn::paddedElements(size);
    Segments(k, sizes, maxima.getInput(), maxima.getFirst()).emitMaxima(maxima);
  } else {
    return emitGroupsKernel(k);
  }
  return k.finish();
}

} // namespace heddle::cpu
