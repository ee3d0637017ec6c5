//===- SignLowerings.cpp - Averages in one bit for each element -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers the operations of NNSignOps.td to plain loops.
//
//===----------------------------------------------------------------------===//

#include "LinalgModel.h"
#include "dialects/NN/SignLayout.h"

using namespace mlir;

namespace heddle::codegen {

using nn::SignLayout;
using Args = ValueRange;

namespace {

/// Computes, in 64 bits, where an element of a row is.
class SignPlaces {
public:
  /// The row is the flat tensor of a bucket, or with `isChunked` one chunk of
  /// each tensor.
  SignPlaces(ScalarBuilder &s, const SignLayout &layout, bool isChunked)
      : s(s), layout(layout), isChunked(isChunked) {}

  struct Element {
    Value tensor;
    Value inTensor; ///< The index of the element in the tensor or the chunk.
    Value chunk;    ///< The number of the chunk of the tensor.
    Value bit;      ///< The index of the element in its chunks.
    Value exists;   ///< Whether the element is no padding.
  };

  /// The place of element `element` of a row. If the row has one chunk of each
  /// tensor, `chunk` is the number of this chunk.
  Element of(Value element, Value chunk) {
    Element place;
    place.tensor = s.i64(0);
    ArrayRef<SignLayout::Tensor> tensors = layout.tensors;
    for (const SignLayout::Tensor &next : tensors.drop_front())
      place.tensor = add(place.tensor,
                         wide(compare(arith::CmpIPredicate::sge, element,
                                      isChunked ? next.offset : next.begin)));
    Value length = pick(place.tensor, &SignLayout::Tensor::chunk);
    Value offset = pick(place.tensor, &SignLayout::Tensor::offset);
    Value begin =
        isChunked ? offset : pick(place.tensor, &SignLayout::Tensor::begin);
    place.inTensor = sub(element, begin);
    place.chunk =
        isChunked
            ? chunk
            : s.create<arith::DivSIOp>(place.inTensor, length).getResult();
    Value whole =
        isChunked ? add(place.inTensor, mul(chunk, length)) : place.inTensor;
    Value inChunk = isChunked ? place.inTensor
                              : sub(place.inTensor, mul(place.chunk, length));
    place.bit = add(offset, inChunk);
    place.exists =
        s.create<arith::CmpIOp>(arith::CmpIPredicate::slt, whole,
                                pick(place.tensor, &SignLayout::Tensor::count));
    return place;
  }

  Value add(Value a, Value b) { return s.create<arith::AddIOp>(a, b); }
  Value sub(Value a, Value b) { return s.create<arith::SubIOp>(a, b); }
  Value mul(Value a, Value b) { return s.create<arith::MulIOp>(a, b); }
  Value div(Value a, int64_t b) {
    return s.create<arith::DivSIOp>(a, s.i64(b));
  }
  Value rem(Value a, int64_t b) {
    return s.create<arith::RemSIOp>(a, s.i64(b));
  }
  Value index(Value x) {
    return s.create<arith::IndexCastOp>(s.getIndexType(), x);
  }
  Value position(int64_t dim) { return fromIndex(s.position(dim)); }
  Value fromIndex(Value x) {
    return s.create<arith::IndexCastOp>(s.getI64Type(), x);
  }
  Value select(Value condition, Value a, Value b) {
    return s.create<arith::SelectOp>(condition, a, b);
  }
  /// The first row of the rank, plus `row`.
  Value rowOf(Value first, Value row) {
    return first ? add(fromIndex(first), row) : row;
  }
  /// Whether the sign bit `bit` of chunk `row` of `words` [.., .., W] is set.
  Value bitOf(Value words, Value outer, Value inner, Value bit) {
    Value word = s.create<tensor::ExtractOp>(
        words, ValueRange{index(outer), index(inner),
                          index(div(bit, SignLayout::bitsPerWord))});
    Value at = s.create<arith::TruncIOp>(s.getI32Type(),
                                         rem(bit, SignLayout::bitsPerWord));
    Value moved = s.create<arith::ShRUIOp>(word, at);
    return s.create<arith::TruncIOp>(s.getI1Type(), moved);
  }
  Value negated(Value x) { return s.create<arith::NegFOp>(x); }
  /// The elements of a tensor that are no padding, as f64; with `isChunked`
  /// those of its chunk `chunk`.
  Value countOf(Value tensor, Value chunk) {
    Value count = pick(tensor, &SignLayout::Tensor::count);
    if (isChunked) {
      Value length = pick(tensor, &SignLayout::Tensor::chunk);
      count = sub(count, mul(chunk, length));
      count = s.create<arith::MaxSIOp>(count, s.i64(0));
      count = s.create<arith::MinSIOp>(count, length);
    }
    return s.create<arith::SIToFPOp>(s.getF64Type(), count);
  }

private:
  Value compare(arith::CmpIPredicate which, Value a, int64_t b) {
    return s.create<arith::CmpIOp>(which, a, s.i64(b));
  }
  Value wide(Value bit) {
    return s.create<arith::ExtUIOp>(s.getI64Type(), bit);
  }
  Value pick(Value tensor, int64_t SignLayout::Tensor::*member) {
    Value value = s.i64(layout.tensors[0].*member);
    for (auto [number, candidate] : llvm::enumerate(layout.tensors))
      if (number > 0)
        value = select(compare(arith::CmpIPredicate::sge, tensor,
                               static_cast<int64_t>(number)),
                       s.i64(candidate.*member), value);
    return value;
  }

