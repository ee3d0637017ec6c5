//===- AttentionLayout.h - Which blocks attention computes ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout of block-sparse attention: for each head, which blocks of the
// matrix of scores are computed. A layout is made from the options of a mode,
// or read from a safetensors file. This header includes no LLVM headers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_ATTENTIONLAYOUT_ATTENTIONLAYOUT_H
#define HEDDLE_ATTENTIONLAYOUT_ATTENTIONLAYOUT_H

#include "heddle/AttentionLayout/LayoutOptions.h"
#include "heddle/PlanFormat/LayoutBits.h"

namespace heddle::layouts {

/// For each head a square matrix of bits. The bit at row i and column j says
/// whether the queries of block i attend to the keys of block j. If all heads
/// have the same matrix, it is stored once.
class AttentionLayout {
public:
  /// A layout without any block. `heads` is the number of query heads of the
  /// whole model, or 1 if all heads share one matrix.
  AttentionLayout(int64_t heads, int64_t blocks, int64_t blockSize);

  /// The number of stored matrices: 1, or one for each head.
  int64_t heads() const { return bits.matrices(); }
  /// Blocks in a row of the matrix.
  int64_t blocks() const { return bits.blocks(); }
  /// Tokens of a block.
  int64_t blockSize() const { return tokensOfBlock; }

  bool has(int64_t head, int64_t row, int64_t column) const {
    return bits.has(matrixOf(head), row, column);
  }
  void add(int64_t head, int64_t row, int64_t column) {
    bits.set(matrixOf(head), row, column, true);
  }
  /// The number of blocks that the head attends to.
  int64_t count(int64_t head) const { return bits.count(matrixOf(head)); }
  /// The fraction of blocks that the head attends to.
  double density(int64_t head) const;
  /// The mean of the heads' densities.
  double density() const;
  /// Whether no query attends to a later block. Within the blocks of the
  /// diagonal, the layout says nothing about single tokens.
  bool isUnidirectional() const;
  /// Removes the blocks above the diagonal, which a causal mask hides anyway.
  void cutToCausal();
  /// Stores one matrix if all heads have the same.
  void shareHeads();
  /// The matrices as the operand `layout` of nn.attention has them.
  const std::vector<int32_t> &toWords() const { return bits.words(); }
  /// Whether two heads have the same matrix.
  bool areEqual(int64_t head, int64_t other) const;

  bool operator==(const AttentionLayout &other) const {
    return tokensOfBlock == other.tokensOfBlock && bits == other.bits;
  }

private:
  int64_t matrixOf(int64_t head) const { return heads() == 1 ? 0 : head; }
  plan::LayoutBits bits;
  int64_t tokensOfBlock;
};

/// Makes the layout of a model with this number of query heads, for sequences
/// of `seq` tokens. Equal to the layout of DeepSpeed 0.19.6, except for the
/// random blocks, which depend on the seed alone. Throws H0175 if options
/// contradict each other, and H0192 if the sequence does not have the blocks
/// that they ask for.
AttentionLayout makeLayout(const LayoutOptions &options, int64_t heads,
                           int64_t seq);

/// Returns the random blocks of a row, in ascending order. All are different.
/// They depend on the seed, the head and the row, and on the number of blocks
/// among which they are drawn.
std::vector<int64_t> randomBlocks(const LayoutOptions &options, int64_t head,
                                  int64_t row, int64_t blocks);

/// Reads a layout from the tensor `layout` [heads, blocks, blocks] of a
/// safetensors file. Its metadata has the size of a block as `block`. Throws
/// H0308 for a tensor that is no layout, H0329 for a wrong size of blocks, and
/// the errors of safetensors files. The layout has as many matrices as the
/// file, even if all are equal.
AttentionLayout readLayout(const std::string &path);
/// Writes a file that `readLayout` reads, with one matrix for each of `heads`
/// heads.
void writeLayout(const AttentionLayout &layout, int64_t heads,
                 const std::string &path);
/// Throws H0198 if the layout that was read from `path` is for another number
/// of heads, or for another number of blocks than those of `seq` tokens.
void requireFit(const AttentionLayout &layout, const std::string &path,
                int64_t heads, int64_t seq);
/// Reads the layout of a model with this number of query heads, for sequences
/// of `seq` tokens. Throws the errors of `readLayout` and `requireFit`. Equal
/// matrices are stored once.
AttentionLayout readLayoutFor(const std::string &path, int64_t heads,
                              int64_t seq);

/// Draws the layout as SVG: a matrix for each group of equal heads, queries
/// downwards and keys to the right. Title and subtitle are lines above them.
std::string drawLayout(const AttentionLayout &layout, int64_t heads,
                       const std::string &title, const std::string &subtitle);

} // namespace heddle::layouts

#endif // HEDDLE_ATTENTIONLAYOUT_ATTENTIONLAYOUT_H
