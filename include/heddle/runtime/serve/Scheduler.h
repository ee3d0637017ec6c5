//===- Scheduler.h - What is computed next ------------------------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences are computed together, a token each in a run of the engine, and
// enter and leave between runs (Yu et al., "Orca", 2022). Prompts are computed
// in chunks beside them (Agrawal et al., "Sarathi-Serve", 2024, arXiv
// 2403.02310).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_SCHEDULER_H
#define HEDDLE_RUNTIME_SERVE_SCHEDULER_H

#include "heddle/runtime/serve/Drafter.h"
#include "heddle/runtime/serve/FairQueue.h"

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

namespace heddle::rt {

/// A sequence to be continued.
struct SequenceRequest {
  using Clock = std::chrono::steady_clock;
  uint64_t id = 0;    ///< Not 0, and different for each that lives.
  std::string client; ///< Clients have their turns alike.
  std::vector<int32_t> prompt;
  int64_t maxTokens = 0;     ///< To add; none only with `scoresPrompt`.
  std::vector<int64_t> ends; ///< Tokens that end the sequence.
  SamplingOptions sampling;
  /// How many of the likeliest tokens are told with each; -1: no logprobs.
  int64_t logprobs = -1;
  /// The prompt's tokens are told, too, with logprobs where those are; needs
  /// the engine's `maxScored`.
  bool scoresPrompt = false;
  Clock::time_point deadline = Clock::time_point::max();
  /// A request with the same prompt, whose pages this one waits for; 0: none.
  uint64_t after = 0;
};

enum class FinishReason {
  Stop,      ///< At a token of `ends`, or where the listener said so.
  Length,    ///< `maxTokens`, or the most that a sequence can have.
  Expired,   ///< The deadline has passed.
  NotFinite, ///< The model's logits are not.
};

/// Hears of the sequences, during Scheduler::step; must not call the scheduler.
class SequenceListener {
public:
  virtual ~SequenceListener() = default;
  /// A token of the sequence, with what was asked for as `logprobs`; true ends
  /// the sequence.
  virtual bool onToken(uint64_t id, int32_t token,
                       const std::vector<TokenLogprob> &logprobs) = 0;
  /// A token of the prompt of a sequence that scores it; the first has no
  /// probability, NaN.
  virtual void onPrompt(uint64_t /*id*/,
                        const std::vector<TokenLogprob> & /*logprobs*/) {}
  /// The last that is heard of a sequence.
  virtual void onEnd(uint64_t id, FinishReason end) = 0;
};

/// What a scheduler has done so far.
struct SchedulerCounts {
  int64_t runs = 0;
  int64_t promptTokens = 0; ///< Computed, those computed again included.
  int64_t sharedTokens = 0; ///< Found in pages of others.
  int64_t newTokens = 0;
  int64_t preempted = 0;
  int64_t guesses = 0;      ///< That a draft made, and were computed.
  int64_t rightGuesses = 0; ///< Tokens of sequences among them.
};

/// Decides which tokens the engine computes. A sequence depends on its request
/// alone, not on the others, on when it came or on the group of ranks that
/// computes it. Used by one thread.
class Scheduler {
public:
  using Clock = SequenceRequest::Clock;

  /// `draft` guesses tokens for the engine, of the same vocabulary: then each
  /// run gives a sequence one token and those guesses before it that were
  /// right.
  Scheduler(Engine &engine, SequenceListener &listener,
            bool checksPages = false, Engine *draft = nullptr);

  /// The most tokens that a sequence can have, prompt and sequence: what the
  /// model and the whole cache allow.
  int64_t longest() const { return mostTokens; }
  /// Takes a request, whose prompt has between one token and `longest() - 1`,
  /// all in the vocabulary.
  void submit(SequenceRequest request);
  /// Ends a sequence, of which no more is heard; false when it has ended
  /// already.
  bool cancel(uint64_t id);
  /// One run of the engine, if there is anything to compute; `now` decides
  /// which deadlines have passed. Throws what the engine throws.
  void step(Clock::time_point now);

