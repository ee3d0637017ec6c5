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

/// The first block of a launch, of two sequences of this length, with two heads
/// of 64.
emulator::Counters count(const char *type, int64_t seq, bool isGradient,
                         unsigned launch) {
  AttentionForm form = {seq, 2, 2, 64, type, /*causal=*/false};
  form.packed = true;
  KernelCheck check = attentionCheck(form, isGradient, 0);
  int64_t row = 2 * seq * 128 * 4, lse = 2 * 2 * seq * 4;
  std::vector<int64_t> bytes = {3 * row, row, lse};
  if (isGradient)
    bytes = {row, row, lse, 3 * row, 3 * row};
  return countFirstBlock(check.text, bytes, launch);
}

/// Forward pass and the launches of the gradient.
class GpuAttentionCounts
    : public testing::TestWithParam<std::tuple<const char *, int>> {};

TEST_P(GpuAttentionCounts, OfOneBlock) {
  auto [type, pass] = GetParam();
  unsigned launch = pass == 2;
  auto some = count(type, 256, pass > 0, launch);
  auto more = count(type, 512, pass > 0, launch);
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

INSTANTIATE_TEST_SUITE_P(Passes, GpuAttentionCounts,
                         testing::Combine(testing::Values("f32", "bf16", "f16"),
                                          testing::Values(0, 1, 2)));

} // namespace
