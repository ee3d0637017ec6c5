//===- LayoutBits.h - The bits of an attention layout -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_LAYOUTBITS_H
#define HEDDLE_PLANFORMAT_LAYOUTBITS_H

#include <cstdint>
#include <utility>
#include <vector>

namespace heddle::plan {

/// The bits of a layout of block-sparse attention, in the words that the
/// operand `layout` of nn.attention has: for each matrix and each row of blocks
/// of queries, words of 32 bits. Bit j mod 32 of word j / 32 says whether the
/// row's queries attend to block j of keys.
class LayoutBits {
public:
  /// No bit is set.
  LayoutBits(int64_t matrices, int64_t blocks)
      : matrixCount(matrices), blockCount(blocks),
        all(matrices * blocks * wordsOfRow()) {}
  /// The words of a tensor [matrices, blocks, words].
  LayoutBits(int64_t matrices, int64_t blocks, std::vector<int32_t> words)
      : LayoutBits(matrices, blocks) {
    words.resize(all.size());
    all = std::move(words);
  }

  int64_t matrices() const { return matrixCount; }
  int64_t blocks() const { return blockCount; }
  int64_t wordsOfRow() const { return (blockCount + 31) / 32; }
  const std::vector<int32_t> &words() const { return all; }

  bool has(int64_t matrix, int64_t row, int64_t column) const {
    return uint32_t(all[wordOf(matrix, row, column)]) >> (column % 32) & 1;
  }
  void set(int64_t matrix, int64_t row, int64_t column, bool value) {
    const auto bit = uint32_t(1) << (column % 32);
    int32_t &word = all[wordOf(matrix, row, column)];
    word = int32_t(value ? uint32_t(word) | bit : uint32_t(word) & ~bit);
  }
  /// Clears the bits of a row from a column on.
  void clearFrom(int64_t matrix, int64_t row, int64_t column) {
    for (; column < blockCount && column % 32 != 0; ++column)
      set(matrix, row, column, false);
    for (; column < blockCount; column += 32)
      all[wordOf(matrix, row, column)] = 0;
  }
  /// The number of bits that are set in a matrix.
  int64_t count(int64_t matrix) const {
    const int64_t size = blockCount * wordsOfRow();
    int64_t sum = 0;
    for (int64_t i = matrix * size; i < (matrix + 1) * size; ++i)
      sum += __builtin_popcount(uint32_t(all[i]));
    return sum;
  }
  /// Keeps the first matrix alone.
  void keepFirst() {
    matrixCount = 1;
    all.resize(blockCount * wordsOfRow());
  }

  bool operator==(const LayoutBits &other) const {
    return matrixCount == other.matrixCount && blockCount == other.blockCount &&
           all == other.all;
  }

private:
  int64_t wordOf(int64_t matrix, int64_t row, int64_t column) const {
    return (matrix * blockCount + row) * wordsOfRow() + column / 32;
  }
  int64_t matrixCount, blockCount;
  std::vector<int32_t> all;
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_LAYOUTBITS_H