  ScalarBuilder &s;
  const SignLayout &layout;
  bool isChunked;
};

} // namespace

static int64_t dim(Value value, int64_t number) {
  return cast<RankedTensorType>(value.getType()).getDimSize(number);
}

/// Whether a condition holds: a number that is not 0.
static Value isTrue(ScalarBuilder &s, Value condition) {
  return s.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, condition,
                                 s.f32(0));
}

static Values lowerSignScales(nn::SignScalesOp op, nn::SignScalesOp::Adaptor in,
                              LinalgBuilder &b) {
  SignLayout layout = nn::signLayoutOf(op);
  int64_t rows = dim(op.getScales(), 0), tensors = dim(op.getScales(), 1);
  int64_t row = dim(op.getInput(), 0) / rows;
  int64_t shape[] = {rows, tensors, row};
  Type f64 = b.builder.getF64Type();
  /// Sums `term` of the elements of each tensor in each row.
  auto sum = [&](function_ref<Value(ScalarBuilder &, Value)> term) {
    return b.reduceTail(
        f64, shape, 2, {b.space(shape)}, LinalgBuilder::Combine::Add,
        [&](ScalarBuilder &s, Args) -> Value {
          SignPlaces places(s, layout, op.getChunked());
          Value r = places.position(0), element = places.position(2);
          auto place = places.of(element, places.rowOf(in.getFirst(), r));
          Value isMine = s.create<arith::CmpIOp>(
              arith::CmpIPredicate::eq, place.tensor, places.position(1));
          Value at =
              places.index(places.add(places.mul(r, s.i64(row)), element));
          Value zero = s.create<arith::ConstantOp>(s.getF64FloatAttr(0));
          return places.select(s.create<arith::AndIOp>(isMine, place.exists),
                               term(s, at), zero);
        });
  };
  Value squares = sum([&](ScalarBuilder &s, Value at) -> Value {
    Value x = s.create<arith::ExtFOp>(f64, s.extract(in.getInput(), at));
    return s.mul(x, x);
  });
  Value counts = sum([&](ScalarBuilder &s, Value) -> Value {
    return s.create<arith::ConstantOp>(s.getF64FloatAttr(1));
  });
  return {b.map(op.getType(), {{squares}, {counts}, scalar(in.getCondition())},
                [](ScalarBuilder &s, Args x) -> Value {
                  Value one = s.create<arith::ConstantOp>(s.getF64FloatAttr(1));
                  Value mean =
                      s.div(x[0], s.create<arith::MaximumFOp>(x[1], one));
                  Value scale = s.create<arith::TruncFOp>(
                      s.getF32Type(), s.create<math::SqrtOp>(mean).getResult());
                  return s.create<arith::SelectOp>(isTrue(s, x[2]), scale,
                                                   s.f32(0));
                })};
}

