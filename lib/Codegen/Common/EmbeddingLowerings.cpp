//===- EmbeddingLowerings.cpp - Embeddings and rotary as linalg -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include <cmath>

using namespace mlir;

namespace heddle::codegen {

using Args = ValueRange;

static Value toIndex(ScalarBuilder &s, Value id) {
  return s.create<arith::IndexCastOp>(s.getIndexType(), id);
}

static Values lowerEmbedding(nn::EmbeddingOp op, nn::EmbeddingOp::Adaptor in,
                             LinalgBuilder &b) {
  int64_t last = tensorOf(op.getOutput()).getRank() - 1;
  int64_t tableRows = tensorOf(op.getTable()).getDimSize(0);
  return {b.map(
      op.getType(), {rows(in.getIds())},
      [&](ScalarBuilder &s, Args x) -> Value {
        Value row = toIndex(s, x[0]);
        if (in.getFirst())
          row = s.create<arith::SubIOp>(row, in.getFirst());
        Value isHere = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult, row,
                                               s.index(tableRows));
        row = s.create<arith::SelectOp>(isHere, row, s.index(0));
        Value element = s.extract(in.getTable(), {row, s.position(last)});
        // An id without a row in the embedding table must not read other
        // memory. If this rank has all rows, the id is invalid and yields NaN,
        // so that the error is noticed. If ranks split the rows (`first`), the
        // id yields 0, because another rank has its row and the ranks' results
        // are added.
        double otherwise = in.getFirst() ? 0 : std::nan("");
        return s.create<arith::SelectOp>(isHere, element, s.f32(otherwise));
      })};
}

static Values lowerReorder(nn::ReorderOp op, nn::ReorderOp::Adaptor in,
                           LinalgBuilder &b) {
  unsigned last = tensorOf(op.getOutput()).getRank() - 1;
  int64_t columns = tensorOf(op.getInput()).getShape().back();
  return {
      b.map(op.getType(), {along(in.getOrder(), {last})},
            [&](ScalarBuilder &s, Args x) -> Value {
              Value from = toIndex(s, x[0]);
              Value isHere = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult,
                                                     from, s.index(columns));
              SmallVector<Value> at;
              for (unsigned dim = 0; dim < last; ++dim)
                at.push_back(s.position(dim));
              at.push_back(s.create<arith::SelectOp>(isHere, from, s.index(0)));
              return s.create<arith::SelectOp>(
                  isHere, s.extract(in.getInput(), at), s.f32(std::nan("")));
            })};
}

static Values lowerEmbeddingGrad(nn::EmbeddingGradOp op,
                                 nn::EmbeddingGradOp::Adaptor in,
                                 LinalgBuilder &b) {
  auto table = tensorOf(op.getOutput()), ids = tensorOf(op.getIds());
  SmallVector<int64_t> shape(table.getShape());
  llvm::append_range(shape, ids.getShape());
  auto positions = llvm::to_vector(
      llvm::seq<unsigned>(2, static_cast<unsigned>(shape.size())));
  SmallVector<unsigned> gradDims(positions);
  gradDims.push_back(1);
  Value sums = b.reduceTail(
      b.builder.getF32Type(), shape, 2,
      {along(in.getIds(), positions), along(in.getGrad(), gradDims)},
      LinalgBuilder::Combine::Add, [&](ScalarBuilder &s, Args x) -> Value {
        Value row = toIndex(s, x[0]);
        if (in.getFirst())
          row = s.create<arith::SubIOp>(row, in.getFirst());
        Value adds = s.create<arith::CmpIOp>(arith::CmpIPredicate::eq, row,
                                             s.position(0));
        if (std::optional<int64_t> padding = op.getPadding()) {
          Value counts =
              s.create<arith::CmpIOp>(arith::CmpIPredicate::ne, x[0],
                                      s.i32(static_cast<uint32_t>(*padding)));
          adds = s.create<arith::AndIOp>(adds, counts);
        }
        return s.create<arith::SelectOp>(adds, x[1], s.f32(0));
      });
  SmallVector<Input> inputs = {{sums}};
  if (in.getInit())
    inputs.push_back({in.getInit()});
  return {b.map(op.getType(), inputs, [](ScalarBuilder &s, Args x) {
    return x.size() > 1 ? s.add(x[1], x[0]) : x[0];
  })};
}

