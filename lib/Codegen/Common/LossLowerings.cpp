//===- LossLowerings.cpp - Cross-entropy and sums as linalg ---------------===//
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
using Combine = LinalgBuilder::Combine;

/// Whether a token with this label counts for the loss. A negative label marks
/// a token that does not, such as padding.
static Value counts(ScalarBuilder &s, Value label) {
  return s.create<arith::CmpIOp>(arith::CmpIPredicate::sge, label, s.i32(0));
}

namespace {
/// The shard of the logits' columns on a rank, if ranks split the vocabulary.
struct VocabularyShard {
  Value first; ///< The index of its first column; null: it has all columns.
  int64_t count, vocab;

  /// The index in the whole tensor of column `column` of the rank's shard.
  Value inWhole(ScalarBuilder &s, Value column) const {
    return first ? s.create<arith::AddIOp>(column, first) : column;
  }
  /// Returns `value`, or `missing` if the column is padding after the end of
  /// the vocabulary.
  Value ifExists(ScalarBuilder &s, Value column, Value value,
                 double missing) const {
    if (!first)
      return value;
    Value exists = s.create<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                           inWhole(s, column), s.index(vocab));
    return s.create<arith::SelectOp>(exists, value, s.f32(missing));
  }
};
} // namespace

/// Label smoothing needs the sum of each row's logits. Returns this sum as an
/// input of a linalg operation; empty without label smoothing.
static SmallVector<Input> sumForSmoothing(double smoothing,
                                          ArrayRef<int64_t> shape, Value logits,
                                          const VocabularyShard &part,
                                          LinalgBuilder &b) {
  if (smoothing == 0)
    return {};
  int64_t last = shape.size() - 1;
  return {{b.reduceLast(shape, {{logits}}, Combine::Add,
                        [&](ScalarBuilder &s, Args x) {
                          return part.ifExists(s, s.position(last), x[0], 0);
                        })}};
}

/// The logit of the label after label smoothing: (1 - smoothing) logit +
/// smoothing / vocab * (sum of the row's logits).
static Value smooth(ScalarBuilder &s, double smoothing, int64_t vocab,
                    Value logit, Args sum) {
  if (sum.empty())
    return logit;
  return s.add(s.mul(s.f32(1 - smoothing), logit),
               s.mul(s.f32(smoothing / double(vocab)), sum[0]));
}

static Values lowerCrossEntropy(nn::CrossEntropyOp op,
                                nn::CrossEntropyOp::Adaptor in,
                                LinalgBuilder &b) {
  ArrayRef<int64_t> shape = tensorOf(op.getLogits()).getShape();
  int64_t rank = shape.size();
  Value maximum = b.reduceLast(shape, {{in.getLogits()}}, Combine::Maximum,
                               [](ScalarBuilder &, Args x) { return x[0]; });
  Value sum = b.reduceLast(
      shape, {{in.getLogits()}, rows(maximum)}, Combine::Add,
      [](ScalarBuilder &s, Args x) { return s.exp(s.sub(x[0], x[1])); });
  Value lse = b.map(op.getLse().getType(), {{sum}, {maximum}},
                    [](ScalarBuilder &s, Args x) -> Value {
                      return s.add(s.create<math::LogOp>(x[0]), x[1]);
                    });
  double smoothing = op.getSmoothing().convertToDouble();
  int64_t vocab = shape.back();
  SmallVector<Input> inputs = {{lse}, {in.getLabels()}};
  llvm::append_range(inputs, sumForSmoothing(smoothing, shape, in.getLogits(),
                                             {Value(), vocab, vocab}, b));
  Value losses = b.map(
      op.getLosses().getType(), inputs, [&](ScalarBuilder &s, Args x) -> Value {
        Value label = s.create<arith::MaxSIOp>(x[1], s.i32(0));
        Values at;
        for (int64_t dim = 0; dim + 1 < rank; ++dim)
          at.push_back(s.position(dim));
        at.push_back(s.create<arith::IndexCastOp>(s.getIndexType(), label));
        Value loss =
            s.sub(x[0], smooth(s, smoothing, vocab,
                               s.extract(in.getLogits(), at), x.drop_front(2)));
        return s.create<arith::SelectOp>(counts(s, x[1]), loss, s.f32(0));
      });
  return {losses, lse};
}