static Values lowerJoinScales(nn::JoinScalesOp op, nn::JoinScalesOp::Adaptor in,
                              LinalgBuilder &b) {
  SignLayout layout = nn::signLayoutOf(op);
  bool isChunked = op.getChunked();
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  int64_t shape[] = {dim(op.getScales(), 0), 1, tensors};
  Type f64 = b.builder.getF64Type();
  auto sum = [&](Type type, bool isOfSquares) {
    Value total = b.reduceTail(
        f64, shape, 2, {b.space(shape), along(in.getScales(), {0, 2})},
        LinalgBuilder::Combine::Add, [&](ScalarBuilder &s, Args x) -> Value {
          SignPlaces places(s, layout, isChunked);
          Value row = places.rowOf(in.getFirst(), places.position(0));
          Value elements = places.countOf(places.position(2), row);
          Value scale = s.create<arith::ExtFOp>(f64, x[1]);
          return isOfSquares ? s.mul(s.mul(scale, scale), elements) : elements;
        });
    return b.map(type, {{total}}, [](ScalarBuilder &s, Args x) -> Value {
      return s.create<arith::TruncFOp>(s.getF32Type(), x[0]);
    });
  };
  return {sum(op.getSquares().getType(), true),
          sum(op.getElements().getType(), false)};
}

/// The scale of a tensor in row `row` of `scales`, which may have one for all
/// tensors.
static Value scaleIn(ScalarBuilder &s, Value scales, Value row, Value tensor) {
  return s.extract(scales, {row, dim(scales, 1) == 1 ? s.index(0) : tensor});
}

static Values lowerPackSigns(nn::PackSignsOp op, nn::PackSignsOp::Adaptor in,
                             LinalgBuilder &b) {
  SignLayout layout = nn::signLayoutOf(op);
  bool isChunked = op.getChunked();
  int64_t rows = dim(op.getWords(), 0), row = dim(op.getInput(), 0) / rows;
  auto isPositive = [&](ScalarBuilder &s, Value x) -> Value {
    return s.create<arith::CmpFOp>(arith::CmpFPredicate::OGE, x, s.f32(0));
  };
  Value error = b.map(
      op.getError().getType(), {{in.getInput()}},
      [&](ScalarBuilder &s, Args x) -> Value {
        SignPlaces places(s, layout, isChunked);
        Value at = places.position(0), r = places.div(at, row);
        auto place =
            places.of(places.rem(at, row), places.rowOf(in.getFirst(), r));
        Value scale = scaleIn(s, in.getScales(), places.index(r),
                              places.index(place.tensor));
        Value sent =
            places.select(isPositive(s, x[0]), scale, places.negated(scale));
        return places.select(place.exists, s.sub(x[0], sent), s.f32(0));
      });
  // Words are numbers of a reduction over the elements of a row, each of which
  // adds its bit.
  int64_t shape[] = {rows, dim(op.getWords(), 1), layout.words(),
                     SignLayout::bitsPerWord};
  Value words = b.reduceTail(
      b.builder.getF64Type(), shape, 3, {b.space(shape)},
      LinalgBuilder::Combine::Add, [&](ScalarBuilder &s, Args) -> Value {
        SignPlaces places(s, layout, /*isChunked=*/true);
        Value r = places.position(0);
        Value chunk =
            isChunked ? places.rowOf(in.getFirst(), r) : places.position(1);
        Value bit = places.add(
            places.mul(places.position(2), s.i64(SignLayout::bitsPerWord)),
            places.position(3));
        auto place = places.of(bit, chunk);
        Value element = bit;
        if (!isChunked) {
          Value begin = s.i64(0), length = s.i64(0);
          for (auto [number, tensor] : llvm::enumerate(layout.tensors)) {
            Value isBehind =
                s.create<arith::CmpIOp>(arith::CmpIPredicate::sge, place.tensor,
                                        s.i64(static_cast<int64_t>(number)));
            begin = places.select(isBehind, s.i64(tensor.begin), begin);
            length = places.select(isBehind, s.i64(tensor.chunk), length);
          }
          element = places.add(places.add(begin, places.mul(chunk, length)),
                               place.inTensor);
        }
        element = places.add(element, places.mul(r, s.i64(row)));
        element = places.select(place.exists, element, s.i64(0));
        Value x = s.extract(in.getInput(), places.index(element));
        Value isSet = s.create<arith::AndIOp>(isPositive(s, x), place.exists);
        Value power = s.create<arith::ShLIOp>(s.i64(1), places.position(3));
        Value number = s.create<arith::SIToFPOp>(s.getF64Type(), power);
        Value zero = s.create<arith::ConstantOp>(s.getF64FloatAttr(0));
        return places.select(isSet, number, zero);
      });
  Value packed =
      b.map(op.getWords().getType(), {{words}},
            [](ScalarBuilder &s, Args x) -> Value {
              Value number = s.create<arith::FPToUIOp>(s.getI64Type(), x[0]);
              return s.create<arith::TruncIOp>(s.getI32Type(), number);
            });
  return {packed, error};
}

