//===- AttentionCountsTest.cpp - What a block of attention costs ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTexts.h"
#include "GpuKernel.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;

namespace {

/// A thread block of a launch, of two sequences with two heads of 64. `place`
/// is where it is in the grid, from 0, the first block, to 1, the last one.
/// `layout` is repeated in the words of the layout.
emulator::Counters count(const AttentionForm &form, bool isGradient,
                         unsigned launch,
                         const std::vector<uint32_t> &layout = {},
                         double place = 0) {
  KernelCheck check = attentionCheck(form, isGradient, 0);
  int64_t row = 2 * form.seq * 128 * 4, lse = 2 * 2 * form.seq * 4;
  std::vector<int64_t> bytes = {3 * row};
  if (isGradient)
    bytes = {row, row, lse, 3 * row};
  if (form.block) {
    auto [layouts, blocks, words] = form.layoutShape();
    bytes.push_back(layouts * blocks * words * 4);
  }
  int64_t filled = form.block ? static_cast<int64_t>(bytes.size()) - 1 : -1;
  bytes.push_back(isGradient ? 3 * row : row);
  if (!isGradient)
    bytes.push_back(lse);
  return countBlocks(check.text, bytes, {place}, launch, "ieee", filled,
                     layout);
}

AttentionForm packedForm(const char *type, int64_t seq) {
  AttentionForm form = {seq, 2, 2, 64, type, /*causal=*/false};
  form.packed = true;
  return form;
}

/// Forward pass and the launches of the gradient.
class GpuAttentionCounts
    : public testing::TestWithParam<std::tuple<const char *, int>> {};

TEST_P(GpuAttentionCounts, OfOneBlock) {
  auto [type, pass] = GetParam();
  unsigned launch = pass == 2;
  auto some = count(packedForm(type, 256), pass > 0, launch);
  auto more = count(packedForm(type, 512), pass > 0, launch);
  // No two lanes of an access meet in a bank of shared memory.
  EXPECT_LE(more.sharedWavefronts, 1.05 * more.idealWavefronts);
  // Rows of heads are whole sectors.
  EXPECT_LE((more.globalSectors - some.globalSectors) * 32,
            1.05 * (more.globalBytes - some.globalBytes));
  // One is 2 x 16 x 8 x 16 operations on tensor cores, or an FMA of a warp.
  double products = (more.tensorOperations - some.tensorOperations) / 4096.0;
  bool isNarrow = products > 0;
  if (!isNarrow)
    products = (pass + 2) * 64.0 * 256 * 64 / emulator::warpSize;
  double others = (sumOf(more) - sumOf(some) - products) / products;
  RecordProperty("others", std::to_string(others));
  EXPECT_LE(others, !isNarrow ? 0.65 : pass == 0 ? 5.3 : 3.3);
}

/// What a thread block does with a layout, in relation to one without a layout
/// and 512 columns: for as many scores as the layout lets its rows see.
class LayoutCosts {
public:
  LayoutCosts(const AttentionForm &form, int pass)
      : form(form), pass(pass),
        dense(count(packedForm(form.type.c_str(), 512), pass > 0, pass == 2)) {}

  /// Counts the thread block of 64 rows from row `first` on, of which `scores`
  /// are seen on average.
  void run(const std::vector<uint32_t> &words, int64_t first, double scores) {
    int64_t blocks = form.seq / 64 * 4; // Of two heads and two sequences.
    sparse = count(form, pass > 0, pass == 2, words,
                   (first / 64 + 0.5) / static_cast<double>(blocks - 1));
    share = scores / 512;
  }
  double ratio(double here, double there) const {
    return here / (share * there);
  }
  double instructions() const { return ratio(sumOf(sparse), sumOf(dense)); }
  double sectors() const {
    return ratio(sparse.globalSectors, dense.globalSectors);
  }
  double products() const {
    return dense.tensorOperations
               ? ratio(sparse.tensorOperations, dense.tensorOperations)
               : 1;
  }

