//===- SchedulerFixture.h - What tests of the scheduler share ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_SERVE_SCHEDULERFIXTURE_H
#define HEDDLE_TEST_RUNTIME_SERVE_SCHEDULERFIXTURE_H

#include "HashEngine.h"
#include "heddle/runtime/serve/Scheduler.h"

#include <gtest/gtest.h>

namespace heddle::rt {

using Tokens = std::vector<int32_t>;

/// What becomes of the texts.
struct Heard : SequenceListener {
  std::map<uint64_t, Tokens> texts;
  std::map<uint64_t, FinishReason> ends;
  std::vector<uint64_t> order; ///< In which they ended.
  std::map<uint64_t, std::vector<std::vector<TokenLogprob>>> logprobs;
  std::map<uint64_t, std::vector<std::vector<TokenLogprob>>> prompts;
  std::function<bool(uint64_t, int32_t)> stop;

  bool onToken(uint64_t id, int32_t token,
               const std::vector<TokenLogprob> &told) override {
    EXPECT_EQ(ends.count(id), 0u);
    texts[id].push_back(token);
    logprobs[id].push_back(told);
    return stop && stop(id, token);
  }
  void onPrompt(uint64_t id, const std::vector<TokenLogprob> &told) override {
    EXPECT_EQ(texts.count(id), 0u);
    prompts[id].push_back(told);
  }
  void onEnd(uint64_t id, FinishReason end) override {
    EXPECT_TRUE(ends.emplace(id, end).second);
    order.push_back(id);
  }
};

/// Whether these are the tokens of a prompt, with the logprobs that the engine
/// gives them.
inline void expectPrompt(const std::vector<std::vector<TokenLogprob>> &told,
                         const SequenceRequest &request, int64_t vocab,
                         int64_t window = 0) {
  ASSERT_EQ(told.size(), request.prompt.size());
  EXPECT_EQ(told[0][0].token, request.prompt[0]);
  EXPECT_TRUE(std::isnan(told[0][0].logprob));
  std::vector<float> logits(vocab);
  for (size_t at = 1; at < told.size(); ++at) {
    HashEngine::logitsAfter(
        Tokens(request.prompt.begin(), request.prompt.begin() + at), window,
        vocab, logits.data());
    std::vector<TokenLogprob> own =
        logprobsOf(logits.data(), vocab, request.prompt[at],
                   std::max<int64_t>(request.logprobs, 0));
    ASSERT_EQ(told[at].size(), own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(told[at][i].token, own[i].token);
      EXPECT_EQ(told[at][i].logprob, own[i].logprob);
    }
  }
}

inline EngineLimits ofDraft(EngineLimits limits) {
  limits.maxGuesses = 1;
  return limits;
}

class SchedulerTest : public ::testing::Test {
protected:
  void begin(EngineLimits limits) {
    engine = std::make_unique<HashEngine>(limits);
    scheduler = std::make_unique<Scheduler>(*engine, heard,
                                            /*checksPages=*/true);
  }
  /// With a draft that guesses up to `guesses` tokens, `strays` of 100 wrong.
  void begin(EngineLimits limits, int64_t guesses, uint64_t strays) {
    draft = std::make_unique<HashEngine>(ofDraft(limits), strays);
    limits.maxGuesses = guesses;
    engine = std::make_unique<HashEngine>(limits);
    scheduler = std::make_unique<Scheduler>(*engine, heard,
                                            /*checksPages=*/true, draft.get());
  }
  SequenceRequest request(Tokens prompt, int64_t maxTokens) {
    SequenceRequest made;
    made.id = ++lastId;
    made.prompt = std::move(prompt);
    made.maxTokens = maxTokens;
    return made;
  }
  void finish() {
    for (int steps = 0; !scheduler->isIdle(); ++steps) {
      ASSERT_LT(steps, 100000) << "the texts do not end";
      scheduler->step(now);
      for (int64_t group = 0; group < scheduler->numGroups(); ++group)
        ASSERT_TRUE(scheduler->pagePool(group).isConsistent());
    }
    for (int64_t group = 0; group < scheduler->numGroups(); ++group)
      EXPECT_EQ(scheduler->pagePool(group).numOwned(), 0);
  }
  /// The groups in which texts are computed from now on.
  void noteGroups() {
    engine->onRun = [this](const std::vector<Feed> &feeds) {
      for (const Feed &feed : feeds)
        groups[feed.sequence].insert(feed.group);
    };
  }
  Tokens alone(const SequenceRequest &request) {
    return HashEngine::continued(request.prompt, request.maxTokens,
                                 engine->limits().vocab, request.sampling,
                                 engine->limits().window);
  }

  /// Submits text 1, which ends before one of its own tokens, and text 2, which
  /// is stopped after five of them; gives what each comes to.
  std::pair<Tokens, Tokens> submitTextsThatStop() {
    SequenceRequest one = request({1, 2}, 40), two = request({1, 3}, 40);
    Tokens ended = alone(one), stopped = alone(two);
    one.ends = {ended[7]};
    heard.stop = [&](uint64_t id, int32_t) {
      return id == 2 && heard.texts[2].size() == 5;
    };
    scheduler->submit(one);
    scheduler->submit(two);
    ended.erase(std::find(ended.begin(), ended.end(), one.ends[0]),
                ended.end());
    stopped.resize(5);
    return {ended, stopped};
  }

  Heard heard;
  std::unique_ptr<HashEngine> engine, draft;
  std::unique_ptr<Scheduler> scheduler;
  Scheduler::Clock::time_point now;
  uint64_t lastId = 0;
  std::map<uint64_t, std::set<int64_t>> groups;
};

/// vocab, rows, chunk, tokens of a page, pages, context.
inline constexpr EngineLimits roomy = {29, 4, 16, 4, 64, 100};

inline Tokens count(int64_t n, int32_t first = 0) {
  Tokens tokens(n);
  for (int64_t i = 0; i < n; ++i)
    tokens[i] = int32_t((first + i) % 29);
  return tokens;
}

} // namespace heddle::rt

#endif // HEDDLE_TEST_RUNTIME_SERVE_SCHEDULERFIXTURE_H
