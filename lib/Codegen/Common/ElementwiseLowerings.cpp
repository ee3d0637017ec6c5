//===- ElementwiseLowerings.cpp - Maps, casts, dropout as linalg ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include "mlir/IR/IRMapping.h"
#include <cmath>

using namespace mlir;

namespace heddle::codegen {

//===----------------------------------------------------------------------===//
// Arithmetic and scalar functions
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

Values runScalars(ScalarBuilder &s, Block &body, ValueRange arguments) {
  IRMapping values;
  values.map(body.getArguments(), arguments);
  for (Operation &inner : body.without_terminator()) {
    Value result = inner.getResult(0);
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      auto value = cast<FloatAttr>(constant.getValue());
      values.map(result, s.f32(value.getValueAsDouble()));
    } else if (auto logistic = dyn_cast<nn::LogisticOp>(inner)) {
      values.map(result, s.sigmoid(values.lookup(logistic.getX())));
    } else {
      Value copy = s.clone(inner, values)->getResult(0);
      if (result.getType().isF64())
        copy.setType(s.getF32Type());
    }
  }
  return llvm::map_to_vector(body.getTerminator()->getOperands(),
                             [&](Value value) { return values.lookup(value); });
}

static Values lowerMap(nn::MapOp op, nn::MapOp::Adaptor in, LinalgBuilder &b) {
  int64_t rank = tensorOf(op.getOutputs()[0]).getRank();
  SmallVector<Input> inputs;
  for (Value input : in.getInputs())
    inputs.push_back(tensorOf(input).getRank() == rank ? Input{input}
                                                       : scalar(input));
  return b.map(op.getResultTypes(), inputs,
               [&](ScalarBuilder &s, Args x) -> Values {
                 return runScalars(s, op.getBody().front(), x);
               });
}

static Values lowerFill(nn::FillOp op, nn::FillOp::Adaptor, LinalgBuilder &b) {
  double value = op.getValue().convertToDouble();
  return {b.map(op.getType(), {},
                [value](ScalarBuilder &s, Args) { return s.f32(value); })};
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

/// The four words of a block of Philox4x32-10 (Salmon et al., SC11). Each
/// 32-bit word is the lower half of a 64-bit value; the upper half is
/// arbitrary. A round multiplies two 32-bit numbers to a 64-bit product: the
/// multiplication masks the upper half of its input, and the product serves as
/// the next word.
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

/// The index (i64) of this iteration's element in the tensor of the global
/// batch, as nn.dropout defines this index. 32 bits may be too few for it.
static Value globalElement(ScalarBuilder &s, nn::DropoutOp op,
                           nn::DropoutOp::Adaptor in) {
  auto type = tensorOf(op.getOutput());
  auto wide = [&](Value index) -> Value {
    return s.create<arith::IndexCastOp>(s.getI64Type(), index);
  };
  Value element = wide(in.getMicroBatch()), within;
  int64_t numWithin = 1;
  auto step = [&](int64_t size, Value position) {
    element = s.create<arith::MulIOp>(element, s.i64(size));
    element = s.create<arith::AddIOp>(element, wide(position));
  };
  auto stepWithin = [&] {
    if (within)
      step(numWithin, within);
    within = {};
    numWithin = 1;
  };
  // If ranks split a dimension, the global index counts shards first and then
  // positions within a shard. `part` is the number of split dimensions that the
  // loop has passed.
  size_t part = 0;
  int64_t left = type.getNumElements();
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    for (; part < in.getPart().size() && left == (*op.getInner())[part];
         ++part) {
      stepWithin();
      step((*op.getParts())[part], in.getPart()[part]);
    }
    Value position = s.position(dim);
    if (within) {
      within = s.create<arith::MulIOp>(within, s.index(size));
      position = s.create<arith::AddIOp>(within, position);
    }
    within = position;
    numWithin *= size;
    left /= size;
  }
  stepWithin();
  return element;
}

/// The random 32-bit word with which dropout decides on the element with the
/// index `element` in the tensor of the global batch.
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

Value keepsElement(ScalarBuilder &s, Value rng, Value element, Value layer,
                   uint32_t site, double p) {
  auto threshold = static_cast<uint32_t>(std::floor(std::ldexp(p, 32)));
  return s.create<arith::CmpIOp>(arith::CmpIPredicate::uge,
                                 randomWord(s, rng, element, layer, site),
                                 s.i32(threshold));
}

static Values lowerDropout(nn::DropoutOp op, nn::DropoutOp::Adaptor in,
                           LinalgBuilder &b) {
  double p = op.getP().convertToDouble();
  uint32_t site = op.getSite();
  return {b.map(
      op.getType(), {{in.getInput()}}, [&](ScalarBuilder &s, Args x) -> Value {
        Value element = globalElement(s, op, in);
        Value keep =
            keepsElement(s, in.getRng(), element, in.getLayer(), site, p);
        Value scaled = s.mul(x[0], s.f32(1 / (1 - p)));
        return s.create<arith::SelectOp>(keep, scaled, s.f32(0));
      })};
}

static Values lowerReshape(nn::ReshapeOp op, nn::ReshapeOp::Adaptor in,
                           LinalgBuilder &b) {
  auto split = tensorOf(op.splits() ? op.getOutput() : op.getInput());
  int64_t leading = split.getRank() - 2, width = split.getShape().back();
  return {b.map(op.getType(), {}, [&](ScalarBuilder &s, Args) -> Value {
    Values at;
    for (int64_t d = 0; d < leading; ++d)
      at.push_back(s.position(d));
    Value last = s.position(leading);
    if (op.splits()) {
      last = s.create<arith::MulIOp>(last, s.index(width));
      at.push_back(s.create<arith::AddIOp>(last, s.position(leading + 1)));
    } else {
      at.push_back(s.create<arith::DivUIOp>(last, s.index(width)));
      at.push_back(s.create<arith::RemUIOp>(last, s.index(width)));
    }
    return s.extract(in.getInput(), at);
  })};
}

/// The indices of this iteration, with the index in dimension `dim` replaced by
/// `position`.
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
      // An index before `first` becomes negative, which is large as an unsigned
      // number, so one comparison checks both bounds.
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
  attachLinalg<nn::MapOp, lowerMap>(context);
  attachLinalg<nn::FillOp, lowerFill>(context);
  attachLinalg<nn::DropoutOp, lowerDropout>(context);
  attachLinalg<nn::ReshapeOp, lowerReshape>(context);
  attachLinalg<nn::SliceOp, lowerSlice>(context);
  attachLinalg<nn::ConcatOp, lowerConcat>(context);
}

} // namespace heddle::codegen
