//===- SchedulerTest.cpp - Tests of what is computed next -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Scheduler.h"
#include "HashEngine.h"

#include <gtest/gtest.h>
#include <random>

using namespace heddle::rt;
using Tokens = std::vector<int32_t>;

namespace {

/// What becomes of the texts.
struct Heard : TextListener {
  std::map<uint64_t, Tokens> texts;
  std::map<uint64_t, TextEnd> ends;
  std::vector<uint64_t> order; ///< In which they ended.
  std::map<uint64_t, std::vector<std::vector<TokenLogprob>>> logprobs;
  std::function<bool(uint64_t, int32_t)> stop;

  bool onToken(uint64_t id, int32_t token,
               const std::vector<TokenLogprob> &told) override {
    EXPECT_EQ(ends.count(id), 0u);
    texts[id].push_back(token);
    logprobs[id].push_back(told);
    return stop && stop(id, token);
  }
  void onEnd(uint64_t id, TextEnd end) override {
    EXPECT_TRUE(ends.emplace(id, end).second);
    order.push_back(id);
  }
};

EngineLimits ofDraft(EngineLimits limits) {
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
  TextRequest request(Tokens prompt, int64_t maxTokens) {
    TextRequest made;
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
  Tokens alone(const TextRequest &request) {
    return HashEngine::continued(request.prompt, request.maxTokens,
                                 engine->limits().vocab, request.sampling,
                                 engine->limits().window);
  }

  /// Submits text 1, which ends before one of its own tokens, and text 2, which
  /// is stopped after five of them; gives what each comes to.
  std::pair<Tokens, Tokens> submitTextsThatStop() {
    TextRequest one = request({1, 2}, 40), two = request({1, 3}, 40);
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
constexpr EngineLimits roomy = {29, 4, 16, 4, 64, 100};

Tokens count(int64_t n, int32_t first = 0) {
  Tokens tokens(n);
  for (int64_t i = 0; i < n; ++i)
    tokens[i] = int32_t((first + i) % 29);
  return tokens;
}

} // namespace

TEST_F(SchedulerTest, ContinuesOneText) {
  begin(roomy);
  TextRequest one = request({3, 1, 4}, 20);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[1], alone(one));
  EXPECT_EQ(heard.ends[1], TextEnd::Length);
  EXPECT_EQ(engine->runs, 20);
}

TEST_F(SchedulerTest, EndsTextsWhoseLogitsAreNotFinite) {
  for (int64_t guesses : {0, 4}) {
    if (guesses == 0)
      begin(roomy);
    else
      begin(roomy, guesses, /*strays=*/10);
    TextRequest good = request({3, 1, 4}, 20);
    Tokens text = alone(good);
    // No token of the good text, so that it is not ended.
    int32_t poison = 5;
    while (std::count(text.begin(), text.end(), poison) > 0)
      ++poison;
    engine->poison = poison;
    TextRequest bad = request({3, 1, poison}, 20);
    bad.logprobs = 2;
    scheduler->submit(bad);
    scheduler->submit(good);
    finish();
    EXPECT_EQ(heard.ends[bad.id], TextEnd::NotFinite);
    EXPECT_TRUE(heard.texts[bad.id].empty());
    EXPECT_EQ(heard.ends[good.id], TextEnd::Length);
    EXPECT_EQ(heard.texts[good.id], text);
  }
}

TEST_F(SchedulerTest, ADraftMayHaveLogitsThatAreNotFinite) {
  begin(roomy, 4, /*strays=*/0);
  draft->poison = 4;
  TextRequest one = request({3, 1, 4}, 20);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[one.id], alone(one));
}

TEST_F(SchedulerTest, ComputesLongPromptsInChunksBesideTexts) {
  begin(roomy);
  TextRequest writer = request({5}, 30), reader = request(count(50), 3);
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

TEST_F(SchedulerTest, SharesTheFullPagesOfEqualBeginnings) {
  begin(roomy);
  TextRequest first = request(count(17), 5), second = request(count(16), 5);
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
  TextRequest third = request(both, 5);
  scheduler->submit(third);
  finish();
  EXPECT_EQ(scheduler->counts().sharedTokens, 12 + 20);
  EXPECT_EQ(heard.texts[3], alone(third));
}

TEST_F(SchedulerTest, SeveralTextsOfAPromptComputeItOnce) {
  begin(roomy);
  std::vector<TextRequest> texts;
  for (uint32_t stream = 0; stream < 4; ++stream) {
    TextRequest text = request(count(33), 6);
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
  for (const TextRequest &text : texts)
    EXPECT_EQ(heard.texts[text.id], alone(text));
  EXPECT_NE(heard.texts[1], heard.texts[2]);
}

TEST_F(SchedulerTest, EndsWhereItIsTold) {
  begin(roomy);
  auto [ended, stopped] = submitTextsThatStop();
  TextRequest three = request(count(90), 40);
  scheduler->submit(three);
  finish();
  EXPECT_EQ(heard.texts[1], ended);
  EXPECT_EQ(heard.ends[1], TextEnd::Stop);
  EXPECT_EQ(heard.texts[2], stopped);
  EXPECT_EQ(heard.ends[2], TextEnd::Stop);
  EXPECT_EQ(heard.texts[3].size(), 10u);
  EXPECT_EQ(heard.ends[3], TextEnd::Length);
}

TEST_F(SchedulerTest, TellsLogprobsOfTheModel) {
  begin(roomy);
  TextRequest one = request({1, 2}, 3);
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
  TextRequest running = request({1}, 50), waiting = request({2}, 50);
  running.deadline = now + std::chrono::seconds(3);
  waiting.deadline = now + std::chrono::seconds(2);
  scheduler->submit(running);
  for (int i = 0; i < 3; ++i)
    scheduler->submit(request({3}, 90));
  scheduler->step(now);
  scheduler->submit(waiting);
  scheduler->step(now + std::chrono::seconds(2));
  EXPECT_EQ(heard.ends.count(running.id), 0u);
  EXPECT_EQ(heard.ends.at(waiting.id), TextEnd::Expired);
  scheduler->step(now + std::chrono::seconds(3));
  EXPECT_EQ(heard.ends.at(running.id), TextEnd::Expired);
  EXPECT_EQ(heard.texts[running.id].size(), 2u);
  finish();
}

TEST_F(SchedulerTest, ClientsHaveTheirTurnsAlike) {
  begin(roomy);
  for (int i = 0; i < 40; ++i) {
    TextRequest text = request(count(9, i), 10);
    text.client = "many";
    scheduler->submit(text);
  }
  for (int i = 0; i < 20; ++i)
    scheduler->step(now);
  size_t before = heard.order.size();
  TextRequest one = request(count(9, 3), 10);
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
  std::vector<TextRequest> texts;
  for (int i = 0; i < 4; ++i) {
    texts.push_back(request(count(3, i), 21));
    scheduler->submit(texts.back());
  }
  finish();
  EXPECT_GT(scheduler->counts().preempted, 0);
  EXPECT_EQ(heard.order.front(), 1u);
  for (const TextRequest &text : texts)
    EXPECT_EQ(heard.texts[text.id], alone(text));
}

TEST_F(SchedulerTest, AllPagesAreEnoughForOneText) {
  begin({29, 4, 16, 4, 6, 100});
  EXPECT_EQ(scheduler->longest(), 24);
  TextRequest all = request(count(23), 40), other = request(count(22, 4), 40);
  scheduler->submit(all);
  scheduler->submit(other);
  finish();
  EXPECT_EQ(heard.texts[1].size(), 1u);
  EXPECT_EQ(heard.texts[2].size(), 2u);
}

/// Texts that come and go at random over few pages are those of each request
/// by itself.
static SchedulerCounts runAtRandom(uint64_t seed, EngineLimits limits,
                                   int count,
                                   std::optional<uint64_t> strays = {}) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return int64_t(random() % n); };
  Heard heard;
  HashEngine engine(limits), draft(ofDraft(limits), strays.value_or(0));
  Scheduler scheduler(engine, heard, /*checksPages=*/true,
                      strays ? &draft : nullptr);
  std::map<uint64_t, TextRequest> sent;
  std::set<uint64_t> cancelled;
  const int64_t longest = scheduler.longest();
  while (int(sent.size()) < count || !scheduler.isIdle()) {
    while (int(sent.size()) < count && below(3) == 0) {
      TextRequest text;
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
    if (!cancelled.count(id))
      EXPECT_EQ(int64_t(made.size()), most) << id;
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

TEST_F(SchedulerTest, GroupsWithMorePagesGetTheNextText) {
  EngineLimits limits = roomy;
  limits.groups = 2;
  begin(limits);
  noteGroups();
  // Of unequal lengths: the long one counts for the short ones.
  std::vector<TextRequest> texts = {request(count(40), 5), request({1}, 30),
                                    request({2}, 30), request({3}, 30)};
  for (const TextRequest &text : texts)
    scheduler->submit(text);
  scheduler->step(now);
  EXPECT_EQ(scheduler->numRunning(0), 1);
  EXPECT_EQ(scheduler->numRunning(1), 3);
  EXPECT_EQ(scheduler->numRunning(), 4);
  finish();
  for (const TextRequest &text : texts) {
    EXPECT_EQ(heard.texts[text.id], alone(text));
    EXPECT_EQ(groups[text.id].size(), 1u);
  }
}

TEST_F(SchedulerTest, GroupsAreFullBeforeATextWaits) {
  EngineLimits limits = {29, 1, 16, 4, 64, 100};
  limits.groups = 2;
  begin(limits);
  for (int i = 0; i < 3; ++i)
    scheduler->submit(request({i}, 9));
  scheduler->step(now);
  EXPECT_EQ(scheduler->numRunning(0), 1);
  EXPECT_EQ(scheduler->numRunning(1), 1);
  EXPECT_EQ(scheduler->numWaiting(), 1);
  scheduler->cancel(2);
  scheduler->step(now);
  EXPECT_EQ(scheduler->numRunning(1), 1);
  EXPECT_EQ(scheduler->numWaiting(), 0);
  finish();
  EXPECT_EQ(heard.texts[3].size(), 9u);
}

TEST_F(SchedulerTest, TextsGoWhereTheirBeginningsAre) {
  EngineLimits limits = {29, 2, 16, 4, 64, 100};
  limits.groups = 2;
  begin(limits);
  noteGroups();
  // Text 1 leaves pages in group 0, text 2 in group 1.
  scheduler->submit(request(count(17), 4));
  scheduler->submit(request(count(17, 9), 20));
  finish();
  // Group 1 has fewer pages left, and the first ones of these texts; the third
  // finds no room there.
  for (int i = 0; i < 3; ++i)
    scheduler->submit(request(count(18, 9), 5));
  finish();
  EXPECT_EQ(groups[1], std::set<int64_t>{0});
  EXPECT_EQ(groups[2], std::set<int64_t>{1});
  EXPECT_EQ(groups[3], std::set<int64_t>{1});
  EXPECT_EQ(groups[4], std::set<int64_t>{1});
  EXPECT_EQ(groups[5], std::set<int64_t>{0});
  EXPECT_EQ(scheduler->counts().sharedTokens, 2 * 16);
}

TEST_F(SchedulerTest, ADraftSavesRuns) {
  begin(roomy, 4, /*strays=*/0);
  TextRequest one = request({3, 1, 4}, 20);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[1], alone(one));
  // The prompt with one token, then five a run.
  EXPECT_EQ(engine->runs, 5);
  EXPECT_EQ(scheduler->counts().guesses, 15);
  EXPECT_EQ(scheduler->counts().rightGuesses, 15);
}

TEST_F(SchedulerTest, AWrongDraftGuessesOneTokenAtATime) {
  begin(roomy, 8, /*strays=*/100);
  TextRequest one = request({3, 1, 4}, 60);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[1], alone(one));
  const SchedulerCounts &counts = scheduler->counts();
  EXPECT_LT(counts.rightGuesses, 10);
  // From eight at first down to one, but where it was right by chance.
  EXPECT_LT(counts.guesses, 36 + 60 + 2 * counts.rightGuesses);
}

TEST_F(SchedulerTest, TextsEndWithinGuesses) {
  begin(roomy, 6, /*strays=*/10);
  auto [ended, stopped] = submitTextsThatStop();
  TextRequest three = request(count(90), 40);
  three.logprobs = 2;
  scheduler->submit(three);
  finish();
  EXPECT_EQ(heard.texts[1], ended);
  EXPECT_EQ(heard.ends[1], TextEnd::Stop);
  EXPECT_EQ(heard.texts[2], stopped);
  Tokens full = alone(three);
  full.resize(10);
  EXPECT_EQ(heard.texts[3], full);
  EXPECT_EQ(heard.ends[3], TextEnd::Length);
  for (size_t i = 0; i < full.size(); ++i)
    EXPECT_EQ(heard.logprobs[3][i].at(0).token, full[i]);
}

TEST_F(SchedulerTest, KeepsThePagesThatAWindowShows) {
  EngineLimits limits = {29, 4, 8, 4, 6, 300, 7};
  begin(limits);
  TextRequest first = request(count(120), 100);
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

TEST(PageChecker, PagesBehindAWindowAreNotRead) {
  PagePool pool(4, {2, /*window=*/3});
  PageChecker checker(pool);
  PagePool::Page first = *pool.take(), second = *pool.take();
  checker.check({1, {5, 6, 7}, 0, {first, second}, 0}, {5, 6, 7});
  // Position 3 sees 1 to 3, position 4 sees 2 to 4.
  PagePool::Page third = *pool.take();
  std::vector<int32_t> pages = {noPage, second, third};
  EXPECT_THROW(checker.check({1, {8}, 3, pages, 0}, {5, 6, 7, 8}),
               std::logic_error);
  checker.check({1, {8}, 3, {first, second, third}, 0}, {5, 6, 7, 8});
  checker.check({1, {9}, 4, pages, 0}, {5, 6, 7, 8, 9});
}

TEST(PageChecker, PagesOfOthersAreNoticed) {
  PagePool pool(4, {2});
  PageChecker checker(pool);
  PagePool::Page page = *pool.take(), other = *pool.take();
  checker.check({1, {5, 6}, 0, {page}, 0}, {5, 6});
  checker.check({1, {7}, 2, {page, other}, 0}, {5, 6, 7});
  // Another sequence's tokens, a page without an owner, and a shared one.
  EXPECT_THROW(checker.check({2, {7}, 2, {page, other}, 0}, {5, 5, 7}),
               std::logic_error);
  EXPECT_THROW(checker.check({2, {7}, 2, {page}, 0}, {5, 6, 7}),
               std::logic_error);
  Tokens tokens = {5, 6};
  pool.publish(page, tokens.data(), 0);
  EXPECT_THROW(checker.check({1, {5, 6}, 0, {page}, 0}, {5, 6}),
               std::logic_error);
  pool.release(page);
  EXPECT_THROW(checker.check({1, {7}, 2, {page, other}, 0}, {5, 6, 7}),
               std::logic_error);
}
