//===- MakeLayout.cpp - Makes a layout from the options of a mode ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes the layouts of DeepSpeed 0.19.6, block for block. DeepSpeed sets blocks
// by slices of Python, whose negative indices count from the end. Some of its
// options can be negative, or become so for short sequences, so slices here
// have the same meaning.
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/runtime/core/Philox.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::layouts;

namespace {

/// The blocks from `first` to before `end`.
struct BlockRange {
  int64_t first, end;
};

/// Sets the blocks of a layout, one head after another.
class LayoutMaker {
public:
  LayoutMaker(const LayoutOptions &options, int64_t heads, int64_t blocks)
      : options(options), blocks(blocks), layout(heads, blocks, options.block) {
  }
  AttentionLayout make();

private:
  void checkBlocks() const;
  void refuseMore(const char *key, int64_t value) const;
  void makeHead(int64_t head);

  /// Returns the range that Python's slice [first:end] of a list of all blocks
  /// has.
  BlockRange slice(int64_t first, int64_t end) const {
    auto clamp = [&](int64_t index) {
      return std::clamp<int64_t>(index < 0 ? index + blocks : index, 0, blocks);
    };
    return {clamp(first), clamp(end)};
  }
  void add(int64_t head, BlockRange rows, BlockRange columns) {
    for (int64_t row = rows.first; row < rows.end; ++row)
      for (int64_t column = columns.first; column < columns.end; ++column)
        layout.add(head, row, column);
  }
  void addWindow(int64_t head, int64_t first, int64_t end);
  void addFixedWindows(int64_t head);
  void addVariableWindows(int64_t head);
  void addFixedGlobals(int64_t head);
  void addGlobal(int64_t head, int64_t first, int64_t end, bool isHorizontal);
  void addListedGlobals(int64_t head, bool isHorizontal);
  void addSlidingWindow(int64_t head, bool looksAhead);
  void addRandom(int64_t head);

  const LayoutOptions &options;
  const int64_t blocks;
  AttentionLayout layout;
};

} // namespace

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Lets the queries of a local window attend to its keys.
void LayoutMaker::addWindow(int64_t head, int64_t first, int64_t end) {
  for (int64_t row = first; row < end; ++row)
    add(head, {row, row + 1},
        {first, options.isUnidirectional() ? row + 1 : end});
}

void LayoutMaker::addFixedWindows(int64_t head) {
  const int64_t size = options.numLocalBlocks;
  for (int64_t first = 0; first < blocks; first += size)
    addWindow(head, first, std::min(first + size, blocks));
}

void LayoutMaker::addVariableWindows(int64_t head) {
  int64_t first = 0;
  for (int64_t size : options.localWindowBlocks) {
    addWindow(head, first, std::min(first + size, blocks));
    first += size;
  }
  const int64_t size = options.localWindowBlocks.back();
  for (; first < blocks; first += size)
    addWindow(head, first, std::min(first + size, blocks));
}

void LayoutMaker::addSlidingWindow(int64_t head, bool looksAhead) {
  const int64_t side = options.numSlidingWindowBlocks / 2;
  for (int64_t row = 0; row < blocks; ++row)
    add(head, {row, row + 1},
        {std::max<int64_t>(0, row - side),
         looksAhead ? std::min(row + side + 1, blocks) : row + 1});
}

//===----------------------------------------------------------------------===//
// Global blocks
//===----------------------------------------------------------------------===//

/// Makes the keys of blocks [first:end] global, and their queries if
/// `isHorizontal`. The bounds are those of a slice. If attention is
/// unidirectional, the rows begin at the first global block, so that a range of
/// several blocks has some above the diagonal, as in DeepSpeed.
void LayoutMaker::addGlobal(int64_t head, int64_t first, int64_t end,
                            bool isHorizontal) {
  const BlockRange all = {0, blocks}, global = slice(first, end);
  add(head, options.isUnidirectional() ? slice(first, blocks) : all, global);
  if (isHorizontal)
    add(head, global, all);
}

void LayoutMaker::addFixedGlobals(int64_t head) {
  const int64_t window = options.numLocalBlocks, size = options.numGlobalBlocks;
  // Heads take the blocks of a window in turn, the last blocks first.
  const int64_t pattern = head % options.numDifferentGlobalPatterns;
  const int64_t offset = window - (1 + pattern) * size;
  const int64_t end = blocks - blocks % window;
  for (int64_t first = offset; first < end; first += window)
    addGlobal(head, first, first + size, options.horizontalGlobalAttention);
  if (end < blocks) {
    // Below zero if the sequence has fewer blocks than are global.
    const int64_t first = std::min(end + offset, blocks - size);
    addGlobal(head, first, first + size, options.horizontalGlobalAttention);
  }
}

/// Adds the global blocks that lists of indices name. Blocks after the last one
/// are ignored.
void LayoutMaker::addListedGlobals(int64_t head, bool isHorizontal) {
  for (size_t i = 0; i < options.globalBlockIndices.size(); ++i) {
    int64_t first = options.globalBlockIndices[i];
    if (options.globalBlockEndIndices) {
      addGlobal(head, first, (*options.globalBlockEndIndices)[i], isHorizontal);
    } else {
      // The slice [-1:0] would be empty.
      first += first < 0 ? blocks : 0;
      addGlobal(head, first, first + 1, isHorizontal);
    }
  }
}

//===----------------------------------------------------------------------===//
// Random blocks
//===----------------------------------------------------------------------===//