  AttentionForm form;
  int pass;
  emulator::Counters dense, sparse;
  double share = 0;
};

/// All rows see the same 512 of 1024 columns.
TEST_P(GpuAttentionCounts, OfLayouts) {
  auto [type, pass] = GetParam();
  if (!isLong() && type == std::string("f16"))
    GTEST_SKIP() << "as bf16";
  for (int64_t block : {16, 32, 64, 128}) {
    AttentionForm form = packedForm(type, 1024);
    form.block = block;
    // The odd blocks of keys, or all keys of the odd blocks of queries.
    std::vector<uint32_t> words = {0xaaaaaaaa};
    if (pass == 2) {
      words.assign(form.layoutShape()[2], 0);
      words.resize(2 * words.size(), 0xffffffff);
    }
    LayoutCosts costs(form, pass);
    costs.run(words, 0, 512);
    std::string name = std::to_string(block);
    RecordProperty("instructions" + name, std::to_string(costs.instructions()));
    RecordProperty("sectors" + name, std::to_string(costs.sectors()));
    EXPECT_LE(costs.instructions(), block < 64 ? 1.15 : 1.03) << name;
    EXPECT_LE(costs.sectors(), 1.02) << name;
    EXPECT_LE(costs.products(), 1.001) << name;
    EXPECT_LE(costs.sparse.sharedWavefronts,
              1.05 * costs.sparse.idealWavefronts);
  }
}

/// Rows of a thread block see columns of their own, of 4096: blocks of a fixed
/// layout, four of them local and the last of each four global, and of a
/// sliding window of 33.
TEST_P(GpuAttentionCounts, OfLayoutsByRow) {
  auto [type, pass] = GetParam();
  if (!isLong() && type == std::string("f16"))
    GTEST_SKIP() << "as bf16";
  auto isInFixed = [](int64_t row, int64_t column) {
    return row / 4 == column / 4 || column % 4 == 3;
  };
  auto isInWindow = [](int64_t row, int64_t column) {
    return std::abs(row - column) <= 16;
  };
  for (int64_t block : casesOf({16}, {32}))
    for (bool isFixed : {true, false}) {
      AttentionForm form = packedForm(type, 4096);
      form.block = block;
      auto [layouts, blocks, wordsOfRow] = form.layoutShape();
      std::vector<uint32_t> words(blocks * wordsOfRow, 0);
      int64_t first = 2048, seen = 0;
      for (int64_t row = 0; row < blocks; ++row)
        for (int64_t column = 0; column < blocks; ++column) {
          if (!(isFixed ? isInFixed(row, column) : isInWindow(row, column)))
            continue;
          words[row * wordsOfRow + column / 32] |= uint32_t(1) << column % 32;
          int64_t own = (pass == 2 ? column : row) * block;
          seen += own >= first && own < first + 64;
        }
      LayoutCosts costs(form, pass);
      costs.run(words, first, static_cast<double>(seen * block * block) / 64);
      std::string name =
          (isFixed ? "Fixed" : "Sliding") + std::to_string(block);
      RecordProperty("instructions" + name,
                     std::to_string(costs.instructions()));
      RecordProperty("sectors" + name, std::to_string(costs.sectors()));
      // Of the keys of a fixed layout, only those of a global block are seen by
      // all queries, so that three of four warps have little to do.
      bool isUneven = isFixed && pass == 2;
      EXPECT_LE(costs.instructions(), isUneven  ? 1.65
                                      : isFixed ? 1.15
                                                : 1.22)
          << name;
      EXPECT_LE(costs.sectors(), isUneven ? 3.3 : isFixed ? 1 : 1.15) << name;
      EXPECT_LE(costs.products(), 1.001) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Passes, GpuAttentionCounts,
                         testing::Combine(testing::Values("f32", "bf16", "f16"),
                                          testing::Values(0, 1, 2)));

} // namespace
