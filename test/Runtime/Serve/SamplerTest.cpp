//===- SamplerTest.cpp - Tests of choosing tokens -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Sampler.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace heddle::rt;

static std::vector<float> logits = {0.0f, 2.0f, 1.0f, -1.0f};

/// How often each token is drawn.
static std::vector<double> shares(const SamplingOptions &options) {
  Sampler sampler(options);
  std::vector<double> result(4);
  std::vector<int32_t> seen;
  for (int i = 0; i < 20000; ++i) {
    result[sampler.next(logits.data(), 4, seen)] += 1.0 / 20000;
    seen.push_back(0);
  }
  return result;
}

TEST(Sampler, GreedyTakesTheLikeliest) {
  Sampler sampler({});
  EXPECT_EQ(sampler.next(logits.data(), 4, {}), 1);
  EXPECT_EQ(sampler.next(logits.data(), 1, {}), 0);
}

TEST(Sampler, SeesWhatIsNotFinite) {
  std::vector<float> values(67, -3.0e38f);
  EXPECT_TRUE(areFinite(values.data(), 67));
  for (float bad : {INFINITY, -INFINITY, NAN})
    for (int at : {0, 31, 66}) {
      std::vector<float> some = values;
      some[at] = bad;
      EXPECT_FALSE(areFinite(some.data(), 67));
      EXPECT_TRUE(areFinite(some.data(), at));
    }
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

TEST(Sampler, PenalizesWhatWasDrawnAndNotThePrompt) {
  SamplingOptions options;
  options.presencePenalty = 0.5;
  options.frequencyPenalty = 0.25;
  options.bias = {{0, -3}, {3, 1}};
  Sampler sampler(options, /*prompt=*/2);
  std::vector<float> some = {4.0f, 2.0f, 1.5f, -1.0f};
  EXPECT_EQ(sampler.next(some.data(), 4, {0, 2, 1, 1, 3}), 2);
  EXPECT_EQ(some, (std::vector<float>{1.0f, 1.0f, 1.5f, -0.75f}));
}

TEST(Sampler, KeepsWhatIsAsLikelyAsTheLastOfTheTopK) {
  std::vector<float> some = {1.0f, 3.0f, 1.0f, 0.0f, 2.0f, 1.0f};
  SamplingOptions options;
  options.temperature = 1;
  options.topK = 3;
  Sampler sampler(options);
  std::vector<int32_t> kept;
  for (const Sampler::Candidate &candidate : sampler.filter(some.data(), 6, {}))
    kept.push_back(candidate.token);
  EXPECT_EQ(kept, (std::vector<int32_t>{1, 4, 0, 2, 5}));
}

/// Twenty tokens drawn from 1000 that are nearly alike.
static std::vector<int32_t> draw(uint64_t seed, uint32_t stream = 0,
                                 size_t shown = 0) {
  SamplingOptions options;
  options.temperature = 1;
  options.topP = 0.9;
  options.seed = seed;
  options.stream = stream;
  std::vector<float> many(1000);
  for (size_t i = 0; i < many.size(); ++i)
    many[i] = float(i % 7) / 8;
  std::vector<int32_t> seen(shown);
  while (seen.size() < 20)
    seen.push_back(Sampler(options).next(many.data(), 1000, seen));
  return seen;
}

TEST(Sampler, SeedStreamAndPositionDecide) {
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  EXPECT_NE(draw(1), draw(1, 1));
  // A token's random number does not depend on what was drawn before.
  std::vector<int32_t> all = draw(1), late = draw(1, 0, 9);
  EXPECT_TRUE(std::equal(all.begin() + 9, all.end(), late.begin() + 9));
}

// Distributions that differ by d in all draw other tokens with a probability of
// at most 2 d / (1 + d), however many tokens stand before.
TEST(Sampler, NearLogitsDrawTheSameTokens) {
  constexpr int64_t vocab = 997, count = 4000;
  std::vector<float> some(vocab), near(vocab);
  for (int64_t i = 0; i < vocab; ++i) {
    some[i] = float(i * 37 % 97) / 12;
    near[i] = some[i] + float(i * 53 % 11 - 5) / 40;
  }
  auto weights = [&](std::vector<float> logits) {
    double sum = 0;
    std::vector<double> all;
    for (float logit : logits)
      sum += all.emplace_back(std::exp(double(logit)));
    for (double &weight : all)
      weight /= sum;
    return all;
  };
  std::vector<double> p = weights(some), q = weights(near);
  double difference = 0;
  for (int64_t i = 0; i < vocab; ++i)
    difference += std::abs(p[i] - q[i]) / 2;
  SamplingOptions options;
  options.temperature = 1;
  std::vector<int32_t> seen;
  double same = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t token = Sampler(options).next(some.data(), vocab, seen);
    same += token == Sampler(options).next(near.data(), vocab, seen);
    seen.push_back(token);
  }
  ASSERT_GT(difference, 0.02);
  EXPECT_GE(same / count, (1 - difference) / (1 + difference) - 0.015);
  EXPECT_LT(same / count, 1);
}

