//===- OptimizerLowerings.cpp - nn.update and segments as linalg ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"

using namespace mlir;

namespace heddle::codegen {

using Args = ValueRange;

/// Whether the f32 `condition` of an update is not 0. Only then does the update
/// change its parameter.
static Value holds(ScalarBuilder &s, Value condition) {
  return s.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, condition,
                                 s.f32(0));
}

static Values lowerUpdate(nn::UpdateOp op, nn::UpdateOp::Adaptor in,
                          LinalgBuilder &b) {
  int64_t rank = tensorOf(op.getParameter()).getRank();
  SmallVector<Input> inputs;
  for (Value operand : in.getOperands())
    inputs.push_back(tensorOf(operand).getRank() == rank ? Input{operand}
                                                         : scalar(operand));
  Block &body = op.getBody().front();
  return b.map(op.getResultTypes(), inputs,
               [&](ScalarBuilder &s, Args x) -> Values {
                 Values results =
                     runScalars(s, body, x.take_front(body.getNumArguments()));
                 if (op.getCondition()) {
                   Value updates = holds(s, x.back());
                   // If the update's condition is 0, select the old parameter
                   // and states. Result 0 is the parameter and replaces
                   // argument 0. The other results are states: result i
                   // replaces argument i + 1, because argument 1 is the
                   // gradient.
                   for (auto [number, result] : llvm::enumerate(results))
                     result = s.create<arith::SelectOp>(
                         updates, result, x[number ? number + 1 : 0]);
                 }
                 if (op.getCopy())
                   results.push_back(results[0]);
                 return results;
               });
}

static Values lowerAdvancePower(nn::AdvancePowerOp op,
                                nn::AdvancePowerOp::Adaptor in,
                                LinalgBuilder &b) {
  SmallVector<Input> inputs = {{in.getPower()}};
  if (in.getCondition())
    inputs.push_back({in.getCondition()});
  return b.map(
      op.getResultTypes(), inputs, [&](ScalarBuilder &s, Args x) -> Values {
        auto f64 = [&](double value) -> Value {
          return s.create<arith::ConstantOp>(s.getF64FloatAttr(value));
        };
        Value next = s.mul(x[0], f64(op.getFactor().convertToDouble()));
        if (in.getCondition())
          next = s.create<arith::SelectOp>(holds(s, x[1]), next, x[0]);
        return {next, s.sub(f64(1), next)};
      });
}

static Values lowerCountUpdate(nn::CountUpdateOp op,
                               nn::CountUpdateOp::Adaptor in,
                               LinalgBuilder &b) {
  SmallVector<Input> inputs = {{in.getCount()}};
  if (in.getCondition())
    inputs.push_back({in.getCondition()});
  return {b.map(op.getType(), inputs, [&](ScalarBuilder &s, Args x) -> Value {
    Value one = s.create<arith::ConstantOp>(s.getF64FloatAttr(1));
    Value next = s.create<arith::AddFOp>(x[0], one);
    if (in.getCondition())
      next = s.create<arith::SelectOp>(holds(s, x[1]), next, x[0]);
    return next;
  })};
}

static Values lowerTakeRate(nn::TakeRateOp op, nn::TakeRateOp::Adaptor in,
                            LinalgBuilder &b) {
  int64_t rates = tensorOf(op.getRates()).getNumElements();
  return {b.map(
      op.getType(), {{in.getCount()}}, [&](ScalarBuilder &s, Args x) -> Value {
        Value count = s.create<arith::FPToSIOp>(s.getI64Type(), x[0]);
        Value index = s.create<arith::RemUIOp>(count, s.i64(rates));
        return s.extract(in.getRates(), Value(s.create<arith::IndexCastOp>(
                                            s.getIndexType(), index)));
      })};
}

/// The offsets in a bucket's flat tensor at which the segments of its tensors
/// begin, followed by the end of the last segment.
static SmallVector<int64_t> beginsOf(Operation *op) {
  SmallVector<int64_t> begins = {0};
  for (int64_t size : nn::segmentsOf(op))
    begins.push_back(begins.back() + size);
  return begins;
}

