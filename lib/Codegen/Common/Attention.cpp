//===- Attention.cpp - Attention on every target --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Attention.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::codegen {

AttentionSpec::AttentionSpec(nn::AttentionOpInterface op) {
  auto operand = cast<RankedTensorType>(op.getQkv()[0].getType());
  batch = operand.getDimSize(0);
  seq = operand.getDimSize(1);
  heads = op.getHeads().getCount();
  kvHeads = op.getHeads().getKv();
  headDim = op.getHeadDim();
  scale = op.getHeads().getScale().convertToDouble();
  softcap = op.getHeads().getSoftcap().convertToDouble();
  causal = op.getMask().isCausal();
  window = op.getMask().getWindow();
  if (op.getLayout()) {
    block = op.getMask().getBlock();
    layouts = nn::tensorOf(op.getLayout()).getDimSize(0);
    layoutBlocks = nn::tensorOf(op.getLayout()).getDimSize(1);
  }
  if (nn::DropoutAttr dropout = op.getDropoutAttr()) {
    p = dropout.getP().convertToDouble();
    site = dropout.getSite();
  }
  parts = op.getParts();
  sequenceShards = op.getSequenceShards();
  if (window >= wholeSeq())
    window = 0;
  elementType = operand.getElementType();
  packed = op.isPacked();
}

double AttentionSpec::scoreFactor() const {
  return softcap > 0 ? scale / softcap : scale * M_LOG2E;
}

double AttentionSpec::capFactor() const { return softcap * M_LOG2E; }

std::array<AttentionSpec::HeadColumns, 3> AttentionSpec::headColumns() const {
  int64_t q = heads * headDim, kv = kvHeads * headDim;
  if (!packed)
    return {{{0, q}, {0, kv}, {0, kv}}};
  int64_t row = q + 2 * kv;
  return {{{0, row}, {q, row}, {q + kv, row}}};
}

VisibleKeys::VisibleKeys(const AttentionSpec &spec, IntBuilder ints,
                         Value shard, Value ringStep)
    : spec(spec), ints(ints) {
  if (spec.sequenceShards == 1)
    return;
  Value mine = ints.from(shard), step = ints.from(ringStep);
  Value theirs = ints.rem(ints.sub(ints.add(mine, spec.sequenceShards), step),
                          spec.sequenceShards);
  queriesFrom = ints.mul(mine, spec.seq);
  keysFrom = ints.mul(theirs, spec.seq);
}

VisibleKeys VisibleKeys::with(IntBuilder other) const {
  VisibleKeys keys(spec, other);
  auto convert = [&](Value value) { return value ? other.from(value) : value; };
  keys.queriesFrom = convert(queriesFrom);
  keys.keysFrom = convert(keysFrom);
  keys.keyCount = convert(keyCount);
  keys.hasLengths = hasLengths;
  return keys;
}

void VisibleKeys::beginRow(Value length) {
  hasLengths = length != nullptr;
  keyCount = countOf(length);
}

Value VisibleKeys::countOf(Value length) {
  if (!length)
    return ints.constant(spec.seq);
  Value rest = ints.from(length);
  if (keysFrom)
    rest = ints.sub(rest, keysFrom);
  return ints.min(ints.max(rest, 0), spec.seq);
}

Value VisibleKeys::ahead(Value query) {
  return queriesFrom ? ints.sub(ints.add(query, queriesFrom), keysFrom) : query;
}

Value VisibleKeys::endOf(Value query) {
  if (!spec.causal)
    return keyCount;
  Value end = ints.add(ahead(query), 1);
  if (queriesFrom)
    end = ints.max(end, 0);
  return ints.min(end, keyCount);
}

Value VisibleKeys::endOfSome(Value first, int64_t queries) {
  // The last query may lie after the end of the sequence. It is clamped only if
  // ranks split the sequence: otherwise `endOf` clamps the end of the visible
  // keys to the number of keys, which is enough.
  Value last = ints.add(first, queries - 1);
  return endOf(queriesFrom ? ints.min(last, spec.seq - 1) : last);
}

Value VisibleKeys::firstSeeing(Value key) {
  Value first = ints.constant(0);
  if (spec.causal)
    first = queriesFrom
                ? ints.max(ints.sub(ints.add(key, keysFrom), queriesFrom), 0)
                : key;
  Value none = ints.constant(std::numeric_limits<int32_t>::max());
  return ints.select(ints.less(key, keyCount), first, none);
}

