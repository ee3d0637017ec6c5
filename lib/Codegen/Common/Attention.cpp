//===- Attention.cpp - What attention is, for every target ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Attention.h"
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
  causal = op.getMask().isCausal();
  if (nn::DropoutAttr dropout = op.getDropoutAttr()) {
    p = dropout.getP().convertToDouble();
    site = dropout.getSite();
  }
  parts = op.getParts();
  places = op.getPlaces();
  elementType = operand.getElementType();
  packed = op.isPacked();
}

double AttentionSpec::scoreFactor() const { return scale * M_LOG2E; }

std::array<AttentionSpec::Place, 3> AttentionSpec::placesOfHeads() const {
  int64_t q = heads * headDim, kv = kvHeads * headDim;
  if (!packed)
    return {{{0, q}, {0, kv}, {0, kv}}};
  int64_t row = q + 2 * kv;
  return {{{0, row}, {q, row}, {q + kv, row}}};
}

VisibleKeys::VisibleKeys(const AttentionSpec &spec, IntBuilder ints,
                         Value place, Value turn)
    : spec(spec), ints(ints) {
  if (spec.places == 1)
    return;
  Value mine = ints.from(place), behind = ints.from(turn);
  Value theirs =
      ints.rem(ints.sub(ints.add(mine, spec.places), behind), spec.places);
  queriesFrom = ints.mul(mine, spec.seq);
  keysFrom = ints.mul(theirs, spec.seq);
}

void VisibleKeys::beginRow(Value length) {
  hasLengths = length != nullptr;
  keyCount = ints.constant(spec.seq);
  if (!hasLengths)
    return;
  Value rest = ints.from(length);
  if (keysFrom)
    rest = ints.sub(rest, keysFrom);
  keyCount = ints.min(ints.max(rest, 0), spec.seq);
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
  // Where the sequence is whole its end is that of the keys, too.
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

} // namespace heddle::codegen
