//===- SchedulerTest.cpp - Tests of what is computed next -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SchedulerFixture.h"

using namespace heddle::rt;

TEST_F(SchedulerTest, ContinuesOneText) {
  begin(roomy);
  SequenceRequest one = request({3, 1, 4}, 20);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[1], alone(one));
  EXPECT_EQ(heard.ends[1], FinishReason::Length);
  EXPECT_EQ(engine->runs, 20);
}

TEST_F(SchedulerTest, EndsTextsWhoseLogitsAreNotFinite) {
  for (int64_t guesses : {0, 4}) {
    if (guesses == 0)
      begin(roomy);
    else
      begin(roomy, guesses, /*strays=*/10);
    SequenceRequest good = request({3, 1, 4}, 20);
    Tokens text = alone(good);
    // No token of the good text, so that it is not ended.
    int32_t poison = 5;
    while (std::count(text.begin(), text.end(), poison) > 0)
      ++poison;
    engine->poison = poison;
    SequenceRequest bad = request({3, 1, poison}, 20);
    bad.logprobs = 2;
    scheduler->submit(bad);
    scheduler->submit(good);
    finish();
    EXPECT_EQ(heard.ends[bad.id], FinishReason::NotFinite);
    EXPECT_TRUE(heard.texts[bad.id].empty());
    EXPECT_EQ(heard.ends[good.id], FinishReason::Length);
    EXPECT_EQ(heard.texts[good.id], text);
  }
}

TEST_F(SchedulerTest, ComputesLongPromptsInChunksBesideTexts) {
  begin(roomy);
  SequenceRequest writer = request({5}, 30), reader = request(count(50), 3);
  scheduler->submit(writer);
  scheduler->step(now);
  scheduler->submit(reader);
  std::vector<size_t> sizes;
  engine->onRun = [&](const std::vector<Feed> &feeds) {
    EXPECT_EQ(feeds[0].tokens.size(), 1u);
    if (feeds.size() > 1)
      sizes.push_back(feeds[1].tokens.size());
  };
  finish();
  EXPECT_EQ(sizes, (std::vector<size_t>{16, 16, 16, 2, 1, 1}));
  EXPECT_EQ(heard.texts[1], alone(writer));
  EXPECT_EQ(heard.texts[2], alone(reader));
}

// Tokens that are due wait for 128 tokens of prompts at most, in all groups.
TEST_F(SchedulerTest, ComputesFewTokensOfPromptsBesideTexts) {
  EngineLimits limits = {29, 4, 512, 16, 128, 1000};
  limits.groups = 2;
  begin(limits);
  SequenceRequest first = request(count(400), 30),
                  second = request(count(300, 7), 3);
  std::vector<size_t> sizes;
  engine->onRun = [&](const std::vector<Feed> &feeds) {
    for (const Feed &feed : feeds)
      if (feed.tokens.size() > 1)
        sizes.push_back(feed.tokens.size());
  };
  scheduler->submit(first);
  scheduler->step(now);
  EXPECT_EQ(sizes, std::vector<size_t>{400});
  sizes.clear();
  scheduler->submit(second);
  finish();
  EXPECT_EQ(sizes, (std::vector<size_t>{128, 128, 44}));
  EXPECT_EQ(heard.texts[1], alone(first));
  EXPECT_EQ(heard.texts[2], alone(second));
}

TEST_F(SchedulerTest, SharesTheFullPagesOfEqualBeginnings) {
  begin(roomy);
  SequenceRequest first = request(count(17), 5), second = request(count(16), 5);
  scheduler->submit(first);
  finish();
  scheduler->submit(second);
  finish();
  // The last token is computed again, and its page with it.
  EXPECT_EQ(scheduler->counts().sharedTokens, 12);
  EXPECT_EQ(heard.texts[2], alone(second));
  // What was written is shared as what was read.
  Tokens both = first.prompt;
  both.insert(both.end(), heard.texts[1].begin(), heard.texts[1].end());
  SequenceRequest third = request(both, 5);
  scheduler->submit(third);
  finish();
  EXPECT_EQ(scheduler->counts().sharedTokens, 12 + 20);
  EXPECT_EQ(heard.texts[3], alone(third));
}

TEST_F(SchedulerTest, SeveralTextsOfAPromptComputeItOnce) {
  begin(roomy);
  std::vector<SequenceRequest> texts;
  for (uint32_t stream = 0; stream < 4; ++stream) {
    SequenceRequest text = request(count(33), 6);
    text.sampling.temperature = 1;
    text.sampling.seed = 5;
    text.sampling.stream = stream;
    text.after = stream == 0 ? 0 : 1;
    texts.push_back(text);
    scheduler->submit(text);
  }
  finish();
  EXPECT_EQ(scheduler->counts().sharedTokens, 3 * 32);
  EXPECT_EQ(scheduler->counts().promptTokens, 33 + 3);
  for (const SequenceRequest &text : texts)
    EXPECT_EQ(heard.texts[text.id], alone(text));
  EXPECT_NE(heard.texts[1], heard.texts[2]);
}

TEST_F(SchedulerTest, EndsWhereItIsTold) {
  begin(roomy);
  auto [ended, stopped] = submitTextsThatStop();
  SequenceRequest three = request(count(90), 40);
  scheduler->submit(three);
  finish();
  EXPECT_EQ(heard.texts[1], ended);
  EXPECT_EQ(heard.ends[1], FinishReason::Stop);
  EXPECT_EQ(heard.texts[2], stopped);
  EXPECT_EQ(heard.ends[2], FinishReason::Stop);
  EXPECT_EQ(heard.texts[3].size(), 10u);
  EXPECT_EQ(heard.ends[3], FinishReason::Length);
}

