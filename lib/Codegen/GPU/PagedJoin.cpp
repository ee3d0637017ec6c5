//===- PagedJoin.cpp - Attention over a part of the keys ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagedJoin.h"
#include "heddle/Codegen/Common/Attention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;

namespace heddle::gpu {

PagedJoin::Values PagedJoin::none(int64_t features) {
  auto number = [&](float value) {
    return c.create<arith::ConstantOp>(c.builder.getF32FloatAttr(value));
  };
  Values part = {number(std::numeric_limits<float>::lowest()), number(0)};
  part.append(features, number(0));
  return part;
}

PagedJoin::Values PagedJoin::join(ValueRange left, ValueRange right) {
  Value largest = c.create<arith::MaxNumFOp>(left[0], right[0]);
  auto weightOf = [&](Value own) {
    return codegen::exp2(c.builder, c.loc,
                         c.create<arith::SubFOp>(own, largest));
  };
  Value leftWeight = weightOf(left[0]), rightWeight = weightOf(right[0]);
  Values joined = {largest};
  // The explicit FMA fixes the rounding, whatever code surrounds it.
  for (auto [x, y] : llvm::zip(left.drop_front(), right.drop_front()))
    joined.push_back(c.create<math::FmaOp>(
        x, leftWeight, c.create<arith::MulFOp>(y, rightWeight)));
  return joined;
}

Value PagedJoin::isAny(Value weights) {
  Value zero = c.create<arith::ConstantOp>(c.builder.getF32FloatAttr(0));
  return c.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, weights, zero);
}

Value PagedJoin::outputOf(Value sum, Value weights, Value isThere) {
  Value one = c.create<arith::ConstantOp>(c.builder.getF32FloatAttr(1));
  Value inverse = c.create<arith::DivFOp>(one, weights);
  return c.orZero(isThere, c.create<arith::MulFOp>(sum, inverse));
}

} // namespace heddle::gpu
