//===- SamplerTest.cpp - Tests of choosing tokens -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Sampler.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle::rt;

static std::vector<float> logits = {0.0f, 2.0f, 1.0f, -1.0f};

/// How often each token is drawn.
static std::vector<double> shares(const SamplingOptions &options) {
  Sampler sampler(options);
  std::vector<double> result(4);
  for (int i = 0; i < 20000; ++i)
    result[sampler.next(logits.data(), 4)] += 1.0 / 20000;
  return result;
}

TEST(Sampler, GreedyTakesTheLikeliest) {
  Sampler sampler({});
  EXPECT_EQ(sampler.next(logits.data(), 4), 1);
  EXPECT_EQ(sampler.next(logits.data(), 1), 0);
}

TEST(Sampler, DrawsByProbability) {
  std::vector<double> drawn = shares({/*temperature=*/1, 0, 1, 3});
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(drawn[i], std::exp(logits[i]) / sum, 0.015);
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  std::vector<double> top2 = shares({1, 2, 1, 3});
  EXPECT_EQ(top2[0] + top2[3], 0);
  EXPECT_NEAR(top2[1], 1 / (1 + std::exp(-1.0)), 0.015);
  // The likeliest has 0.64 of the whole, the next 0.24.
  std::vector<double> small = shares({1, 0, 0.6, 3});
  EXPECT_EQ(small[0] + small[2] + small[3], 0);
  std::vector<double> larger = shares({1, 0, 0.7, 3});
  EXPECT_EQ(larger[0] + larger[3], 0);
  EXPECT_GT(larger[2], 0.2);
}

TEST(Sampler, MinPKeepsWhatIsNearTheLikeliest) {
  SamplingOptions options;
  options.temperature = 1;
  options.minP = std::exp(-1.5);
  std::vector<double> drawn = shares(options);
  EXPECT_EQ(drawn[0] + drawn[3], 0);
  EXPECT_NEAR(drawn[1], 1 / (1 + std::exp(-1.0)), 0.015);
}

TEST(Sampler, PenalizesWhatIsThere) {
  SamplingOptions options;
  options.repetitionPenalty = 4;
  Sampler sampler(options);
  std::vector<float> some = {1.0f, 2.0f, 0.75f, -1.0f};
  EXPECT_EQ(sampler.next(some.data(), 4, {1, 1, 3}), 0);
  EXPECT_EQ(some, (std::vector<float>{1.0f, 0.5f, 0.75f, -4.0f}));
}

TEST(Sampler, SeedsDecide) {
  auto draw = [](uint64_t seed) {
    Sampler sampler({1, 0, 1, seed});
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i)
      tokens.push_back(sampler.next(logits.data(), 4));
    return tokens;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}