static Values lowerPositions(nn::PositionsOp op, nn::PositionsOp::Adaptor in,
                             LinalgBuilder &b) {
  int64_t last = tensorOf(op.getOutput()).getRank() - 1;
  int64_t offset = op.getOffset();
  return {b.map(op.getType(), {}, [&](ScalarBuilder &s, Args) -> Value {
    Value position = s.create<arith::AddIOp>(s.position(last), s.index(offset));
    if (in.getFirst())
      position = s.create<arith::AddIOp>(position, in.getFirst());
    return s.create<arith::IndexCastOp>(s.getI32Type(), position);
  })};
}

static Values lowerTakeRow(nn::TakeRowOp op, nn::TakeRowOp::Adaptor in,
                           LinalgBuilder &b) {
  return {b.map(
      op.getType(), {scalar(in.getPosition())}, [&](ScalarBuilder &s, Args x) {
        return s.extract(in.getInput(),
                         {s.position(0), toIndex(s, x[0]), s.position(2)});
      })};
}

/// A ramp from 0 at `low` to 1 at `high`, clamped to [0, 1].
static Value ramp(ScalarBuilder &s, Value x, double low, double high) {
  Value share = s.mul(s.sub(x, s.f32(low)), s.f32(1 / (high - low)));
  share = s.create<arith::MaximumFOp>(share, s.f32(0));
  return s.create<arith::MinimumFOp>(share, s.f32(1));
}

/// Scales `rate`, the frequency of a rotary embedding for the feature pair with
/// the index `pair`. RotaryOp::getRate computes the same.
static Value scaleRate(ScalarBuilder &s, nn::RotaryScalingAttr scaling,
                       Value rate, Value pair) {
  double slower = 1 / scaling.getFactor().getValueAsDouble();
  double low = scaling.getLow().getValueAsDouble();
  double high = scaling.getHigh().getValueAsDouble();
  switch (scaling.getRamp()) {
  case nn::RotaryRamp::All:
    return s.mul(rate, s.f32(slower));
  case nn::RotaryRamp::Pairs: {
    Value falls = s.mul(ramp(s, pair, low, high), s.f32(slower - 1));
    return s.mul(rate, s.add(s.f32(1), falls));
  }
  case nn::RotaryRamp::Rates: {
    Value rises = s.mul(ramp(s, rate, low, high), s.f32(1 - slower));
    return s.mul(rate, s.add(s.f32(slower), rises));
  }
  }
  llvm_unreachable("every ramp is there");
}

/// Rotates a pair of features and returns one feature of the pair. `x` is the
/// value of this feature before the rotation, `partner` that of the other
/// feature.
static Value rotatePair(ScalarBuilder &s, nn::RotaryOp op, Value x,
                        Value partner, Value isFirst, Value pair,
                        Value position) {
  double logTheta = std::log(op.getTheta().convertToDouble());
  Value pair32 = s.create<arith::IndexCastOp>(s.getI32Type(), pair);
  Value pairF = s.create<arith::SIToFPOp>(s.getF32Type(), pair32);
  Value positionF = s.create<arith::SIToFPOp>(s.getF32Type(), position);
  Value frequency = s.exp(s.mul(pairF, s.f32(-2 * logTheta / op.getDims())));
  auto scaling = op.getScalingAttr();
  if (scaling)
    frequency = scaleRate(s, scaling, frequency, pairF);
  Value angle = s.mul(positionF, frequency);
  Value cosine = s.create<math::CosOp>(angle);
  Value sine = s.create<math::SinOp>(angle);
  if (scaling) {
    Value magnitude = s.f32(op.getMagnitude());
    cosine = s.mul(cosine, magnitude);
    sine = s.mul(sine, magnitude);
  }
  if (op.getInverse())
    sine = s.create<arith::NegFOp>(sine);
  // Rotates the pair of features (first, second) by the angle: the new first is
  // first cos - second sin, the new second is second cos + first sin.
  Value minus = s.create<arith::NegFOp>(sine);
  Value signedSine = s.create<arith::SelectOp>(isFirst, minus, sine);
  // The explicit FMA gives the same bits in all kernels. Otherwise the code
  // around it would decide which of the two products is rounded.
  return s.create<math::FmaOp>(x, cosine, s.mul(partner, signedSine));
}

