//===- Scheduler.h - Continuous batching ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Continuous batching: decides which tokens the engine computes in each run.
// Running sequences get one token each, and enter and leave between runs (Yu et
// al., "Orca", 2022). The same runs also compute prompts, in chunks (Agrawal et
// al., "Sarathi-Serve", 2024, arXiv 2403.02310).
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

/// A request to generate one sequence.
struct SequenceRequest {
  using Clock = std::chrono::steady_clock;
  uint64_t id = 0;    ///< Unique among live sequences; not 0.
  std::string client; ///< Who asks; clients are served fairly.
  std::vector<int32_t> prompt;
  /// Limit of generated tokens; 0 only if `scoresPrompt`.
  int64_t maxTokens = 0;
  std::vector<int64_t> ends; ///< Tokens that end the sequence.
  SamplingOptions sampling;
  /// Number of likeliest tokens that are reported with each token; -1: no log
  /// probabilities.
  int64_t logprobs = -1;
  /// Also report the prompt's tokens, with their log probabilities if
  /// `logprobs` >= 0. Needs an engine with EngineLimits::maxScored > 0.
  bool scoresPrompt = false;
  Clock::time_point deadline = Clock::time_point::max();
  /// The id of another sequence with the same prompt; 0: none. The prompt of
  /// that sequence is computed first, so that this sequence can share its
  /// pages.
  uint64_t after = 0;
};

enum class FinishReason {
  Stop,      ///< A token of `ends` came, or the listener returned true.
  Length,    ///< A limit was reached: `maxTokens`, or `longest`.
  Expired,   ///< The deadline has passed.
  NotFinite, ///< The model's logits are infinite or NaN.
};

/// Receives tokens and ends of sequences, during Scheduler::step. It must not
/// call the scheduler.
class SequenceListener {
public:
  virtual ~SequenceListener() = default;
  /// A token was generated; `logprobs` as requested. Returns true to end the
  /// sequence.
  virtual bool onToken(uint64_t id, int32_t token,
                       const std::vector<TokenLogprob> &logprobs) = 0;
  /// A token of the prompt was scored. The first one's log probability is NaN.
  virtual void onPrompt(uint64_t /*id*/,
                        const std::vector<TokenLogprob> & /*logprobs*/) {}
  /// The sequence has ended; no more calls for this id.
  virtual void onEnd(uint64_t id, FinishReason end) = 0;
};

/// Counters of a scheduler.
struct SchedulerCounts {
  int64_t runs = 0;
  /// The number of prompt tokens that were computed. A token that is computed
  /// again after a preemption counts again.
  int64_t promptTokens = 0;
  /// Prompt tokens found in pages of other sequences.
  int64_t sharedTokens = 0;
  int64_t newTokens = 0;
  int64_t preempted = 0;
  int64_t guesses = 0;      ///< Drafted tokens that were verified.
  int64_t rightGuesses = 0; ///< Drafted tokens that were accepted.
};

/// Decides which tokens the engine computes in each run (continuous batching).
/// The tokens of a sequence depend only on its request: not on other sequences,
/// its arrival, or the group of ranks that computes it. Used by one thread.
class Scheduler {
public:
  using Clock = SequenceRequest::Clock;

  /// `draft`, if not null, is a draft model with the same vocabulary. Then each
  /// run yields, for a sequence, the accepted drafted tokens and one more.
  Scheduler(Engine &engine, SequenceListener &listener,
            bool checksPages = false, Engine *draft = nullptr);

  /// Returns the largest possible length of a sequence, prompt included: the
  /// limit of the model and of the cache.
  int64_t longest() const { return mostTokens; }
  /// Adds a request. Its prompt has 1 to `longest() - 1` tokens, all in the
  /// vocabulary.
  void submit(SequenceRequest request);
  /// Ends a sequence without further calls of the listener; false if it has
  /// ended already.
  bool cancel(uint64_t id);
  /// Runs the engine once if there is work. `now` decides which deadlines have
  /// passed. Throws the errors of the engine.
  void step(Clock::time_point now);

  bool isIdle() const { return sequences.empty(); }
  int64_t numWaiting() const { return queue.size(); }
  int64_t numRunning() const;
  /// The number of data-parallel groups of ranks. Each group runs sequences of
  /// its own (`numRunning`) and has a page pool of its own (`pagePool`).
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
  /// A replica of the model: ranks that together compute some of the sequences.
  struct Group {
    Group(int64_t number, const EngineLimits &limits)
        : number(number), pool(limits.numPages, limits.cachePages()) {}
    int64_t number;
    PagePool pool;
    std::optional<PageChecker> checker; ///< Checks `pool`, if requested.
    /// The sequences that run, in the order in which they began.
    std::vector<Sequence *> running;
  };
  struct Sequence {
    Sequence(SequenceRequest asked)
        : request(std::move(asked)),
          sampler(request.sampling, request.prompt.size()),
          tokens(request.prompt) {}
    SequenceRequest request;
    Sampler sampler;
    /// The prompt's tokens and the generated tokens. During a run, drafted
    /// tokens follow.
    std::vector<int32_t> tokens;
    int64_t guessed = 0; ///< Number of drafted tokens in `tokens`.
    int64_t reach = 0;   ///< Number of tokens to draft if there is room.
    int64_t made = 0;
    int64_t computed = 0; ///< Number of tokens in the engine's cache.
    int64_t drafted = 0;  ///< Number of tokens in the draft model's cache.
    std::vector<int32_t> pages;
    /// Number of pages at the beginning of the sequence that other sequences
    /// can share (PagePool::publish).
    int64_t published = 0;
    /// Number of leading pages that were released because they are outside the
    /// attention window.
    int64_t givenBack = 0;
    PagePool::Chain chain = 0;
    bool hasBegun = false; ///< The whole prompt was computed once.
    size_t told = 0;       ///< Prompt tokens that were reported.
    /// The group that runs the sequence; null while it waits.
    Group *group = nullptr;
  };
  using Sequences = std::unordered_map<uint64_t, Sequence>;