/// The log-sum-exp over those columns of the rank's shard that are not padding.
/// If all of them are padding, the result is the lowest f32, which adds nothing
/// when the values of all ranks are combined.
static Value partLse(Value logits, Type type, const VocabularyShard &part,
                     LinalgBuilder &b) {
  constexpr double lowest = std::numeric_limits<float>::lowest();
  ArrayRef<int64_t> shape = tensorOf(logits).getShape();
  int64_t last = shape.size() - 1;
  Value maximum = b.reduceLast(
      shape, {{logits}}, Combine::Maximum, [&](ScalarBuilder &s, Args x) {
        return part.ifExists(s, s.position(last), x[0], lowest);
      });
  Value sum =
      b.reduceLast(shape, {{logits}, rows(maximum)}, Combine::Add,
                   [&](ScalarBuilder &s, Args x) {
                     Value power = s.exp(s.sub(x[0], x[1]));
                     return part.ifExists(s, s.position(last), power, 0);
                   });
  return b.map(
      type, {{sum}, {maximum}}, [&](ScalarBuilder &s, Args x) -> Value {
        Value lse = s.add(s.create<math::LogOp>(x[0]), x[1]);
        Value exists =
            s.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x[0], s.f32(0));
        return s.create<arith::SelectOp>(exists, lse, s.f32(lowest));
      });
}

static Values lowerCrossEntropyPart(nn::CrossEntropyPartOp op,
                                    nn::CrossEntropyPartOp::Adaptor in,
                                    LinalgBuilder &b) {
  int64_t rank = tensorOf(op.getLogits()).getRank();
  VocabularyShard part = {in.getFirst(),
                          tensorOf(op.getLogits()).getDimSize(rank - 1),
                          static_cast<int64_t>(op.getVocab())};
  Value lse = partLse(in.getLogits(), op.getLse().getType(), part, b);
  double smoothing = op.getSmoothing().convertToDouble();
  SmallVector<Input> inputs = {{in.getLabels()}};
  llvm::append_range(
      inputs, sumForSmoothing(smoothing, tensorOf(op.getLogits()).getShape(),
                              in.getLogits(), part, b));
  Value labelLogit = b.map(
      op.getLabelLogit().getType(), inputs,
      [&](ScalarBuilder &s, Args x) -> Value {
        Value label = s.create<arith::IndexCastOp>(s.getIndexType(), x[0]);
        Value column = s.create<arith::SubIOp>(label, in.getFirst());
        // A label before the rank's first column gives a negative `column`,
        // which is large as an unsigned number, so one comparison checks both
        // bounds.
        Value isHere = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult,
                                               column, s.index(part.count));
        Values at;
        for (int64_t dim = 0; dim + 1 < rank; ++dim)
          at.push_back(s.position(dim));
        at.push_back(s.create<arith::SelectOp>(isHere, column, s.index(0)));
        Value logit = s.create<arith::SelectOp>(
            isHere, s.extract(in.getLogits(), at), s.f32(0));
        if (smoothing == 0)
          return logit;
        Value share = smooth(s, smoothing, part.vocab, logit, x.drop_front());
        return s.create<arith::SelectOp>(counts(s, x[0]), share, s.f32(0));
      });
  return {lse, labelLogit};
}

static Values lowerCrossEntropyJoin(nn::CrossEntropyJoinOp op,
                                    nn::CrossEntropyJoinOp::Adaptor in,
                                    LinalgBuilder &b) {
  ArrayRef<int64_t> shape = tensorOf(op.getLabels()).getShape();
  int64_t parts = tensorOf(op.getLses()).getDimSize(0) / shape[0];
  Value lse = b.map(op.getLse().getType(), {}, [&](ScalarBuilder &s, Args) {
    Values lses;
    for (int64_t part = 0; part < parts; ++part) {
      Values at;
      for (size_t dim = 0; dim < shape.size(); ++dim)
        at.push_back(s.position(dim));
      at[0] = s.create<arith::AddIOp>(at[0], s.index(part * shape[0]));
      lses.push_back(s.extract(in.getLses(), at));
    }
    Value maximum = lses[0];
    for (Value other : ArrayRef(lses).drop_front())
      maximum = s.create<arith::MaximumFOp>(maximum, other);
    Value sum = s.f32(0);
    for (Value part : lses)
      sum = s.add(sum, s.exp(s.sub(part, maximum)));
    return s.add(s.create<math::LogOp>(sum), maximum);
  });
  Value losses = b.map(op.getLosses().getType(),
                       {{lse}, {in.getLabelLogit()}, {in.getLabels()}},
                       [](ScalarBuilder &s, Args x) -> Value {
                         return s.create<arith::SelectOp>(
                             counts(s, x[2]), s.sub(x[0], x[1]), s.f32(0));
                       });
  return {losses, lse};
}

