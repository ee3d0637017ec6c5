//===- PromptCutsTest.cpp - Tests of prompts as runs of programs ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/PromptCuts.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace heddle::rt;

/// Of programs of so many tokens each. To read the weights takes as long as to
/// compute `reading` tokens.
static PromptCuts cutsOf(const std::vector<int64_t> &sizes,
                         int64_t reading = 8) {
  std::vector<PromptCuts::Program> programs;
  for (int64_t size : sizes)
    programs.push_back({size, double(size + reading)});
  return PromptCuts(programs);
}

/// The sizes of the programs that compute so many tokens, in their order.
static std::vector<int64_t> runsOf(const std::vector<int64_t> &sizes,
                                   int64_t tokens, int64_t reading = 8) {
  PromptCuts cuts = cutsOf(sizes, reading);
  std::vector<int64_t> runs;
  for (; tokens > 0; tokens -= runs.back())
    runs.push_back(sizes[cuts.firstOf(tokens)]);
  return runs;
}

static const std::vector<int64_t> powers = {16, 32, 64, 128, 256, 512};

TEST(PromptCuts, RunsTheSmallestProgramThatHasRoom) {
  EXPECT_EQ(runsOf(powers, 1), std::vector<int64_t>{16});
  EXPECT_EQ(runsOf(powers, 16), std::vector<int64_t>{16});
  EXPECT_EQ(runsOf(powers, 17), std::vector<int64_t>{32});
  EXPECT_EQ(runsOf(powers, 500), std::vector<int64_t>{512});
}

TEST(PromptCuts, CutsWhatWouldLeaveMoreThanAnotherReadingCosts) {
  EXPECT_EQ(runsOf(powers, 130), (std::vector<int64_t>{128, 16}));
  EXPECT_EQ(runsOf(powers, 40), (std::vector<int64_t>{32, 16}));
  // 64, 16 and 16 would be as many tokens, and another reading.
  EXPECT_EQ(runsOf(powers, 81), (std::vector<int64_t>{64, 32}));
}

TEST(PromptCuts, CutsLessWhereReadingTakesLong) {
  EXPECT_EQ(runsOf(powers, 40, 40), std::vector<int64_t>{64});
  EXPECT_EQ(runsOf(powers, 100, 40), std::vector<int64_t>{128});
  EXPECT_EQ(runsOf(powers, 130, 40), (std::vector<int64_t>{128, 16}));
}

TEST(PromptCuts, TakesAnySizes) {
  EXPECT_EQ(runsOf({7}, 3), std::vector<int64_t>{7});
  EXPECT_EQ(runsOf({16, 20}, 18), std::vector<int64_t>{20});
  EXPECT_EQ(runsOf({16, 32, 33}, 33), std::vector<int64_t>{33});
}

// Of every cut that a search over all of them finds.
TEST(PromptCuts, CostsTheLeast) {
  const std::vector<int64_t> sizes = {5, 16, 40, 100};
  constexpr int64_t reading = 8;
  std::vector<int64_t> least(101);
  for (int64_t tokens = 1; tokens <= 100; ++tokens) {
    least[tokens] = 1 << 20;
    for (int64_t size : sizes)
      least[tokens] =
          std::min(least[tokens],
                   size + reading + least[std::max<int64_t>(tokens - size, 0)]);
    int64_t cost = 0;
    for (int64_t size : runsOf(sizes, tokens))
      cost += size + reading;
    EXPECT_EQ(cost, least[tokens]) << tokens;
  }
}
