//===- ElementwiseLowerings.cpp - Activations, casts, dropout -------------===//
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

//===----------------------------------------------------------------------===//
// Arithmetic and activations
//===----------------------------------------------------------------------===//

using Args = ValueRange;

static Values lowerAdd(nn::AddOp op, nn::AddOp::Adaptor in, LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getLhs()}, {in.getRhs()}},
                [](ScalarBuilder &s, Args x) { return s.add(x[0], x[1]); })};
}

static Values lowerMul(nn::MulOp op, nn::MulOp::Adaptor in, LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getLhs()}, {in.getRhs()}},
                [](ScalarBuilder &s, Args x) { return s.mul(x[0], x[1]); })};
}

static Values lowerAddBias(nn::AddBiasOp op, nn::AddBiasOp::Adaptor in,
                           LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getInput()}, columns(in.getBias())},
                [](ScalarBuilder &s, Args x) { return s.add(x[0], x[1]); })};
}

static Values lowerCast(nn::CastOp op, nn::CastOp::Adaptor in,
                        LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getInput()}},
                [](ScalarBuilder &, Args x) { return x[0]; })};
}

static constexpr double geluCubic = 0.044715;
static const double sqrt2OverPi = std::sqrt(2.0 / M_PI);

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
static Value geluTanh(ScalarBuilder &s, Value x) {
  Value square = s.mul(x, x);
  Value inner =
      s.add(s.f32(sqrt2OverPi), s.mul(s.f32(sqrt2OverPi * geluCubic), square));
  return s.create<math::TanhOp>(s.mul(x, inner));
}

/// erf(x / sqrt(2)).
static Value geluErf(ScalarBuilder &s, Value x) {
  return s.create<math::ErfOp>(s.mul(x, s.f32(M_SQRT1_2)));
}

static Values lowerGelu(nn::GeluOp op, nn::GeluOp::Adaptor in,
                        LinalgBuilder &b) {
  bool tanh = op.getTanh();
  return {
      b.map(op.getType(), {{in.getInput()}}, [tanh](ScalarBuilder &s, Args x) {
        Value t = tanh ? geluTanh(s, x[0]) : geluErf(s, x[0]);
        Value half = s.mul(s.f32(0.5), x[0]);
        return s.add(half, s.mul(half, t));
      })};
}

/// 0.5 (1 + t) + 0.5 x (1 - t^2) u'(x), t = tanh(u(x)).
static Value geluTanhDerivative(ScalarBuilder &s, Value x) {
  Value t = geluTanh(s, x);
  Value slope = s.add(s.f32(sqrt2OverPi),
                      s.mul(s.f32(3 * sqrt2OverPi * geluCubic), s.mul(x, x)));
  Value half = s.f32(0.5);
  Value left = s.add(half, s.mul(half, t));
  Value sech2 = s.sub(s.f32(1), s.mul(t, t));
  return s.add(left, s.mul(s.mul(half, x), s.mul(sech2, slope)));
}

/// 0.5 (1 + erf(x / sqrt(2))) + x exp(-x^2 / 2) / sqrt(2 pi).
static Value geluErfDerivative(ScalarBuilder &s, Value x) {
  Value half = s.f32(0.5);
  Value left = s.add(half, s.mul(half, geluErf(s, x)));
  Value density = s.exp(s.mul(s.f32(-0.5), s.mul(x, x)));
  return s.add(left, s.mul(s.mul(x, s.f32(1 / std::sqrt(2 * M_PI))), density));
}

static Values lowerGeluGrad(nn::GeluGradOp op, nn::GeluGradOp::Adaptor in,
                            LinalgBuilder &b) {
  bool tanh = op.getTanh();
  return {b.map(op.getType(), {{in.getGrad()}, {in.getInput()}},
                [tanh](ScalarBuilder &s, Args x) {
                  Value d = tanh ? geluTanhDerivative(s, x[1])
                                 : geluErfDerivative(s, x[1]);
                  return s.mul(x[0], d);
                })};
}

static Values lowerSilu(nn::SiluOp op, nn::SiluOp::Adaptor in,
                        LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getInput()}}, [](ScalarBuilder &s, Args x) {
    return s.mul(x[0], s.sigmoid(x[0]));
  })};
}