static Values lowerMeanSigns(nn::MeanSignsOp op, nn::MeanSignsOp::Adaptor in,
                             LinalgBuilder &b) {
  SignLayout layout = nn::signLayoutOf(op);
  return {b.map(
      op.getType(), {{in.getError()}}, [&](ScalarBuilder &s, Args x) -> Value {
        SignPlaces places(s, layout, /*isChunked=*/true);
        Value at = places.position(0), r = places.div(at, layout.elements);
        auto place = places.of(places.rem(at, layout.elements),
                               places.rowOf(in.getFirst(), r));
        Value sum = s.f32(0);
        for (int64_t sender = 0; sender < layout.parts; ++sender) {
          Value scale = scaleIn(s, in.getScales(), s.index(sender),
                                places.index(place.tensor));
          Value bit = places.bitOf(in.getWords(), s.i64(sender), r, place.bit);
          sum = s.add(sum, places.select(bit, scale, places.negated(scale)));
        }
        Value share = s.f32(1.0F / static_cast<float>(layout.parts));
        return places.select(place.exists, s.add(x[0], s.mul(sum, share)),
                             s.f32(0));
      })};
}

static Values lowerUnpackSigns(nn::UnpackSignsOp op,
                               nn::UnpackSignsOp::Adaptor in,
                               LinalgBuilder &b) {
  SignLayout layout = nn::signLayoutOf(op);
  return {
      b.map(op.getType(), {{in.getBefore()}, scalar(in.getCondition())},
            [&](ScalarBuilder &s, Args x) -> Value {
              SignPlaces places(s, layout, /*isChunked=*/false);
              auto place = places.of(places.position(0), Value());
              // Padding after a tensor may be in no chunk.
              Value chunk = places.select(place.exists, place.chunk, s.i64(0));
              Value at = places.select(place.exists, place.bit, s.i64(0));
              Value tensor = places.index(place.tensor);
              Value scale =
                  scaleIn(s, in.getScales(), places.index(chunk), tensor);
              if (in.getFactors())
                scale = s.mul(scale, s.extract(in.getFactors(), tensor));
              Value bit = places.bitOf(in.getWords(), chunk, s.i64(0), at);
              Value mean = places.select(
                  place.exists,
                  places.select(bit, scale, places.negated(scale)), s.f32(0));
              return places.select(isTrue(s, x[1]), mean, x[0]);
            })};
}

void attachSignLowerings(MLIRContext *context) {
  attachLinalg<nn::SignScalesOp, lowerSignScales, Generator::Signs>(context);
  attachLinalg<nn::JoinScalesOp, lowerJoinScales, Generator::Signs>(context);
  attachLinalg<nn::PackSignsOp, lowerPackSigns, Generator::Signs>(context);
  attachLinalg<nn::MeanSignsOp, lowerMeanSigns, Generator::Signs>(context);
  attachLinalg<nn::UnpackSignsOp, lowerUnpackSigns, Generator::Signs>(context);
}

} // namespace heddle::codegen
