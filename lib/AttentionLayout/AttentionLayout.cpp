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
    : headCount(heads), blockCount(blocks), tokensOfBlock(blockSize),
      wordsOfRow((blocks + 63) / 64), words(heads * blocks * wordsOfRow) {}

int64_t AttentionLayout::count(int64_t head) const {
  auto first = words.begin() + wordOf(head, 0, 0);
  int64_t sum = 0;
  for (auto word = first; word != first + blockCount * wordsOfRow; ++word)
    sum += __builtin_popcountll(*word);
  return sum;
}

double AttentionLayout::density(int64_t head) const {
  return double(count(head)) / (double(blockCount) * double(blockCount));
}

double AttentionLayout::density() const {
  double sum = 0;
  for (int64_t head = 0; head < headCount; ++head)
    sum += density(head);
  return sum / double(headCount);
}

/// The bits of word `index` of a row that are at most at column `row`.
static uint64_t causalBits(int64_t row, int64_t index) {
  int64_t columns = row + 1 - index * 64;
  if (columns <= 0)
    return 0;
  return columns >= 64 ? ~uint64_t(0) : (uint64_t(1) << columns) - 1;
}

bool AttentionLayout::isUnidirectional() const {
  AttentionLayout cut = *this;
  cut.cutToCausal();
  return cut == *this;
}

void AttentionLayout::cutToCausal() {
  for (int64_t head = 0; head < headCount; ++head)
    for (int64_t row = 0; row < blockCount; ++row) {
      uint64_t *bits = &words[wordOf(head, row, 0)];
      for (int64_t index = 0; index < wordsOfRow; ++index)
        bits[index] &= causalBits(row, index);
    }
}

std::vector<int32_t> AttentionLayout::toWords() const {
  const int64_t halves = (blockCount + 31) / 32;
  std::vector<int32_t> all;
  all.reserve(headCount * blockCount * halves);
  for (int64_t row = 0; row < headCount * blockCount; ++row)
    for (int64_t half = 0; half < halves; ++half)
      all.push_back(
          int32_t(words[row * wordsOfRow + half / 2] >> (half % 2 * 32)));
  return all;
}

bool AttentionLayout::areEqual(int64_t head, int64_t other) const {
  auto first = words.begin() + wordOf(head, 0, 0);
  return std::equal(first, first + blockCount * wordsOfRow,
                    words.begin() + wordOf(other, 0, 0));
}

void AttentionLayout::shareHeads() {
  for (int64_t head = 1; head < headCount; ++head)
    if (!areEqual(0, head))
      return;
  headCount = 1;
  words.resize(blockCount * wordsOfRow);
}