TEST(Sampler, TopPSortsNoMoreThanItTakes) {
  SamplingOptions options;
  options.temperature = 1;
  options.topP = 0.5;
  std::vector<float> many(1000);
  for (size_t i = 0; i < many.size(); ++i)
    many[i] = float(i * 37 % 1000) / 1000;
  std::vector<Sampler::Candidate> kept =
      Sampler(options).filter(many.data(), 1000, {});
  std::vector<float> sorted = many;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0, reached = 0;
  for (float logit : sorted)
    sum += std::exp(logit);
  size_t count = 0;
  while (reached < 0.5 * sum)
    reached += std::exp(sorted[count++]);
  ASSERT_EQ(kept.size(), count);
  for (size_t i = 0; i < count; ++i)
    EXPECT_EQ(many[kept[i].token], sorted[i]);
}

TEST(Sampler, LogprobsAreOfTheWholeVocabulary) {
  std::vector<TokenLogprob> found = logprobsOf(logits.data(), 4, 3, 2);
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(double(logit));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].token, 3);
  EXPECT_EQ(found[1].token, 1);
  EXPECT_EQ(found[2].token, 2);
  for (const TokenLogprob &each : found)
    EXPECT_NEAR(each.logprob, logits[each.token] - std::log(sum), 1e-12);
}

/// What transformers 4.57 keeps of 40 logits behind the tokens 1 5 5 31 10: how
/// many, the likeliest of them in order, and the probability of the first.
TEST(Sampler, KeepsWhatTransformersKeeps) {
  struct Case {
    double temperature;
    int64_t topK;
    double topP, minP, penalty;
    size_t count;
    std::vector<int32_t> likeliest;
    double first;
  };
  const std::vector<Case> cases = {
      {0.7, 0, 1, 0, 1, 40, {31, 21, 11, 1, 32, 22, 12, 2}, 0.163687},
      {1.3, 7, 1, 0, 1, 7, {31, 21, 11, 1, 32, 22, 12}, 0.187145},
      {0.9, 0, 0.8, 0, 1, 12, {31, 21, 11, 1, 32, 22, 12, 2}, 0.159871},
      {1, 0, 1, 0.1, 1, 19, {31, 21, 11, 1, 32, 22, 12, 2}, 0.129553},
      {0.8, 12, 0.9, 0.05, 1, 10, {31, 21, 11, 1, 32, 22, 12, 2}, 0.183017},
      {1.1, 10, 0.6, 0, 1.5, 5, {21, 11, 32, 22, 12}, 0.262812},
      {2, 20, 0.95, 0.3, 2, 19, {21, 11, 32, 22, 12, 2, 33, 23}, 0.089087}};
  for (const Case &each : cases) {
    std::vector<float> some(40);
    for (int i = 0; i < 40; ++i)
      some[i] = float(i * 37 % 41) / 8 - 2;
    SamplingOptions options;
    options.temperature = each.temperature;
    options.topK = each.topK;
    options.topP = each.topP;
    options.minP = each.minP;
    options.repetitionPenalty = each.penalty;
    std::vector<Sampler::Candidate> kept =
        Sampler(options).filter(some.data(), 40, {1, 5, 5, 31, 10});
    ASSERT_EQ(kept.size(), each.count);
    std::sort(kept.begin(), kept.end(),
              [](const auto &a, const auto &b) { return a.weight > b.weight; });
    double sum = 0;
    for (const Sampler::Candidate &candidate : kept)
      sum += candidate.weight;
    for (size_t i = 0; i < each.likeliest.size(); ++i)
      EXPECT_EQ(kept[i].token, each.likeliest[i]);
    EXPECT_NEAR(kept[0].weight / sum, each.first, 1e-6);
  }
}