static Values lowerSiluGrad(nn::SiluGradOp op, nn::SiluGradOp::Adaptor in,
                            LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getGrad()}, {in.getInput()}},
                [](ScalarBuilder &s, Args x) {
                  Value y = s.sigmoid(x[1]);
                  Value rest = s.mul(x[1], s.sub(s.f32(1), y));
                  return s.mul(x[0], s.mul(y, s.add(s.f32(1), rest)));
                })};
}

static Values lowerRelu(nn::ReluOp op, nn::ReluOp::Adaptor in,
                        LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getInput()}},
                [](ScalarBuilder &s, Args x) -> Value {
                  return s.create<arith::MaximumFOp>(x[0], s.f32(0));
                })};
}

static Values lowerReluGrad(nn::ReluGradOp op, nn::ReluGradOp::Adaptor in,
                            LinalgBuilder &b) {
  return {b.map(op.getType(), {{in.getGrad()}, {in.getInput()}},
                [](ScalarBuilder &s, Args x) -> Value {
                  Value positive = s.create<arith::CmpFOp>(
                      arith::CmpFPredicate::OGT, x[1], s.f32(0));
                  return s.create<arith::SelectOp>(positive, x[0], s.f32(0));
                })};
}

static Values lowerFill(nn::FillOp op, nn::FillOp::Adaptor, LinalgBuilder &b) {
  double value = op.getValue().convertToDouble();
  return {b.map(op.getType(), {},
                [value](ScalarBuilder &s, Args) { return s.f32(value); })};
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

/// The four words of Philox4x32-10 (Salmon et al., SC11). A 32-bit word sits in
/// a 64-bit value whose upper half is arbitrary: so products take and give it.
static Values philox(ScalarBuilder &s, Values counter, Value key0, Value key1) {
  constexpr int64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr int64_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  constexpr int rounds = 10;
  auto multiply = [&](Value word, int64_t factor) -> Value {
    Value low = s.create<arith::AndIOp>(word, s.i64(0xFFFFFFFF));
    return s.create<arith::MulIOp>(low, s.i64(factor));
  };
  auto mix = [&](Value product, Value word, Value key) -> Value {
    Value high = s.create<arith::ShRUIOp>(product, s.i64(32));
    Value mixed = s.create<arith::XOrIOp>(word, key);
    return s.create<arith::XOrIOp>(high, mixed);
  };
  for (int round = 0; round < rounds; ++round) {
    Value product0 = multiply(counter[0], multiplier0);
    Value product1 = multiply(counter[2], multiplier1);
    counter = {mix(product1, counter[1], key0), product1,
               mix(product0, counter[3], key1), product0};
    key0 = s.create<arith::AddIOp>(key0, s.i64(weyl0));
    key1 = s.create<arith::AddIOp>(key1, s.i64(weyl1));
  }
  return counter;
}

/// The index, in the whole tensor of the global batch, of this iteration.
static Value globalElement(ScalarBuilder &s, nn::DropoutOp op,
                           nn::DropoutOp::Adaptor in) {
  auto type = tensorOf(op.getOutput());
  Value element = in.getMicroBatch();
  auto step = [&](int64_t size, Value position) {
    element = s.create<arith::MulIOp>(element, s.index(size));
    element = s.create<arith::AddIOp>(element, position);
  };
  // A part is the number of a piece, before the dimension that is split.
  size_t part = 0;
  int64_t left = type.getNumElements();
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    for (; part < in.getPart().size() && left == (*op.getInner())[part]; ++part)
      step((*op.getParts())[part], in.getPart()[part]);
    step(size, s.position(dim));
    left /= size;
  }
  return s.create<arith::IndexCastOp>(s.getI64Type(), element);
}

/// The random word of element `element`.
static Value randomWord(ScalarBuilder &s, Value rng, Value element, Value layer,
                        uint32_t site) {
  auto wide = [&](Value value) -> Value {
    return s.create<arith::ExtUIOp>(s.getI64Type(), value);
  };
  auto word = [&](int64_t i) { return wide(s.extract(rng, {s.index(i)})); };
  constexpr int64_t golden = 0x9E3779B9;
  Value layer64 = s.create<arith::IndexCastOp>(s.getI64Type(), layer);
  Value stream = s.create<arith::AddIOp>(
      s.i64(site), s.create<arith::MulIOp>(layer64, s.i64(golden)));
  Value block = s.create<arith::ShRUIOp>(element, s.i64(2));
  Value high = s.create<arith::ShRUIOp>(block, s.i64(32));
  Values words = philox(s, {block, high, word(2), stream}, word(0), word(1));
  Value lane = s.create<arith::AndIOp>(element, s.i64(3));
  Value result = words[3];
  for (int64_t i : {2, 1, 0}) {
    Value here =
        s.create<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, s.i64(i));
    result = s.create<arith::SelectOp>(here, words[i], result);
  }
  return s.create<arith::TruncIOp>(s.getI32Type(), result);
}

