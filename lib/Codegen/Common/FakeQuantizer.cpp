//===- FakeQuantizer.cpp - Arithmetic of nn.fake_quantize -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/FakeQuantizer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::codegen {

static Value number(ImplicitLocOpBuilder &b, double value) {
  return b.create<arith::ConstantOp>(
      b.getF32FloatAttr(static_cast<float>(value)));
}

/// A vector of `type` with `scalar` in each lane; `scalar` itself if `type` is
/// no vector. The element type is that of `scalar`.
static Value spread(ImplicitLocOpBuilder &b, Value scalar, Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return scalar;
  return b.create<vector::BroadcastOp>(vector.clone(scalar.getType()), scalar);
}

static Value isEqual(ImplicitLocOpBuilder &b, Value x, Value y) {
  return b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x, y);
}
static Value isGreater(ImplicitLocOpBuilder &b, Value x, Value y) {
  return b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y);
}

static Value integer(ImplicitLocOpBuilder &b, int64_t value) {
  return b.create<arith::ConstantIntOp>(value, 32);
}

/// 2^bits. The exponent of an f32 begins at bit 23, and is 127 for 1.
static Value powerOfTwo(ImplicitLocOpBuilder &b, Value bits) {
  Value exponent = b.create<arith::AddIOp>(bits, integer(b, 127));
  Value word = b.create<arith::ShLIOp>(exponent, integer(b, 23));
  return b.create<arith::BitcastOp>(b.getF32Type(), word);
}

FakeQuantizer::FakeQuantizer(ImplicitLocOpBuilder &b, const Group &group,
                             bool isAsymmetric, Type type)
    : type(type) {
  auto all = [&](Value scalar) { return spread(b, scalar, type); };
  Value zeroNumber = number(b, 0), one = number(b, 1);
  Value bits = b.create<arith::FPToSIOp>(b.getI32Type(), group.bits);
  bits = b.create<arith::MaxSIOp>(bits, integer(b, group.mean ? 1 : 3));
  Value values = powerOfTwo(b, bits);
  Value half = b.create<arith::MulFOp>(values, number(b, 0.5));
  Value smallest = b.create<arith::NegFOp>(group.negative);
  Value span;
  if (isAsymmetric) {
    span = b.create<arith::SubFOp>(group.largest, smallest);
  } else {
    Value most = b.create<arith::MaximumFOp>(group.largest, group.negative);
    span = b.create<arith::AddFOp>(most, most);
  }
  Value step = b.create<arith::DivFOp>(span, values);
  Value isFlat = isEqual(b, step, zeroNumber);
  Value safe = b.create<arith::SelectOp>(isFlat, one, step);
  Value offset = zeroNumber;
  if (isAsymmetric) {
    Value quotient = b.create<arith::DivFOp>(smallest, safe);
    Value code = b.create<math::RoundEvenOp>(quotient);
    Value product = b.create<arith::MulFOp>(code, safe);
    offset = b.create<arith::SelectOp>(isFlat, zeroNumber, product);
  }
  none = all(zeroNumber);
  scale = all(step);
  divisor = all(safe);
  zero = all(offset);
  low = all(isAsymmetric ? zeroNumber
                         : b.create<arith::NegFOp>(half).getResult());
  high = all(b.create<arith::SubFOp>(isAsymmetric ? values : half, one));
  ratio = all(group.ratio);
  rest = all(b.create<arith::SubFOp>(one, group.ratio));
  hasScale =
      all(b.create<arith::CmpFOp>(arith::CmpFPredicate::UNE, step, zeroNumber));
  isWhole = all(isEqual(b, group.ratio, one));
  isNone = all(isEqual(b, group.ratio, zeroNumber));
  if (!group.mean)
    return;
  mean = all(group.mean);
  level = all(group.level);
  threshold = all(b.create<arith::MulFOp>(number(b, 0.7), group.mean));
  auto isAbove = [&](int64_t few) -> Value {
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::sgt, bits,
                                   integer(b, few));
  };
  hasThree = all(isAbove(2));
  hasTwo = all(isAbove(1));
}

Value FakeQuantizer::quantize(ImplicitLocOpBuilder &b, Value x) {
  Value quotient = b.create<arith::DivFOp>(
      b.create<arith::SubFOp>(x, zero).getResult(), divisor);
  Value code = b.create<math::RoundEvenOp>(quotient);
  code = b.create<arith::MaximumFOp>(code, low);
  code = b.create<arith::MinimumFOp>(code, high);
  Value product = b.create<arith::MulFOp>(code, scale);
  product = b.create<arith::SelectOp>(hasScale, product, x);
  Value rounded = b.create<arith::AddFOp>(product, zero);
  if (mean) {
    auto withSign = [&](Value size) -> Value {
      return b.create<math::CopySignOp>(size, x);
    };
    Value magnitude = b.create<math::AbsFOp>(x);
    Value ternary = b.create<arith::SelectOp>(
        isGreater(b, magnitude, threshold), withSign(level), none);
    Value binary =
        b.create<arith::SelectOp>(isEqual(b, x, none), none, withSign(mean));
    Value few = b.create<arith::SelectOp>(hasTwo, ternary, binary);
    rounded = b.create<arith::SelectOp>(hasThree, rounded, few);
  }
  Value kept = b.create<arith::MulFOp>(ratio, x);
  kept = b.create<arith::SelectOp>(isNone, none, kept);
  Value other = b.create<arith::MulFOp>(rest, rounded);
  other = b.create<arith::SelectOp>(isWhole, none, other);
  return b.create<arith::AddFOp>(kept, other);
}

} // namespace heddle::codegen
