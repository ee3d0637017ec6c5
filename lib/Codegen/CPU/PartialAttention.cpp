//===- PartialAttention.cpp - Attention over a part of the keys -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartialAttention.h"
#include "CacheEmitter.h"
#include "heddle/Codegen/Common/Attention.h"
#include "heddle/Codegen/Common/CachedKeys.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;

namespace heddle::cpu {

using Values = LoopBuilder::Values;

Value PartialAttention::larger(Value x, Value y) {
  Value isLarger = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y);
  return b.create<arith::SelectOp>(isLarger, x, y);
}

Values PartialAttention::none() {
  auto number = [&](float value) -> Value {
    return b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(value));
  };
  Values part = {number(std::numeric_limits<float>::lowest()), number(0)};
  part.append(vectors, b.zeros(headVector));
  return part;
}

Values PartialAttention::join(ValueRange left, ValueRange right) {
  Value largest = larger(left[0], right[0]);
  auto weightOf = [&](Value own) {
    return codegen::exp2(b.builder, b.loc,
                         b.create<arith::SubFOp>(own, largest));
  };
  Value weights[] = {weightOf(left[0]), weightOf(right[0])};
  auto sum = [&](Value x, Value y) -> Value {
    Value scaled[] = {weights[0], weights[1]};
    if (isa<VectorType>(x.getType()))
      for (Value &weight : scaled)
        weight = splat(weight, headVector);
    return b.create<math::FmaOp>(x, scaled[0],
                                 b.create<arith::MulFOp>(y, scaled[1]));
  };
  Values joined = {largest};
  for (auto [x, y] : llvm::zip(left.drop_front(), right.drop_front()))
    joined.push_back(sum(x, y));
  return joined;
}

Values PartialAttention::load(Value from) {
  Type f32 = b.builder.getF32Type();
  auto scalar = [&](int64_t index) {
    return b.load(f32, b.advance(from, f32, index), sizeof(float));
  };
  Values part = {scalar(dims + 1), scalar(dims)};
  for (int64_t v = 0; v < vectors; ++v)
    part.push_back(b.load(headVector, b.advance(from, f32, v * lanes),
                          sizeof(float), maskOf(v)));
  return part;
}

void PartialAttention::store(ValueRange part, Value to) {
  Type f32 = b.builder.getF32Type();
  for (int64_t v = 0; v < vectors; ++v)
    b.store(part[2 + v], b.advance(to, f32, v * lanes), sizeof(float),
            maskOf(v));
  b.store(part[1], b.advance(to, f32, dims), sizeof(float));
  b.store(part[0], b.advance(to, f32, dims + 1), sizeof(float));
}

void PartialAttention::storeOutput(ValueRange part, Value isThere, Value to,
                                   Type type) {
  Value one = b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(1));
  Value inverse = b.create<arith::DivFOp>(one, part[1]);
  if (maySeeNoKey) {
    Value zero = b.create<arith::ConstantOp>(b.builder.getF32FloatAttr(0));
    Value isAny =
        b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, part[1], zero);
    inverse = b.select(isAny, inverse, zero);
  }
  for (int64_t v = 0; v < vectors; ++v) {
    Value value =
        b.create<arith::MulFOp>(part[2 + v], splat(inverse, headVector));
    value = b.select(isThere, value, b.zeros(headVector));
    b.store(b.narrow(value, type), b.advance(to, type, v * lanes),
            type.getIntOrFloatBitWidth() / 8, maskOf(v));
  }
}

//===----------------------------------------------------------------------===//
// nn.paged_attention_join
//===----------------------------------------------------------------------===//

namespace {
class PartialJoinEmitter : public TokenEmitter {
public:
  PartialJoinEmitter(KernelEmitter &k, nn::PagedAttentionJoinOp op)
      : TokenEmitter(k, op), seen(op),
        parts(k, op.getHeadDim(), seen.maySeeNoKey()), heads(op.getHeads()),
        dims(op.getHeadDim()), numParts(op.getNumParts()),
        length(static_cast<int64_t>(op.getPartTokens())),
        from(k.pointerOf(op.getParts())),
        type(typeOf(op.getOutput()).getElementType()) {}

  void emit(Value output);

private:
  codegen::CachedKeys seen;
  PartialAttention parts;
  int64_t heads, dims, numParts, length;
  Value from;
  Type type;
};
} // namespace

void PartialJoinEmitter::emit(Value output) {
  auto [begin, end] = k.share(rows * tokens * heads);
  b.forLoop(begin, end, 1, [&](Value item) {
    Value token = b.div(item, heads);
    Value head = b.sub(item, b.mul(token, heads)), there = isThere(token);
    Value count =
        b.select(there, b.add(loadInt(positions, token), 1), b.constant(0));
    Value first = seen.firstOf(integers(), count);
    if (!first)
      first = b.constant(0);
    Values joined = b.forLoop(
        b.div(first, length), b.ceilDiv(count, length), 1, parts.none(),
        [&](Value part, ValueRange carried) {
          Value place = b.add(b.mul(token, numParts), part);
          place = b.add(b.mul(place, heads), head);
          return parts.join(
              carried,
              parts.load(b.advance(from, f32, b.mul(place, parts.size()))));
        });
    parts.storeOutput(joined, there, b.advance(output, type, b.mul(item, dims)),
                      type);
  });
}

LogicalResult emitPagedAttentionJoin(KernelEmitter &k,
                                     nn::PagedAttentionJoinOp op) {
  PartialJoinEmitter(k, op).emit(k.results[0]);
  return k.finish();
}

} // namespace heddle::cpu
