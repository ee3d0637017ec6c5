//===- SchedulerRandomTest.cpp - Tests of random texts over few pages -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SchedulerFixture.h"

#include <random>

using namespace heddle::rt;

/// Texts that come and go at random over few pages are those of each request
/// by itself.
static SchedulerCounts runAtRandom(uint64_t seed, EngineLimits limits,
                                   int count,
                                   std::optional<uint64_t> strays = {}) {
  limits.maxScored = 3;
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return int64_t(random() % n); };
  Heard heard;
  HashEngine engine(limits), draft(ofDraft(limits), strays.value_or(0));
  Scheduler scheduler(engine, heard, /*checksPages=*/true,
                      strays ? &draft : nullptr);
  std::map<uint64_t, SequenceRequest> sent;
  std::set<uint64_t> cancelled;
  const int64_t longest = scheduler.longest();
  while (int(sent.size()) < count || !scheduler.isIdle()) {
    while (int(sent.size()) < count && below(3) == 0) {
      SequenceRequest text;
      text.id = sent.size() + 1;
      text.client = std::to_string(below(3));
      int64_t length = 1 + below(longest - 1);
      for (int64_t i = 0; i < length; ++i)
        text.prompt.push_back(int32_t(i < 20 ? i % 5 : below(limits.vocab)));
      text.maxTokens = 1 + below(30);
      text.sampling.temperature = double(below(2));
      text.sampling.seed = random();
      text.sampling.topK = below(5);
      text.sampling.repetitionPenalty = below(2) ? 1 : 1.5;
      text.scoresPrompt = below(8) == 0;
      sent[text.id] = text;
      scheduler.submit(text);
    }
    if (!sent.empty() && below(8) == 0) {
      uint64_t id = 1 + below(sent.size());
      if (scheduler.cancel(id))
        cancelled.insert(id);
    }
    scheduler.step({});
    for (int64_t group = 0; group < limits.groups; ++group)
      EXPECT_TRUE(scheduler.pagePool(group).isConsistent());
  }
  for (int64_t group = 0; group < limits.groups; ++group)
    EXPECT_EQ(scheduler.pagePool(group).available(), limits.numPages);
  EXPECT_EQ(heard.ends.size() + cancelled.size(), sent.size());
  for (const auto &[id, text] : sent) {
    int64_t most = std::min<int64_t>(text.maxTokens,
                                     longest - int64_t(text.prompt.size()));
    Tokens alone = HashEngine::continued(text.prompt, most, limits.vocab,
                                         text.sampling, limits.window);
    const Tokens &made = heard.texts[id];
    EXPECT_LE(made.size(), alone.size());
    alone.resize(made.size());
    EXPECT_EQ(made, alone) << id;
    if (cancelled.count(id))
      continue;
    EXPECT_EQ(int64_t(made.size()), most) << id;
    if (text.scoresPrompt)
      expectPrompt(heard.prompts[id], text, limits.vocab, limits.window);
  }
  EXPECT_GT(cancelled.size(), size_t(count) / 100);
  return scheduler.counts();
}

TEST(SchedulerAtRandom, AThousandTextsAreThoseOfEachAlone) {
  SchedulerCounts counts = runAtRandom(1, {29, 8, 13, 4, 31, 71}, 1000);
  EXPECT_GT(counts.sharedTokens, 1000);
  EXPECT_GT(counts.preempted, 10);
}

TEST(SchedulerAtRandom, SmallLimits) {
  int64_t shared = 0, preempted = 0;
  for (int64_t seed = 2; seed < 12; ++seed) {
    SchedulerCounts counts =
        runAtRandom(seed, {11, 2 + seed % 3, 1 + seed, 3, 8 + seed, 23}, 60);
    shared += counts.sharedTokens;
    preempted += counts.preempted;
  }
  EXPECT_GT(shared, 100);
  EXPECT_GT(preempted, 10);
}

// A text is longer than the cache: the pages behind the window are used again,
// of its own or by others.
TEST(SchedulerAtRandom, PagesBehindAWindow) {
  SchedulerCounts counts = runAtRandom(1, {29, 8, 13, 4, 14, 171, 9}, 500);
  EXPECT_GT(counts.sharedTokens, 100);
  EXPECT_GT(counts.preempted, 0);
  for (int64_t seed = 2; seed < 12; ++seed) {
    heddle::plan::CachePages sizes = {3, seed - 1};
    int64_t chunk = 1 + seed % 5;
    runAtRandom(seed,
                {11, 2 + seed % 3, chunk, 3, sizes.mostOf(999, chunk), 123,
                 sizes.window},
                60);
  }
}

// The same texts, with drafts that are always, sometimes and never right.
TEST(SchedulerAtRandom, TextsWithADraftAreThoseWithoutOne) {
  for (uint64_t strays : {0, 30, 100})
    for (int64_t guesses : {1, 4, 8}) {
      SchedulerCounts counts =
          runAtRandom(guesses, {29, 8, 13, 4, 31, 71, 0, guesses}, 300, strays);
      EXPECT_GT(counts.sharedTokens, 100);
      EXPECT_GT(counts.preempted, 3);
      EXPECT_GT(counts.guesses, 300);
      EXPECT_LE(counts.rightGuesses, counts.guesses);
      EXPECT_EQ(counts.rightGuesses == counts.guesses, strays == 0);
    }
  for (int64_t seed = 2; seed < 12; ++seed)
    runAtRandom(seed,
                {11, 2 + seed % 3, 1 + seed, 3, 8 + seed, 23, 0, seed % 9}, 60,
                seed * 9);
}

TEST(SchedulerAtRandom, DraftsSeeNoFurtherThanTheirWindows) {
  for (int64_t seed = 2; seed < 12; ++seed) {
    heddle::plan::CachePages sizes = {3, seed - 1};
    int64_t chunk = 1 + seed % 5;
    runAtRandom(seed,
                {11, 2 + seed % 3, chunk, 3, sizes.mostOf(999, chunk), 123,
                 sizes.window, seed % 6},
                60, seed * 5);
  }
}

// Each of several groups has its own pages; a text is the same in any of them.
TEST(SchedulerAtRandom, TextsOfGroupsAreThoseOfEachAlone) {
  for (int64_t groups : {2, 3}) {
    EngineLimits limits = {29, 3, 13, 4, 21, 71};
    limits.groups = groups;
    SchedulerCounts counts = runAtRandom(groups, limits, 500);
    EXPECT_GT(counts.sharedTokens, 500);
    EXPECT_GT(counts.preempted, 0);
    limits.maxGuesses = 4;
    counts = runAtRandom(groups, limits, 300, /*strays=*/30);
    EXPECT_GT(counts.rightGuesses, 300);
  }
  for (int64_t seed = 2; seed < 12; ++seed) {
    heddle::plan::CachePages sizes = {3, seed - 1};
    int64_t chunk = 1 + seed % 5;
    EngineLimits limits = {
        11,  1 + seed % 3, chunk,    3,           sizes.mostOf(999, chunk),
        123, sizes.window, seed % 6, 1 + seed % 4};
    runAtRandom(seed, limits, 60, seed * 5);
  }
}