static Values lowerCrossEntropyGrad(nn::CrossEntropyGradOp op,
                                    nn::CrossEntropyGradOp::Adaptor in,
                                    LinalgBuilder &b) {
  auto type = tensorOf(op.getOutput());
  int64_t last = type.getRank() - 1, width = type.getDimSize(last);
  VocabularyShard part = {in.getFirst(), width,
                          static_cast<int64_t>(op.getVocab().value_or(width))};
  double smoothing = op.getSmoothing().convertToDouble();
  double share = smoothing / double(part.vocab);
  return {b.map(
      op.getType(),
      {{in.getLogits()},
       rows(in.getLabels()),
       rows(in.getLse()),
       rows(in.getGrad())},
      [=](ScalarBuilder &s, Args x) -> Value {
        Value position = s.position(last);
        Value column = s.create<arith::IndexCastOp>(s.getI32Type(),
                                                    part.inWhole(s, position));
        Value isLabel =
            s.create<arith::CmpIOp>(arith::CmpIPredicate::eq, column, x[1]);
        Value target = s.create<arith::SelectOp>(
            isLabel, s.f32(1 - smoothing + share), s.f32(share));
        Value probability = s.exp(s.sub(x[0], x[2]));
        Value weight =
            s.create<arith::SelectOp>(counts(s, x[1]), x[3], s.f32(0));
        return part.ifExists(s, position,
                             s.mul(weight, s.sub(probability, target)), 0);
      })};
}

static Values lowerSum(nn::SumOp op, nn::SumOp::Adaptor in, LinalgBuilder &b) {
  SmallVector<Input> terms = {{in.getInput()}};
  if (in.getWeights())
    terms.push_back({in.getWeights()});
  Value sum = b.sumAll(terms, [](ScalarBuilder &s, Args x) {
    return x.size() == 2 ? s.mul(x[0], x[1]) : x[0];
  });
  SmallVector<Input> inputs = {{sum}};
  if (in.getInit())
    inputs.push_back({in.getInit()});
  return {b.map(op.getType(), inputs, [&](ScalarBuilder &s, Args x) -> Value {
    Value result = s.create<arith::TruncFOp>(s.getF32Type(), x[0]);
    return x.size() == 2 ? s.add(x[1], result) : result;
  })};
}

static Values lowerCountLabels(nn::CountLabelsOp op,
                               nn::CountLabelsOp::Adaptor in,
                               LinalgBuilder &b) {
  SmallVector<Input> terms = {{in.getLabels()}};
  if (in.getWeights())
    terms.push_back({in.getWeights()});
  Value sum = b.sumAll(terms, [](ScalarBuilder &s, Args x) -> Value {
    auto f64 = [&](double value) -> Value {
      return s.create<arith::ConstantOp>(s.getF64FloatAttr(value));
    };
    Value weight = x.size() == 2 ? x[1] : f64(1);
    return s.create<arith::SelectOp>(counts(s, x[0]), weight, f64(0));
  });
  return {b.map(op.getType(), {{sum}}, [](ScalarBuilder &s, Args x) -> Value {
    return s.create<arith::TruncFOp>(s.getF32Type(), x[0]);
  })};
}

static Values lowerLossScale(nn::LossScaleOp op, nn::LossScaleOp::Adaptor in,
                             LinalgBuilder &b) {
  return {b.map(
      op.getType(), {{in.getCount()}}, [](ScalarBuilder &s, Args x) -> Value {
        Value any =
            s.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, x[0], s.f32(0));
        return s.create<arith::SelectOp>(any, s.div(s.f32(1), x[0]), s.f32(0));
      })};
}