static Values lowerDropout(nn::DropoutOp op, nn::DropoutOp::Adaptor in,
                           LinalgBuilder &b) {
  double p = op.getP().convertToDouble();
  auto threshold = static_cast<uint32_t>(std::floor(std::ldexp(p, 32)));
  uint32_t site = op.getSite();
  return {b.map(
      op.getType(), {{in.getInput()}}, [&](ScalarBuilder &s, Args x) -> Value {
        Value element = globalElement(s, op, in);
        Value word = randomWord(s, in.getRng(), element, in.getLayer(), site);
        Value keep = s.create<arith::CmpIOp>(arith::CmpIPredicate::uge, word,
                                             s.i32(threshold));
        Value scaled = s.mul(x[0], s.f32(1 / (1 - p)));
        return s.create<arith::SelectOp>(keep, scaled, s.f32(0));
      })};
}

/// The place of this iteration, moved along dimension `dim`.
static Values placeAt(ScalarBuilder &s, int64_t rank, int64_t dim,
                      Value position) {
  Values at;
  for (int64_t d = 0; d < rank; ++d)
    at.push_back(d == dim ? position : s.position(d));
  return at;
}

static Values lowerSlice(nn::SliceOp op, nn::SliceOp::Adaptor in,
                         LinalgBuilder &b) {
  auto type = tensorOf(op.getInput());
  int64_t dim = op.getDim(), offset = op.getOffset();
  return {b.map(op.getType(), {}, [&](ScalarBuilder &s, Args) -> Value {
    Value position = s.create<arith::AddIOp>(s.position(dim), s.index(offset));
    if (in.getFirst()) {
      position = s.create<arith::AddIOp>(position, in.getFirst());
      position =
          s.create<arith::MinUIOp>(position, s.index(type.getDimSize(dim) - 1));
    }
    return s.extract(in.getInput(), placeAt(s, type.getRank(), dim, position));
  })};
}

static Values lowerConcat(nn::ConcatOp op, nn::ConcatOp::Adaptor in,
                          LinalgBuilder &b) {
  int64_t dim = op.getDim(), rank = tensorOf(op.getOutput()).getRank();
  return {b.map(op.getType(), {}, [&](ScalarBuilder &s, Args) -> Value {
    Value result;
    int64_t first = 0;
    for (Value input : in.getInputs()) {
      int64_t size = tensorOf(input).getDimSize(dim);
      // Before the first element becomes a large unsigned number.
      Value here = s.create<arith::SubIOp>(s.position(dim), s.index(first));
      Value isHere = s.create<arith::CmpIOp>(arith::CmpIPredicate::ult, here,
                                             s.index(size));
      Value at = s.create<arith::SelectOp>(isHere, here, s.index(0));
      Value element = s.extract(input, placeAt(s, rank, dim, at));
      result =
          result
              ? s.create<arith::SelectOp>(isHere, element, result).getResult()
              : element;
      first += size;
    }
    return result;
  })};
}

void attachElementwiseLowerings(MLIRContext *context) {
  attachLinalg<nn::AddOp, lowerAdd>(context);
  attachLinalg<nn::MulOp, lowerMul>(context);
  attachLinalg<nn::AddBiasOp, lowerAddBias>(context);
  attachLinalg<nn::CastOp, lowerCast>(context);
  attachLinalg<nn::GeluOp, lowerGelu>(context);
  attachLinalg<nn::GeluGradOp, lowerGeluGrad>(context);
  attachLinalg<nn::SiluOp, lowerSilu>(context);
  attachLinalg<nn::SiluGradOp, lowerSiluGrad>(context);
  attachLinalg<nn::ReluOp, lowerRelu>(context);
  attachLinalg<nn::ReluGradOp, lowerReluGrad>(context);
  attachLinalg<nn::FillOp, lowerFill>(context);
  attachLinalg<nn::DropoutOp, lowerDropout>(context);
  attachLinalg<nn::SliceOp, lowerSlice>(context);
  attachLinalg<nn::ConcatOp, lowerConcat>(context);
}

} // namespace heddle::codegen
