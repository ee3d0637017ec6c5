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

/// The first thread block of a launch, of two sequences with two heads of 64.
/// Its rows are the last ones. `layout` is repeated in the words of the layout.
emulator::Counters count(const AttentionForm &form, bool isGradient,
                         unsigned launch,
                         const std::vector<uint32_t> &layout = {}) {
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
  return countBlocks(check.text, bytes, {0}, launch, "ieee", filled, layout);
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

/// What a thread block does for 512 columns that a layout has among 1024, in
/// relation to a thread block without a layout and 512 columns; by row, since
/// the rows of a thread block are at most those of a block of the layout.
TEST_P(GpuAttentionCounts, OfLayouts) {
  auto [type, pass] = GetParam();
  unsigned launch = pass == 2;
  auto dense = count(packedForm(type, 512), pass > 0, launch);
  for (int64_t block : {16, 32, 64, 128}) {
    AttentionForm form = packedForm(type, 1024);
    form.block = block;
    // The odd blocks of keys, or all keys of the odd blocks of queries.
    std::vector<uint32_t> words = {0xaaaaaaaa};
    if (pass == 2) {
      words.assign(form.layoutShape()[2], 0);
      words.resize(2 * words.size(), 0xffffffff);
    }
    auto sparse = count(form, pass > 0, launch, words);
    // The rows of a thread block, as a share of those without a layout.
    double share = std::min<double>(block, 64) / 64;
    auto compare = [&](const std::string &what, double here, double there,
                       double limit) {
      double ratio = here / (share * there);
      RecordProperty(what + std::to_string(block), std::to_string(ratio));
      EXPECT_LE(ratio, limit) << what << " with blocks of " << block;
    };
    compare("instructions", sumOf(sparse), sumOf(dense),
            block == 16 ? 1.4 : 1.15);
    // A thread block copies as many columns for fewer rows.
    compare("sectors", sparse.globalSectors, dense.globalSectors, 1.02 / share);
    if (dense.tensorOperations)
      compare("products", sparse.tensorOperations, dense.tensorOperations, 1);
    EXPECT_LE(sparse.sharedWavefronts, 1.05 * sparse.idealWavefronts);
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, GpuAttentionCounts,
                         testing::Combine(testing::Values("f32", "bf16", "f16"),
                                          testing::Values(0, 1, 2)));

} // namespace