static Values lowerTokenWeights(nn::TokenWeightsOp op,
                                nn::TokenWeightsOp::Adaptor in,
                                LinalgBuilder &b) {
  SmallVector<Input> inputs = {{in.getLabels()}, scalar(in.getScale())};
  if (in.getWeights())
    inputs.push_back({in.getWeights()});
  return {b.map(op.getType(), inputs, [](ScalarBuilder &s, Args x) -> Value {
    Value weight = x.size() == 3 ? s.mul(x[1], x[2]) : x[1];
    return s.create<arith::SelectOp>(counts(s, x[0]), weight, s.f32(0));
  })};
}

static Values lowerGlobalNorm(nn::GlobalNormOp op, nn::GlobalNormOp::Adaptor in,
                              LinalgBuilder &b) {
  SmallVector<Input> sums;
  for (Value input : in.getInputs())
    sums.push_back({b.sumAll({{input}}, [&](ScalarBuilder &s, Args x) {
      return op.getSummed() ? x[0] : s.mul(x[0], x[0]);
    })});
  return {b.map(op.getType(), sums, [](ScalarBuilder &s, Args x) -> Value {
    Value total = x[0];
    for (Value sum : x.drop_front())
      total = s.add(total, sum);
    Value norm = s.create<math::SqrtOp>(total);
    return s.create<arith::TruncFOp>(s.getF32Type(), norm);
  })};
}

static Values lowerSquareSums(nn::SquareSumsOp op, nn::SquareSumsOp::Adaptor in,
                              LinalgBuilder &b) {
  constexpr int64_t size = nn::SquareSumsOp::blockSize;
  auto type = tensorOf(op.getInput());
  int64_t shape[] = {tensorOf(op.getOutput()).getDimSize(0),
                     std::min(size, type.getNumElements())};
  Type f64 = b.builder.getF64Type();
  Value sums = b.reduceTail(
      f64, shape, 1, {b.space(shape)}, LinalgBuilder::Combine::Add,
      [&](ScalarBuilder &s, Args) -> Value {
        Value at = s.create<arith::AddIOp>(
            s.create<arith::MulIOp>(s.position(0), s.index(size)),
            s.position(1));
        Value exists = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult, at,
                                               s.index(type.getNumElements()));
        at = s.create<arith::SelectOp>(exists, at, s.index(0));
        Values index(type.getRank());
        for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
          Value extent = s.index(type.getDimSize(dim));
          index[dim] = s.create<arith::RemUIOp>(at, extent);
          at = s.create<arith::DivUIOp>(at, extent);
        }
        Value x = s.create<arith::ExtFOp>(f64, s.extract(in.getInput(), index));
        Value zero = s.create<arith::ConstantOp>(s.getF64FloatAttr(0));
        return s.create<arith::SelectOp>(exists, s.mul(x, x), zero);
      });
  return {b.map(op.getType(), {{sums}},
                [](ScalarBuilder &, Args x) { return x[0]; })};
}

void attachLossLowerings(MLIRContext *context) {
  attachLinalg<nn::CrossEntropyOp, lowerCrossEntropy>(context);
  attachLinalg<nn::CrossEntropyPartOp, lowerCrossEntropyPart>(context);
  attachLinalg<nn::CrossEntropyJoinOp, lowerCrossEntropyJoin>(context);
  attachLinalg<nn::CrossEntropyGradOp, lowerCrossEntropyGrad>(context);
  attachLinalg<nn::SumOp, lowerSum, Generator::Reduce>(context);
  attachLinalg<nn::CountLabelsOp, lowerCountLabels, Generator::Reduce>(context);
  attachLinalg<nn::LossScaleOp, lowerLossScale>(context);
  attachLinalg<nn::TokenWeightsOp, lowerTokenWeights>(context);
  attachLinalg<nn::SquareSumsOp, lowerSquareSums, Generator::BlockSums>(
      context);
  attachLinalg<nn::GlobalNormOp, lowerGlobalNorm, Generator::Reduce>(context);
}

} // namespace heddle::codegen