  bool isIdle() const { return sequences.empty(); }
  int64_t numWaiting() const { return queue.size(); }
  int64_t numRunning() const;
  /// The groups of ranks of the engine; the sequences that one computes, and
  /// who has its pages.
  int64_t numGroups() const { return groups.size(); }
  int64_t numRunning(int64_t group) const {
    return groups[group].running.size();
  }
  const PagePool &pagePool(int64_t group = 0) const {
    return groups[group].pool;
  }
  const SchedulerCounts &counts() const { return counted; }

private:
  struct Sequence;
  /// Ranks that compute sequences of their own.
  struct Group {
    Group(int64_t number, const EngineLimits &limits)
        : number(number), pool(limits.numPages, limits.cachePages()) {}
    int64_t number;
    PagePool pool;
    std::optional<PageChecker> checker; ///< Of this pool.
    std::vector<Sequence *> running;    ///< In the order in which they began.
  };
  struct Sequence {
    Sequence(SequenceRequest asked)
        : request(std::move(asked)),
          sampler(request.sampling, request.prompt.size()),
          tokens(request.prompt) {}
    SequenceRequest request;
    Sampler sampler;
    /// Prompt, and what was added; during a run also guesses.
    std::vector<int32_t> tokens;
    int64_t guessed = 0; ///< So many of them.
    int64_t reach = 0;   ///< How many will be guessed, if there is room.
    int64_t made = 0;
    int64_t computed = 0; ///< Positions that are in the cache.
    int64_t drafted = 0;  ///< The same of the draft's.
    std::vector<int32_t> pages;
    int64_t published = 0; ///< Pages, from the first on.
    int64_t givenBack = 0; ///< Pages from the first on that nobody sees now.
    PagePool::Chain chain = 0;
    bool hasBegun = false;  ///< Its prompt has been computed once.
    size_t told = 0;        ///< Tokens of a prompt that is scored.
    Group *group = nullptr; ///< That computes it; null: it waits.
  };
  using Sequences = std::unordered_map<uint64_t, Sequence>;

  void expire(Clock::time_point now);
  void admit();
  /// Begins a sequence in the group that has most of its first tokens in pages,
  /// and of several in the one that keeps the most pages to give; false where
  /// none has room.
  bool tryToBegin(Sequence &sequence);
  void begin(Sequence &sequence, Group &group);
  /// Gives running sequences the pages for their next token; those that began
  /// last wait again where there are not enough.
  void growPages(Group &group);
  void preempt(Sequence &sequence);
  /// Lets the draft guess for the sequences that have computed their prompts.
  void guess();
  /// How many guesses a sequence has use and pages for.
  int64_t roomForGuesses(Sequence &sequence);
  void collectFeeds();
  /// With at most so many tokens of prompts.
  void collectFeeds(Group &group, int64_t promptTokens);
  /// Tokens of prompts that a group computes in a run.
  int64_t promptTokensOfRun() const;
  void takeResult(Sequence &sequence, const Feed &feed, float *logits);
  /// Positions that are in the caches, if there are two, of both.
  int64_t cached(const Sequence &sequence) const {
    return drafter ? std::min(sequence.computed, sequence.drafted)
                   : sequence.computed;
  }
  /// Whether there is more to compute than the next token.
  static bool isPrompt(const Sequence &sequence) {
    return int64_t(sequence.tokens.size()) - sequence.computed >
           1 + sequence.guessed;
  }
  /// Whether logits of the prompt's tokens are wanted yet.
  static bool isScored(const Sequence &sequence) {
    return sequence.request.scoresPrompt && !sequence.hasBegun;
  }
  /// Tells the prompt's first token, and those behind `count` from `position`
  /// on, of which these are the logits; how the sequence ended.
  std::optional<FinishReason> tellPrompt(Sequence &sequence, int64_t position,
                                         int64_t count, float *logits);
  /// Chooses tokens as long as guesses were right; how the sequence ended.
  std::optional<FinishReason>
  addTokens(Sequence &sequence, std::vector<int32_t> guesses, float *logits);
  void publishPages(Sequence &sequence);
  void giveBackPages(Sequence &sequence);
  /// Chooses the next token; whether the sequence goes on, or how it ended.
  std::optional<FinishReason> addToken(Sequence &sequence, float *logits);
  void stopRunning(Sequence &sequence);
  /// Forgets a sequence.
  void drop(Sequences::iterator sequence);
  /// Pages that a sequence has when `computed` of its tokens are in the cache,
  /// and the next ones are computed.
  int64_t pagesFor(const Sequence &sequence, int64_t computed) const;
  /// Pages that a sequence can begin with, at most: of its tokens but the last,
  /// and none while the prompt's own are wanted.
  int64_t mostShared(const Sequence &sequence) const {
    if (isScored(sequence))
      return 0;
    return (int64_t(sequence.tokens.size()) - 1) / limits.pageTokens;
  }

  Engine &engine;
  SequenceListener &listener;
  const EngineLimits limits;
  std::deque<Group> groups; ///< Which stay where they are.
  std::optional<Drafter> drafter;
  int64_t mostTokens;
  Sequences sequences;
  FairQueue queue;
  std::unordered_map<std::string, int64_t> sequencesOfClient;
  std::vector<Feed> feeds; ///< Of this run.
  std::vector<float> logits;
  SchedulerCounts counted;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_SCHEDULER_H