static Values lowerRotary(nn::RotaryOp op, nn::RotaryOp::Adaptor in,
                          LinalgBuilder &b) {
  int64_t headDim = tensorOf(op.getOutput()).getDimSize(2) /
                    static_cast<int64_t>(op.getHeads());
  int64_t dims = op.getDims(), half = dims / 2;
  return {b.map(
      op.getType(), {{in.getInput()}, rows(in.getPositions())},
      [&](ScalarBuilder &s, Args x) -> Value {
        auto less = [&](Value a, int64_t limit) -> Value {
          return s.create<arith::CmpIOp>(arith::CmpIPredicate::ult, a,
                                         s.index(limit));
        };
        Value column = s.position(2);
        Value inHead = s.create<arith::RemUIOp>(column, s.index(headDim));
        Value isRotated = less(inHead, dims), isFirst = less(inHead, half);
        Value step =
            s.create<arith::SelectOp>(isFirst, s.index(half), s.index(-half));
        step = s.create<arith::SelectOp>(isRotated, step, s.index(0));
        Value other = s.create<arith::AddIOp>(column, step);
        Value partner =
            s.extract(in.getInput(), {s.position(0), s.position(1), other});
        Value pair = s.create<arith::SelectOp>(
            isFirst, inHead, s.create<arith::SubIOp>(inHead, s.index(half)));
        Value rotated = rotatePair(s, op, x[0], partner, isFirst, pair, x[1]);
        return s.create<arith::SelectOp>(isRotated, rotated, x[0]);
      })};
}

namespace {
/// For two numbers x and y: `largest` is the larger number, `left` is exp(x -
/// largest) and `right` is exp(y - largest). The subtraction avoids overflow.
struct Exponentials {
  Exponentials(ScalarBuilder &s, Value x, Value y)
      : largest(s.create<arith::MaximumFOp>(x, y)),
        left(s.exp(s.sub(x, largest))), right(s.exp(s.sub(y, largest))) {}
  Value largest, left, right;
};
} // namespace

static Values lowerLogAddExp(nn::LogAddExpOp op, nn::LogAddExpOp::Adaptor in,
                             LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getLhs()}, {in.getRhs()}},
                [&](ScalarBuilder &s, Args x) -> Value {
                  Exponentials e(s, x[0], x[1]);
                  Value sum = s.add(e.left, e.right);
                  return s.add(e.largest, s.create<math::LogOp>(sum));
                })};
}

static Values lowerAttentionJoin(nn::AttentionJoinOp op,
                                 nn::AttentionJoinOp::Adaptor in,
                                 LinalgBuilder &b) {
  int64_t headDim = tensorOf(op.getOutput()).getDimSize(2) /
                    tensorOf(op.getLeftLse()).getDimSize(1);
  return {b.map(op.getType(), {{in.getLeft()}, {in.getRight()}},
                [&](ScalarBuilder &s, Args x) -> Value {
                  Value head =
                      s.create<arith::DivUIOp>(s.position(2), s.index(headDim));
                  Value at[] = {s.position(0), head, s.position(1)};
                  Exponentials e(s, s.extract(in.getLeftLse(), at),
                                 s.extract(in.getRightLse(), at));
                  Value sum = s.add(s.mul(x[0], e.left), s.mul(x[1], e.right));
                  return s.div(sum, s.add(e.left, e.right));
                })};
}

void attachEmbeddingLowerings(MLIRContext *context) {
  attachLinalg<nn::EmbeddingOp, lowerEmbedding>(context);
  attachLinalg<nn::PositionsOp, lowerPositions>(context);
  attachLinalg<nn::ReorderOp, lowerReorder>(context);
  attachLinalg<nn::TakeRowOp, lowerTakeRow>(context);
  attachLinalg<nn::RotaryOp, lowerRotary>(context);
  attachLinalg<nn::AttentionJoinOp, lowerAttentionJoin>(context);
  attachLinalg<nn::LogAddExpOp, lowerLogAddExp>(context);
  attachLinalg<nn::EmbeddingGradOp, lowerEmbeddingGrad, Generator::Scatter>(
      context);
}

} // namespace heddle::codegen
