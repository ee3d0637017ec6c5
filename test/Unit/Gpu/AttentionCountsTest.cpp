//===- AttentionCountsTest.cpp - What a block of attention costs ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTexts.h"
#include "GpuKernel.h"
#include "heddle/AttentionLayout/AttentionLayout.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;

namespace {

/// Thread blocks of a launch, of two sequences with two heads of 64. `places`
/// are where they are in the grid, from 0, the first one, to 1, the last one.
/// `layout` has the words of the layout.
emulator::Counters count(const AttentionForm &form, bool isGradient,
                         unsigned launch,
                         const std::vector<uint32_t> &layout = {},
                         const std::vector<double> &places = {0}) {
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
  // The first launch with a layout sorts its rows.
  unsigned before = form.block ? 1 : 0;
  return countBlocks(check.text, bytes, places, launch + before, "ieee", filled,
                     layout, before);
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

/// What thread blocks of 64 rows do with a layout, for each score that it lets
/// queries see, in relation to the same of a thread block without a layout and
/// 512 columns.
class LayoutCosts {
public:
  LayoutCosts(const AttentionForm &form, int pass)
      : form(form), bits(1, form.layoutShape()[1]), pass(pass),
        dense(count(packedForm(form.type.c_str(), 512), pass > 0, pass == 2)) {}

  /// Counts the first thread block, of which each row sees `columns`.
  void runFirst(double columns) { run(1, columns / 512); }
  /// Counts all thread blocks of a head.
  void runAll() {
    auto scores = static_cast<double>(bits.count(0) * form.block * form.block);
    run(form.seq / 64, scores / (64 * 512));
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
  plan::LayoutBits bits;
  int pass;
  emulator::Counters dense, sparse;
  double share = 0;

private:
  void run(int64_t threadBlocks, double ofDense) {
    share = ofDense;
    auto all = static_cast<double>(form.seq / 64 * 4 - 1); // Without the last.
    std::vector<double> places;
    for (int64_t block = 0; block < threadBlocks; ++block)
      places.push_back((static_cast<double>(block) + 0.5) / all);
    const std::vector<int32_t> &words = bits.words();
    sparse =
        count(form, pass > 0, pass == 2, {words.begin(), words.end()}, places);
  }
};

/// All rows see the same 512 of 1024 columns.
TEST_P(GpuAttentionCounts, OfLayouts) {
  auto [type, pass] = GetParam();
  if (!isLong() && type == std::string("f16"))
    GTEST_SKIP() << "as bf16";
  for (int64_t block : {16, 32, 64, 128}) {
    AttentionForm form = packedForm(type, 1024);
    form.block = block;
    LayoutCosts costs(form, pass);
    // The odd blocks of keys, or all keys of the odd blocks of queries.
    for (int64_t row = 0; row < costs.bits.blocks(); ++row)
      for (int64_t column = 0; column < costs.bits.blocks(); ++column)
        costs.bits.set(0, row, column, (pass == 2 ? row : column) % 2);
    costs.runFirst(512);
    RecordProperty("instructions" + std::to_string(block),
                   std::to_string(costs.instructions()));
    RecordProperty("sectors" + std::to_string(block),
                   std::to_string(costs.sectors()));
    EXPECT_LE(costs.instructions(), block < 64 ? 1.15 : 1.03) << block;
    EXPECT_LE(costs.sectors(), 1.02) << block;
    EXPECT_LE(costs.products(), 1.001) << block;
    EXPECT_LE(costs.sparse.sharedWavefronts,
              1.05 * costs.sparse.idealWavefronts);
  }
}

/// A layout as `heddle layout` makes it.
struct LayoutCase {
  std::string name;
  bool isCausal;
  layouts::LayoutOptions options;
  /// The most instructions and the most sectors of each pass.
  std::array<std::array<double, 3>, 2> limits = {
      {{1.15, 1.15, 1.15}, {1.15, 1.15, 1.15}}};
};

std::vector<LayoutCase> layoutCases(int64_t block) {
  using layouts::Mode;
  std::vector<LayoutCase> all;
  auto add = [&](const char *name, Mode mode, bool isCausal = false) {
    layouts::LayoutOptions options = layouts::defaultsOf(mode);
    options.block = block;
    options.attention = isCausal ? layouts::Direction::Unidirectional
                                 : layouts::Direction::Bidirectional;
    all.push_back({name, isCausal, options});
    return &all.back().options;
  };
  add("fixed, causal", Mode::Fixed, true);
  using Limits = std::array<std::array<double, 3>, 2>;
  auto limit = [&](const Limits &with16, const Limits &with32) {
    all.back().limits = block == 16 ? with16 : with32;
  };
  add("bigbird", Mode::BigBird);
  limit({{{2.75, 2.7, 2.35}, {2.9, 3, 3.15}}},
        {{{1.6, 1.65, 1.5}, {1.65, 1.65, 1.8}}});
  if (isLong()) {
    add("fixed", Mode::Fixed);
    add("fixed, horizontal", Mode::Fixed)->horizontalGlobalAttention = true;
    add("bslongformer", Mode::BSLongformer);
    limit({{{2.7, 2.75, 2.35}, {2.75, 3, 3.1}}},
          {{{1.65, 1.7, 1.5}, {1.65, 1.7, 1.8}}});
    add("window of 3", Mode::Local);
    limit({{{3.6, 3.8, 3.1}, {3.1, 3.85, 3.8}}},
          {{{1.95, 2.1, 1.8}, {1.85, 2.15, 2.15}}});
    add("window of 33", Mode::Local)->numSlidingWindowBlocks = 33;
    limit({{{1.16, 1.15, 1.15}, {1.15, 1.15, 1.15}}},
          {{{1.05, 1.05, 1.05}, {1.05, 1.05, 1.05}}});
  }
  return all;
}

/// All rows of a head, of which the layout lets each see columns of its own.
TEST_P(GpuAttentionCounts, OfModes) {
  auto [type, pass] = GetParam();
  if (!isLong() && type != std::string("bf16"))
    GTEST_SKIP() << "as bf16";
  for (int64_t block : casesOf({16}, {32}))
    for (const LayoutCase &one : layoutCases(block)) {
      AttentionForm form = packedForm(type, 4096);
      form.block = block;
      form.causal = one.isCausal;
      layouts::AttentionLayout layout =
          layouts::makeLayout(one.options, 1, form.seq);
      if (one.isCausal)
        layout.cutToCausal();
      LayoutCosts costs(form, pass);
      costs.bits = plan::LayoutBits(1, layout.blocks(), layout.toWords());
      costs.runAll();
      std::string name = one.name + ", blocks of " + std::to_string(block);
      std::cout << type << " " << pass << " " << name << ": "
                << costs.instructions() << " instructions, " << costs.sectors()
                << " sectors" << std::endl;
      EXPECT_LE(costs.instructions(), one.limits[0][pass]) << name;
      EXPECT_LE(costs.sectors(), one.limits[1][pass]) << name;
      EXPECT_LE(costs.products(), 1.001) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Passes, GpuAttentionCounts,
                         testing::Combine(testing::Values("f32", "bf16", "f16"),
                                          testing::Values(0, 1, 2)));

} // namespace