TEST_F(SchedulerTest, TellsThePromptsLogprobs) {
  EngineLimits limits = roomy;
  limits.maxScored = 5;
  begin(limits);
  SequenceRequest before = request(count(13), 1), one = request(count(13), 3);
  one.logprobs = 2;
  one.scoresPrompt = true;
  SequenceRequest none = request(count(9, 4), 0), single = request({7}, 0);
  none.scoresPrompt = single.scoresPrompt = true;
  scheduler->submit(before);
  finish();
  // Others have pages of the same tokens.
  for (const SequenceRequest &each : {one, none, single})
    scheduler->submit(each);
  finish();
  EXPECT_EQ(heard.texts[2], alone(one));
  for (const SequenceRequest &each : {one, none, single})
    expectPrompt(heard.prompts[each.id], each, limits.vocab);
  EXPECT_EQ(heard.prompts.size(), 3u);
  EXPECT_EQ(heard.texts.count(3) + heard.texts.count(4), 0u);
  EXPECT_EQ(heard.ends[3], FinishReason::Length);
  EXPECT_EQ(heard.ends[4], FinishReason::Length);
}

TEST_F(SchedulerTest, TellsLogprobsOfTheModel) {
  begin(roomy);
  SequenceRequest one = request({1, 2}, 3);
  one.logprobs = 2;
  one.sampling.repetitionPenalty = 100;
  scheduler->submit(one);
  finish();
  Tokens tokens = one.prompt;
  std::vector<float> logits(29);
  for (int i = 0; i < 3; ++i) {
    uint64_t hash = 0;
    for (int32_t token : tokens)
      hash = HashEngine::mix(hash, token);
    HashEngine::logitsAfter(hash, 29, logits.data());
    tokens.push_back(heard.texts[1][i]);
    std::vector<TokenLogprob> own =
        logprobsOf(logits.data(), 29, tokens.back(), 2);
    ASSERT_EQ(heard.logprobs[1][i].size(), 3u);
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(heard.logprobs[1][i][j].token, own[j].token);
      EXPECT_EQ(heard.logprobs[1][i][j].logprob, own[j].logprob);
    }
  }
}

TEST_F(SchedulerTest, EndsTextsAtTheirDeadline) {
  begin(roomy);
  SequenceRequest running = request({1}, 50), waiting = request({2}, 50);
  running.deadline = now + std::chrono::seconds(3);
  waiting.deadline = now + std::chrono::seconds(2);
  scheduler->submit(running);
  for (int i = 0; i < 3; ++i)
    scheduler->submit(request({3}, 90));
  scheduler->step(now);
  scheduler->submit(waiting);
  scheduler->step(now + std::chrono::seconds(2));
  EXPECT_EQ(heard.ends.count(running.id), 0u);
  EXPECT_EQ(heard.ends.at(waiting.id), FinishReason::Expired);
  scheduler->step(now + std::chrono::seconds(3));
  EXPECT_EQ(heard.ends.at(running.id), FinishReason::Expired);
  EXPECT_EQ(heard.texts[running.id].size(), 2u);
  finish();
}

TEST_F(SchedulerTest, ClientsHaveTheirTurnsAlike) {
  begin(roomy);
  for (int i = 0; i < 40; ++i) {
    SequenceRequest text = request(count(9, i), 10);
    text.client = "many";
    scheduler->submit(text);
  }
  for (int i = 0; i < 20; ++i)
    scheduler->step(now);
  size_t before = heard.order.size();
  SequenceRequest one = request(count(9, 3), 10);
  one.client = "one";
  scheduler->submit(one);
  finish();
  size_t place = std::find(heard.order.begin(), heard.order.end(), one.id) -
                 heard.order.begin();
  EXPECT_LE(place - before, 8u);
}

TEST_F(SchedulerTest, TheOldestGoesOnWhenPagesRunOut) {
  // Each text needs 6 of the 9 pages in the end.
  begin({29, 4, 16, 4, 9, 24});
  std::vector<SequenceRequest> texts;
  for (int i = 0; i < 4; ++i) {
    texts.push_back(request(count(3, i), 21));
    scheduler->submit(texts.back());
  }
  finish();
  EXPECT_GT(scheduler->counts().preempted, 0);
  EXPECT_EQ(heard.order.front(), 1u);
  for (const SequenceRequest &text : texts)
    EXPECT_EQ(heard.texts[text.id], alone(text));
}

TEST_F(SchedulerTest, AllPagesAreEnoughForOneText) {
  begin({29, 4, 16, 4, 6, 100});
  EXPECT_EQ(scheduler->longest(), 24);
  SequenceRequest all = request(count(23), 40),
                  other = request(count(22, 4), 40);
  scheduler->submit(all);
  scheduler->submit(other);
  finish();
  EXPECT_EQ(heard.texts[1].size(), 1u);
  EXPECT_EQ(heard.texts[2].size(), 2u);
}

TEST_F(SchedulerTest, KeepsThePagesThatAWindowShows) {
  EngineLimits limits = {29, 4, 8, 4, 6, 300, 7};
  begin(limits);
  SequenceRequest first = request(count(120), 100);
  scheduler->submit(first);
  int64_t most = 0;
  engine->onRun = [&](const std::vector<Feed> &) {
    most = std::max(most, scheduler->pagePool().numOwned());
  };
  finish();
  EXPECT_EQ(heard.texts[1], alone(first));
  EXPECT_EQ(heard.texts[1].size(), 100u);
  // Two for the last six tokens, two for the next eight, and one where these do
  // not begin with a page.
  EXPECT_LE(most, 5);
  EXPECT_GE(most, 4);
}