  void expire(Clock::time_point now);
  void admit();
  /// Starts a sequence in one of the groups that have room for it. Prefers the
  /// group whose cache already has most pages of the sequence's prompt, unless
  /// other groups run fewer sequences. Else chooses the group with most
  /// available pages. Returns false if no group has room.
  bool tryToBegin(Sequence &seq);
  void begin(Sequence &seq, Group &group);
  /// Allocates pages for the next tokens of running sequences. If pages run
  /// out, the sequences that began last are preempted.
  void growPages(Group &group);
  void preempt(Sequence &seq);
  /// Drafts tokens for the sequences whose prompt is in the cache completely.
  void guess();
  /// Returns how many tokens to draft for a sequence. The number is limited by
  /// the tokens that the sequence may still generate, and by the pages for
  /// them.
  int64_t roomForGuesses(Sequence &seq);
  void collectFeeds();
  /// Adds to `feeds` the tokens that the next run of the model computes for
  /// each running sequence of the group. At most `promptTokens` of them are
  /// tokens of prompts.
  void collectFeeds(Group &group, int64_t promptTokens);
  /// Returns how many prompt tokens each group (replica of the model) may
  /// compute in the next run of the model.
  int64_t promptTokensOfRun() const;
  void takeResult(Sequence &seq, const Feed &feed, float *logits);
  /// Returns how many tokens of a sequence are in the cache. If there is a
  /// draft model, a token only counts if it is in the caches of both models.
  int64_t cached(const Sequence &seq) const {
    return drafter ? std::min(seq.computed, seq.drafted) : seq.computed;
  }
  /// Whether the engine has to compute a chunk of the prompt next, rather than
  /// only the newest token and drafted tokens.
  static bool isPrompt(const Sequence &seq) {
    return int64_t(seq.tokens.size()) - seq.computed > 1 + seq.guessed;
  }
  /// Whether logits of prompt tokens are still to be reported.
  static bool isScored(const Sequence &seq) {
    return seq.request.scoresPrompt && !seq.hasBegun;
  }
  /// Reports prompt tokens with their log probabilities to the listener.
  /// `logits` has the logits of `count` tokens from `position` on. The logits
  /// of a token give the probability of the token after it, so the prompt's
  /// first token is reported without a log probability. Returns the reason if
  /// the sequence has ended.
  std::optional<FinishReason> tellPrompt(Sequence &seq, int64_t position,
                                         int64_t count, float *logits);
  /// Samples tokens from `logits` until a sampled token differs from the
  /// drafted one. Returns the reason if the sequence has ended.
  std::optional<FinishReason>
  addTokens(Sequence &seq, std::vector<int32_t> guesses, float *logits);
  void publishPages(Sequence &seq);
  void giveBackPages(Sequence &seq);
  /// Samples the next token. Returns the reason if the sequence has ended.
  std::optional<FinishReason> addToken(Sequence &seq, float *logits);
  void stopRunning(Sequence &seq);
  /// Forgets a sequence.
  void drop(Sequences::iterator seq);
  /// Returns how many pages a sequence needs when `computed` of its tokens are
  /// in the cache and its next tokens are to be computed. The pages of the
  /// tokens in the cache are included.
  int64_t pagesFor(const Sequence &seq, int64_t computed) const;
  /// Returns how many pages of other sequences this sequence may use for its
  /// first tokens. The page of its last token is excluded, because that token
  /// must be computed to get logits. The result is 0 while the logits of all
  /// prompt tokens are wanted.
  int64_t mostShared(const Sequence &seq) const {
    if (isScored(seq))
      return 0;
    return (int64_t(seq.tokens.size()) - 1) / limits.pageTokens;
  }

  Engine &engine;
  SequenceListener &listener;
  const EngineLimits limits;
  std::deque<Group> groups; ///< A deque, since sequences point to their groups.
  std::optional<Drafter> drafter;
  int64_t mostTokens;
  Sequences sequences;
  FairQueue queue;
  std::unordered_map<std::string, int64_t> sequencesOfClient;
  std::vector<Feed> feeds; ///< Feeds of the current run.
  std::vector<float> logits;
  SchedulerCounts counted;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_SCHEDULER_H