Value VisibleKeys::beginOf(Value query) {
  if (!spec.window)
    return {};
  return ints.max(ints.sub(ahead(query), ints.constant(spec.window - 1)), 0);
}

Value VisibleKeys::endSeeing(Value key) {
  if (!spec.window)
    return {};
  if (queriesFrom)
    key = ints.sub(ints.add(key, keysFrom), queriesFrom);
  return ints.max(ints.add(key, spec.window), 0);
}

Value VisibleKeys::sees(Value query, Value key) {
  Value isSeen = ints.less(key, endOf(query));
  Value begin = beginOf(query);
  return begin ? ints.both(isSeen, ints.less(begin, ints.add(key, 1))) : isSeen;
}

Value VisibleKeys::layoutRow(Value head, Value query, Value part) {
  Value row = queriesFrom ? ints.add(query, queriesFrom) : query;
  row = ints.div(row, spec.block);
  if (spec.layouts == 1)
    return row;
  if (part)
    head = ints.add(head, ints.mul(ints.from(part), spec.heads));
  return ints.add(row, ints.mul(head, spec.layoutBlocks));
}

Value VisibleKeys::firstKeyBlock() {
  return keysFrom ? ints.div(keysFrom, spec.block) : ints.constant(0);
}

Value firstProbability(const AttentionSpec &spec, const VisibleKeys &visible,
                       IntBuilder ints, Value microBatch, Value part,
                       Value batch, Value head) {
  int64_t whole = spec.wholeSeq();
  Value index = ints.mul(ints.from(microBatch), spec.batch);
  index = ints.mul(ints.add(index, ints.from(batch)), spec.parts);
  if (part)
    index = ints.add(index, ints.from(part));
  index = ints.add(ints.mul(index, spec.heads), ints.from(head));
  index = ints.mul(index, whole * whole);
  if (!visible.firstQuery())
    return index;
  Value queries = ints.mul(ints.from(visible.firstQuery()), whole);
  return ints.add(ints.add(index, queries), ints.from(visible.firstKey()));
}

Value exp2(OpBuilder &builder, Location loc, Value t) {
  Type type = t.getType();
  auto splat = [&](Type of, Attribute value) -> Value {
    if (auto vector = dyn_cast<VectorType>(of))
      value = DenseElementsAttr::get(vector, value);
    return builder.create<arith::ConstantOp>(loc, of, cast<TypedAttr>(value));
  };
  auto number = [&](double value) {
    return splat(type, builder.getF32FloatAttr(static_cast<float>(value)));
  };
  // 2^t = 2^integer * 2^fraction. Adding 1.5 * 2^23 rounds t to an integer,
  // which is then in the low bits. The polynomial for 2^fraction minimizes the
  // largest relative error on [-1/2, 1/2] (2e-9) among those that are exact at
  // 0.
  static constexpr double coefficients[] = {0.0001535336192110231,
                                            0.00133988744102247,
                                            0.00961843735759111,
                                            0.05550332471138068,
                                            0.2402264791363001,
                                            0.6931472028550579,
                                            1.0};
  Value shifter = number(0x1.8p23);
  Value shifted = builder.create<arith::AddFOp>(loc, t, shifter);
  Value integer = builder.create<arith::SubFOp>(loc, shifted, shifter);
  Value fraction = builder.create<arith::SubFOp>(loc, t, integer);
  Value power = number(coefficients[0]);
  for (double coefficient : llvm::drop_begin(coefficients))
    power =
        builder.create<math::FmaOp>(loc, power, fraction, number(coefficient));

  Type bitsType = builder.getI32Type();
  if (auto vector = dyn_cast<VectorType>(type))
    bitsType = vector.clone(bitsType);
  Value mantissaBits = splat(bitsType, builder.getI32IntegerAttr(23));
  Value exponent = builder.create<arith::ShLIOp>(
      loc, builder.create<arith::BitcastOp>(loc, bitsType, shifted),
      mantissaBits);
  Value bits = builder.create<arith::AddIOp>(
      loc, builder.create<arith::BitcastOp>(loc, bitsType, power), exponent);
  Value result = builder.create<arith::BitcastOp>(loc, type, bits);
  Value tiny = builder.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OLT, t,
                                             number(-125.0));
  return builder.create<arith::SelectOp>(loc, tiny, number(0.0), result);
}

} // namespace heddle::codegen
