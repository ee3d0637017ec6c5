//===- AttentionLayout.cpp - Which blocks attention computes --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::layouts;

AttentionLayout::AttentionLayout(int64_t heads, int64_t blocks,
                                 int64_t blockSize)
    : bits(heads, blocks), tokensOfBlock(blockSize) {}

double AttentionLayout::density(int64_t head) const {
  return double(count(head)) / (double(blocks()) * double(blocks()));
}

double AttentionLayout::density() const {
  double sum = 0;
  for (int64_t head = 0; head < heads(); ++head)
    sum += density(head);
  return sum / double(heads());
}

bool AttentionLayout::isUnidirectional() const {
  AttentionLayout cut = *this;
  cut.cutToCausal();
  return cut == *this;
}

void AttentionLayout::cutToCausal() {
  for (int64_t head = 0; head < heads(); ++head)
    for (int64_t row = 0; row < blocks(); ++row)
      bits.clearFrom(head, row, row + 1);
}

bool AttentionLayout::areEqual(int64_t head, int64_t other) const {
  const int64_t size = blocks() * bits.wordsOfRow();
  auto first = bits.words().begin() + matrixOf(head) * size;
  return std::equal(first, first + size,
                    bits.words().begin() + matrixOf(other) * size);
}

void AttentionLayout::shareHeads() {
  for (int64_t head = 1; head < heads(); ++head)
    if (!areEqual(0, head))
      return;
  bits.keepFirst();
}
