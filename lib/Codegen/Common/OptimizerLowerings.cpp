//===- OptimizerLowerings.cpp - nn.update and segments as linalg ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include <limits>

using namespace mlir;

namespace heddle::codegen {

using Args = ValueRange;

/// Whether the f32 `condition` of an update is not 0. Only then does the update
/// change its parameter.
static Value holds(ScalarBuilder &s, Value condition) {
  return s.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, condition,
                                 s.f32(0));
}

/// The operands of an update: tensors of rank `rank`, and numbers.
static SmallVector<Input> inputsOf(ValueRange operands, int64_t rank) {
  SmallVector<Input> inputs;
  for (Value operand : operands)
    inputs.push_back(tensorOf(operand).getRank() == rank ? Input{operand}
                                                         : scalar(operand));
  return inputs;
}

/// Without the exchange: the gradient is whole.
static Values lowerAverage(nn::AverageOp op, nn::AverageOp::Adaptor in,
                           LinalgBuilder &b) {
  Block &body = op.getBody().front();
  return {b.map(op.getType(),
                inputsOf(in.getOperands(), tensorOf(op.getState()).getRank()),
                [&](ScalarBuilder &s, Args x) -> Value {
                  Values means =
                      runScalars(s, body, x.take_front(body.getNumArguments()));
                  Value updates = holds(s, x[body.getNumArguments()]);
                  return s.create<arith::SelectOp>(updates, means.front(),
                                                   x[0]);
                })};
}

