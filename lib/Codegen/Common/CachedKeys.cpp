//===- CachedKeys.cpp - Which keys of a cache a token sees ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/CachedKeys.h"

using namespace mlir;

namespace heddle::codegen {

/// The number of bits in a word of a layout.
static constexpr int64_t wordBits = 32;

CachedKeys::CachedKeys(nn::PagedAttentionOp op) {
  setMask(op.getMask(),
          nn::tensorOf(op.getPages()).getDimSize(1) * op.getPageTokens());
  if (!op.getLayout())
    return;
  ArrayRef<int64_t> shape = nn::tensorOf(op.getLayout()).getShape();
  heads = op.getHeads().getCount();
  layouts = shape[0];
  blocks = shape[1];
  words = shape[2];
}

CachedKeys::CachedKeys(nn::PagedAttentionJoinOp op) {
  setMask(op.getMask(),
          op.getNumParts() * static_cast<int64_t>(op.getPartTokens()));
}

/// `context` is the largest number of keys that a token can see.
void CachedKeys::setMask(nn::MaskAttr mask, int64_t context) {
  if (mask.getWindow() < context)
    window = mask.getWindow();
  block = mask.getBlock();
}

Value CachedKeys::firstOf(IntBuilder ints, Value count) const {
  if (!window)
    return {};
  return ints.max(ints.sub(count, ints.constant(window)), 0);
}

Value CachedKeys::firstWord(IntBuilder ints, Value head, Value count,
                            Value shard) const {
  Value last = ints.max(ints.sub(count, ints.constant(1)), 0);
  Value row = ints.div(last, block);
  if (layouts != 1) {
    if (shard)
      head = ints.add(head, ints.mul(ints.from(shard), heads));
    row = ints.add(row, ints.mul(head, blocks));
  }
  return ints.mul(row, words);
}

int64_t CachedKeys::bitsOfPart() const {
  return nn::PagedAttentionOp::partKeys / block;
}

Value CachedKeys::wordOf(IntBuilder ints, Value part) const {
  return ints.div(part, wordBits / bitsOfPart());
}

Value CachedKeys::bitsOf(IntBuilder ints, Value word, Value part) const {
  Value shift = ints.mul(ints.rem(part, wordBits / bitsOfPart()), bitsOfPart());
  Value bits = ints.shiftRight(ints.from(word), shift);
  return ints.bitsOfBoth(bits, ints.constant((1 << bitsOfPart()) - 1));
}

Value CachedKeys::bitsOfKeys(IntBuilder ints, Value bits, Value first,
                             int64_t keys) const {
  int64_t count = std::max<int64_t>(keys / block, 1);
  Value shifted = ints.shiftRight(bits, ints.div(first, block));
  return ints.bitsOfBoth(shifted, ints.constant((1 << count) - 1));
}

} // namespace heddle::codegen