/// Returns the index (i64) of the segment that contains element `position` of a
/// range. The range begins at element `first` of a bucket's flat tensor, which
/// has one segment for each tensor. The code counts the segments that end
/// before the element.
static Value segmentAt(ScalarBuilder &s, Value position, Value first,
                       ArrayRef<int64_t> begins) {
  // Compute in 64 bits, because a bucket's flat tensor may have more than 2^32
  // elements over all ranks.
  auto wide = [&](Value index) -> Value {
    return s.create<arith::IndexCastOp>(s.getI64Type(), index);
  };
  Value at = wide(position), segment = s.i64(0);
  if (first)
    at = s.create<arith::AddIOp>(at, wide(first));
  for (int64_t end : begins.drop_front()) {
    Value isBehind =
        s.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, s.i64(end));
    segment = s.create<arith::AddIOp>(
        segment, s.create<arith::ExtUIOp>(s.getI64Type(), isBehind));
  }
  return segment;
}

static Values lowerSegmentSums(nn::SegmentSumsOp op,
                               nn::SegmentSumsOp::Adaptor in,
                               LinalgBuilder &b) {
  SmallVector<int64_t> begins = beginsOf(op);
  int64_t shape[] = {static_cast<int64_t>(begins.size()) - 1,
                     tensorOf(op.getInput()).getNumElements()};
  Type f64 = b.builder.getF64Type();
  auto number = RankedTensorType::get(shape[1], b.builder.getI64Type());
  Value segments = b.map(number, {}, [&](ScalarBuilder &s, Args) {
    return segmentAt(s, s.position(0), in.getFirst(), begins);
  });
  Value sums = b.reduceTail(
      f64, shape, 1,
      {b.space(shape), along(in.getInput(), 1), along(segments, 1)},
      LinalgBuilder::Combine::Add, [&](ScalarBuilder &s, Args x) -> Value {
        Value mine =
            s.create<arith::IndexCastOp>(s.getI64Type(), s.position(0));
        Value isHere =
            s.create<arith::CmpIOp>(arith::CmpIPredicate::eq, x[2], mine);
        Value wide = s.create<arith::ExtFOp>(f64, x[1]);
        Value zero = s.create<arith::ConstantOp>(s.getF64FloatAttr(0));
        return s.create<arith::SelectOp>(isHere, s.mul(wide, wide), zero);
      });
  return {b.map(op.getType(), {{sums}},
                [](ScalarBuilder &, Args x) { return x[0]; })};
}

static Values lowerScaleSegments(nn::ScaleSegmentsOp op,
                                 nn::ScaleSegmentsOp::Adaptor in,
                                 LinalgBuilder &b) {
  SmallVector<int64_t> begins = beginsOf(op);
  auto count = static_cast<int64_t>(begins.size()) - 1;
  return {b.map(
      op.getType(), {{in.getInput()}}, [&](ScalarBuilder &s, Args x) -> Value {
        Value segment = segmentAt(s, s.position(0), in.getFirst(), begins);
        Value exists = s.create<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                               segment, s.i64(count));
        segment = s.create<arith::SelectOp>(exists, segment, s.i64(0));
        Value at = s.create<arith::IndexCastOp>(s.getIndexType(), segment);
        Value product = s.mul(x[0], s.extract(in.getFactors(), at));
        return s.create<arith::SelectOp>(exists, product, s.f32(0));
      })};
}

void attachOptimizerLowerings(MLIRContext *context) {
  attachLinalg<nn::UpdateOp, lowerUpdate>(context);
  attachLinalg<nn::AdvancePowerOp, lowerAdvancePower>(context);
  attachLinalg<nn::CountUpdateOp, lowerCountUpdate>(context);
  attachLinalg<nn::TakeRateOp, lowerTakeRate>(context);
  attachLinalg<nn::SegmentSumsOp, lowerSegmentSums, Generator::Segments>(
      context);
  attachLinalg<nn::ScaleSegmentsOp, lowerScaleSegments, Generator::Segments>(
      context);
}

} // namespace heddle::codegen