static Values lowerUpdate(nn::UpdateOp op, nn::UpdateOp::Adaptor in,
                          LinalgBuilder &b) {
  SmallVector<Input> inputs =
      inputsOf(in.getOperands(), tensorOf(op.getParameter()).getRank());
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

namespace {

/// The loss scale, and the states that say when it changes, as one step finds
/// them or leaves them. The members are those of nn.advance_loss_scale.
struct ScaleStates {
  Value scale, left, steps, ended;
};

/// Computes nn.advance_loss_scale for scalars.
class ScaleAdvance {
public:
  ScaleAdvance(nn::AdvanceLossScaleOp op, ScalarBuilder &s, Args x)
      : op(op), s(s), before{x[0], x[1], x[2], x[3]}, zero(s.f32(0)),
        one(s.f32(1)) {}

  /// The results of the operation. `checked` are the values that must be
  /// finite.
  Values results(Args checked) {
    // For a value that is infinite or NaN, the value minus itself is NaN, and
    // the comparison is false.
    Value runs = compare(arith::CmpFPredicate::OEQ, before.ended, zero);
    Value updates = runs;
    for (Value value : checked)
      updates =
          both(updates, compare(arith::CmpFPredicate::OEQ,
                                s.create<arith::SubFOp>(value, value), zero));
    Value number = select(updates, one, zero);
    Value overflows =
        both(runs, compare(arith::CmpFPredicate::OEQ, number, zero));
    ScaleStates good = afterGood(), over = afterOverflow();
    Values all;
    for (auto member : {&ScaleStates::scale, &ScaleStates::left,
                        &ScaleStates::steps, &ScaleStates::ended})
      all.push_back(select(updates, good.*member,
                           select(overflows, over.*member, before.*member)));
    all.push_back(number);
    return all;
  }

private:
  Value compare(arith::CmpFPredicate how, Value a, Value b) {
    return s.create<arith::CmpFOp>(how, a, b);
  }
  Value both(Value a, Value b) { return s.create<arith::AndIOp>(a, b); }
  Value select(Value condition, Value a, Value b) {
    return s.create<arith::SelectOp>(condition, a, b);
  }

  /// The states after a step without overflow.
  ScaleStates afterGood() {
    ScaleStates next = before;
    Value full = s.f32(static_cast<double>(op.getHysteresis()));
    if (op.getConsecutive())
      next.left = full;
    if (op.getWindow() == 0)
      return next;
    Value doubles = compare(arith::CmpFPredicate::OGE, before.steps,
                            s.f32(static_cast<double>(op.getWindow())));
    Value twice = s.create<arith::MinimumFOp>(
        s.create<arith::AddFOp>(before.scale, before.scale), s.f32(0x1p127));
    next.scale = select(doubles, twice, before.scale);
    next.left = select(doubles, full, next.left);
    next.steps =
        select(doubles, one, s.create<arith::AddFOp>(before.steps, one));
    return next;
  }

  /// The states after an overflow.
  ScaleStates afterOverflow() {
    Value least = s.f32(op.getLeast().convertToDouble());
    Value hasLeft = compare(arith::CmpFPredicate::OGT, before.left, one);
    Value canFall = compare(arith::CmpFPredicate::OGT, before.scale, least);
    Value half = s.create<arith::MaximumFOp>(
        s.create<arith::MulFOp>(before.scale, s.f32(0.5)), least);
    // If neither is true, only `ended` changes.
    auto choose = [&](Value ifLeft, Value ifFalls, Value otherwise) {
      return select(hasLeft, ifLeft, select(canFall, ifFalls, otherwise));
    };
    return {choose(before.scale, half, before.scale),
            choose(s.create<arith::SubFOp>(before.left, one), before.left,
                   before.left),
            choose(zero, zero, before.steps), choose(zero, zero, one)};
  }

  nn::AdvanceLossScaleOp op;
  ScalarBuilder &s;
  ScaleStates before;
  Value zero, one;
};

} // namespace

static Values lowerAdvanceLossScale(nn::AdvanceLossScaleOp op,
                                    nn::AdvanceLossScaleOp::Adaptor in,
                                    LinalgBuilder &b) {
  SmallVector<Input> inputs;
  for (Value operand : in.getOperands())
    inputs.push_back({operand});
  return b.map(op.getResultTypes(), inputs, [&](ScalarBuilder &s, Args x) {
    return ScaleAdvance(op, s, x).results(x.drop_front(4));
  });
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

static Values lowerSegmentMaxima(nn::SegmentMaximaOp op,
                                 nn::SegmentMaximaOp::Adaptor in,
                                 LinalgBuilder &b) {
  SmallVector<int64_t> counts = nn::segmentCountsOf(op);
  int64_t rows = tensorOf(op.getOutput()).getDimSize(0);
  int64_t range = tensorOf(op.getInput()).getNumElements() / rows;
  int64_t shape[] = {rows, static_cast<int64_t>(counts.size()), range};
  return {b.reduceTail(
      b.builder.getF32Type(), shape, 2, {b.space(shape)},
      LinalgBuilder::Combine::Maximum, [&](ScalarBuilder &s, Args) -> Value {
        auto wide = [&](Value index) -> Value {
          return s.create<arith::IndexCastOp>(s.getI64Type(), index);
        };
        Value at = s.create<arith::AddIOp>(
            s.create<arith::MulIOp>(wide(s.position(0)), s.i64(range)),
            wide(s.position(2)));
        Value place = at;
        if (in.getFirst())
          place = s.create<arith::AddIOp>(at, wide(in.getFirst()));
        Value begin = s.i64(0), count = s.i64(counts[0]);
        int64_t next = nn::paddedElements(counts[0]);
        for (int64_t segment = 1; segment < shape[1]; ++segment) {
          Value isLater = s.create<arith::CmpIOp>(
              arith::CmpIPredicate::sge, wide(s.position(1)), s.i64(segment));
          begin = s.create<arith::SelectOp>(isLater, s.i64(next), begin);
          count =
              s.create<arith::SelectOp>(isLater, s.i64(counts[segment]), count);
          next += nn::paddedElements(counts[segment]);
        }
        Value inSegment = s.create<arith::SubIOp>(place, begin);
        Value isHere = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult,
                                               inSegment, count);
        Value x = s.extract(in.getInput(), Value(s.create<arith::IndexCastOp>(
                                               s.getIndexType(), at)));
        return s.create<arith::SelectOp>(
            isHere, x, s.f32(-std::numeric_limits<float>::infinity()));
      })};
}

/// The rows are those of ranks, of which there are few.
static Values lowerMaxRows(nn::MaxRowsOp op, nn::MaxRowsOp::Adaptor in,
                           LinalgBuilder &b) {
  int64_t rows = tensorOf(op.getInput()).getDimSize(0);
  return {b.map(op.getType(), {}, [&](ScalarBuilder &s, Args) -> Value {
    Value largest;
    for (int64_t row = 0; row < rows; ++row) {
      Value x = s.extract(in.getInput(), {s.index(row), s.position(0)});
      largest = row ? Value(s.create<arith::MaximumFOp>(largest, x)) : x;
    }
    return largest;
  })};
}

static Values lowerReadNumbers(nn::ReadNumbersOp op,
                               nn::ReadNumbersOp::Adaptor in,
                               LinalgBuilder &b) {
  return {b.map(op.getType(), {}, [&](ScalarBuilder &s, Args) -> Value {
    Value at =
        s.create<arith::MulIOp>(s.position(0), s.index(nn::paddedElements(1)));
    return s.extract(in.getInput(), at);
  })};
}

static Values lowerWriteNumbers(nn::WriteNumbersOp op,
                                nn::WriteNumbersOp::Adaptor in,
                                LinalgBuilder &b) {
  int64_t numbers = tensorOf(op.getNumbers()).getNumElements();
  return {b.map(
      op.getType(), {{in.getBefore()}, scalar(in.getCondition())},
      [&](ScalarBuilder &s, Args x) -> Value {
        Value unit = s.index(nn::paddedElements(1));
        Value number = s.create<arith::DivUIOp>(s.position(0), unit);
        Value exists = s.create<arith::AndIOp>(
            s.create<arith::CmpIOp>(arith::CmpIPredicate::ult, number,
                                    s.index(numbers)),
            s.create<arith::CmpIOp>(arith::CmpIPredicate::eq, s.position(0),
                                    s.create<arith::MulIOp>(number, unit)));
        number = s.create<arith::SelectOp>(exists, number, s.index(0));
        Value now = s.create<arith::SelectOp>(
            exists, s.extract(in.getNumbers(), number), s.f32(0));
        return s.create<arith::SelectOp>(holds(s, x[1]), now, x[0]);
      })};
}

void attachOptimizerLowerings(MLIRContext *context) {
  attachLinalg<nn::AverageOp, lowerAverage>(context);
  attachLinalg<nn::UpdateOp, lowerUpdate>(context);
  attachLinalg<nn::AdvancePowerOp, lowerAdvancePower>(context);
  attachLinalg<nn::CountUpdateOp, lowerCountUpdate>(context);
  attachLinalg<nn::TakeRateOp, lowerTakeRate>(context);
  attachLinalg<nn::AdvanceLossScaleOp, lowerAdvanceLossScale>(context);
  attachLinalg<nn::SegmentSumsOp, lowerSegmentSums, Generator::Segments>(
      context);
  attachLinalg<nn::ScaleSegmentsOp, lowerScaleSegments, Generator::Segments>(
      context);
  attachLinalg<nn::SegmentMaximaOp, lowerSegmentMaxima, Generator::Segments>(
      context);
  attachLinalg<nn::MaxRowsOp, lowerMaxRows>(context);
  attachLinalg<nn::ReadNumbersOp, lowerReadNumbers>(context);
  attachLinalg<nn::WriteNumbersOp, lowerWriteNumbers>(context);
}

} // namespace heddle::codegen