std::vector<int64_t> layouts::randomBlocks(const LayoutOptions &options,
                                           int64_t head, int64_t row,
                                           int64_t blocks) {
  // In mode `variable`, random blocks can be above the diagonal even if
  // attention is unidirectional, as in DeepSpeed.
  bool isLimited = options.mode == Mode::BigBird && options.isUnidirectional();
  uint64_t count = isLimited ? row + 1 : blocks;
  // A key for each row of each head, by which the columns are permuted.
  rt::PhiloxWords words = rt::philox(
      options.seed, {uint32_t(row), uint32_t(head), uint32_t(head >> 32), 0});
  uint64_t key = uint64_t(words[1]) << 32 | words[0];
  std::vector<int64_t> columns;
  for (int64_t i = 0; i < options.numRandomBlocks; ++i)
    columns.push_back(int64_t(rt::permute(i, count, key, 0)));
  std::sort(columns.begin(), columns.end());
  return columns;
}

void LayoutMaker::addRandom(int64_t head) {
  for (int64_t row = 0; row < blocks; ++row)
    for (int64_t column : randomBlocks(options, head, row, blocks))
      layout.add(head, row, column);
}

//===----------------------------------------------------------------------===//
// Modes
//===----------------------------------------------------------------------===//

void LayoutMaker::refuseMore(const char *key, int64_t value) const {
  if (value <= blocks)
    return;
  fail("H0192",
       options.source.spell(key) + " " + std::to_string(value) +
           " is more than the " + std::to_string(blocks) +
           " blocks of a sequence",
       "give it at most " + std::to_string(blocks) + ", or use a longer " +
           "sequence, or smaller blocks",
       options.source.locate(key));
}

void LayoutMaker::checkBlocks() const {
  const Mode mode = options.mode;
  auto isUsed = [&](const char *key) { return findOption(key)->isOf(mode); };
  if (isUsed("num_random_blocks"))
    refuseMore("num_random_blocks", options.numRandomBlocks);
  if (isUsed("num_sliding_window_blocks"))
    refuseMore("num_sliding_window_blocks", options.numSlidingWindowBlocks);
  if (mode == Mode::BigBird) {
    refuseMore("num_global_blocks", options.numGlobalBlocks);
    if (options.isUnidirectional() && options.numRandomBlocks > 1)
      fail("H0192",
           options.source.spell("num_random_blocks") + " " +
               std::to_string(options.numRandomBlocks) +
               ", but the first row has only one block that is not later",
           "give it 0 or 1 if " + options.source.spell("attention") +
               " is unidirectional",
           options.source.locate("num_random_blocks"));
  }
  if (isUsed("global_block_indices") && !options.globalBlockEndIndices)
    for (int64_t index : options.globalBlockIndices)
      if (index < -blocks)
        fail("H0192",
             "block " + std::to_string(index) + " of " +
                 options.source.spell("global_block_indices") +
                 " is before the first of " + std::to_string(blocks) +
                 " blocks",
             "use indices from " + std::to_string(-blocks) +
                 "; negative ones count from the last block",
             options.source.locate("global_block_indices"));
}

void LayoutMaker::makeHead(int64_t head) {
  switch (options.mode) {
  case Mode::Dense:
    return add(head, {0, blocks}, {0, blocks});
  case Mode::Fixed:
    addFixedWindows(head);
    return addFixedGlobals(head);
  case Mode::Variable:
    addRandom(head);
    addVariableWindows(head);
    return addListedGlobals(head, options.horizontalGlobalAttention);
  case Mode::BigBird:
    addRandom(head);
    addSlidingWindow(head, true);
    add(head, {0, options.numGlobalBlocks}, {0, blocks});
    return add(head, {0, blocks}, {0, options.numGlobalBlocks});
  case Mode::BSLongformer:
    addSlidingWindow(head, true);
    return addListedGlobals(head, true);
  case Mode::Local:
    return addSlidingWindow(head, !options.isUnidirectional());
  }
}

AttentionLayout LayoutMaker::make() {
  checkBlocks();
  for (int64_t head = 0; head < layout.heads(); ++head)
    makeHead(head);
  bool isCut =
      options.mode == Mode::BigBird || options.mode == Mode::BSLongformer;
  if (isCut && options.isUnidirectional())
    layout.cutToCausal();
  layout.shareHeads();
  return std::move(layout);
}

/// The most blocks of a layout, over all heads.
static constexpr int64_t mostBlocks = int64_t(1) << 32;

AttentionLayout layouts::makeLayout(const LayoutOptions &options, int64_t heads,
                                    int64_t seq) {
  checkOptions(options);
  const std::string block = std::to_string(options.block);
  const SourceLocation place = options.source.locate("block");
  if (seq % options.block != 0)
    fail("H0192",
         "a sequence of " + std::to_string(seq) +
             " tokens is no multiple of a block of " + block,
         "use a sequence of " +
             std::to_string((seq / options.block + 1) * options.block) +
             " tokens, or another size of " + options.source.spell("block"),
         place);
  const int64_t blocks = seq / options.block;
  if (heads * blocks * blocks > mostBlocks)
    fail("H0192",
         std::to_string(heads) + " heads of " + std::to_string(blocks) + " x " +
             std::to_string(blocks) + " blocks are more than a layout has",
         "use larger blocks, or a shorter sequence", place);
  bool isPerHead = options.differentLayoutPerHead &&
                   findOption("different_layout_per_head")->isOf(options.mode);
  return LayoutMaker(options, isPerHead ? heads : 1, blocks).make();
}
