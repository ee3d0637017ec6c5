//===- CompletionLoop.h - Tokens of many sequences, as sequences ------------
//-*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_COMPLETIONLOOP_H
#define HEDDLE_RUNTIME_SERVE_COMPLETIONLOOP_H

#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/Metrics.h"
#include "heddle/runtime/serve/RequestInbox.h"
#include "heddle/runtime/serve/Scheduler.h"
#include "heddle/runtime/serve/StopFilter.h"

namespace heddle::rt {

/// What has happened to a sequence.
struct SequenceEvent {
  uint64_t id = 0;
  std::string part; ///< That follows what was told before.
  std::optional<int32_t> token;
  std::vector<TokenLogprob> logprobs; ///< Of it, or of one of the prompt.
  /// Where that token begins: characters before it, of the prompt where it is
  /// one of its tokens, else of what was generated.
  int64_t offset = 0;
  std::optional<FinishReason> end;
};

/// Runs a scheduler for requests that come from other threads, and tells what
/// it makes as sequence: as the tokenizer has it, without sequences that stop
/// it.
class CompletionLoop : private SequenceListener {
public:
  /// What happened in a run, told on the thread of `run`.
  using Deliver = std::function<void(std::vector<SequenceEvent>)>;
  struct Options {
    const io::Tokenizer *tokenizer = nullptr; ///< Null: numbers and blanks.
    bool checksPages = false;                 ///< See PageChecker.
    Engine *draft = nullptr;                  ///< See Scheduler.
  };
  CompletionLoop(Engine &engine, const Options &options, Metrics &metrics,
                 Deliver deliver);

  struct Submission {
    SequenceRequest request;
    std::vector<std::string> stops;
    /// Whether the sequence goes on from the prompt's; else it stands for
    /// itself.
    bool continuesPrompt = false;
  };
  /// Any thread may call these.
  void submit(std::vector<Submission> asked) { inbox.submit(std::move(asked)); }
  void cancel(const std::vector<uint64_t> &ids) { inbox.cancel(ids); }
  /// Whether a signal came: what is submitted now may not be heard.
  bool isDraining() const { return inbox.isDraining(); }

  /// See Scheduler.
  int64_t longest() const { return scheduler.longest(); }

  /// Runs until `stopSignal` gives something else than 0 and all sequences have
  /// ended; returns it. Throws what the engine throws.
  int run(const std::function<int()> &stopSignal);

private:
  struct Sequence {
    Sequence(const io::Tokenizer *tokenizer, const Submission &asked)
        : filter(asked.stops) {
      if (!tokenizer)
        return;
      stream.emplace(*tokenizer, asked.continuesPrompt
                                     ? asked.request.prompt
                                     : std::vector<int32_t>());
      promptStream.emplace(*tokenizer);
    }
    std::optional<io::TextStream> stream, promptStream;
    StopFilter filter;
    int64_t characters = 0, promptCharacters = 0; ///< Of their tokens so far.
    Scheduler::Clock::time_point last; ///< When it came, or its last token.
    bool hasToken = false;
  };

  bool onToken(uint64_t id, int32_t token,
               const std::vector<TokenLogprob> &logprobs) override;
  void onPrompt(uint64_t id,
                const std::vector<TokenLogprob> &logprobs) override;
  void onEnd(uint64_t id, FinishReason end) override;
  /// Waits for requests if there is nothing else to do, and takes them.
  void takeRequests();

  const Options options;
  Metrics &metrics;
  Deliver deliver;
  Scheduler scheduler;
  std::unordered_map<uint64_t, Sequence> sequences;
  std::vector<SequenceEvent> events; ///< Of this run.
  RequestInbox<Submission> inbox;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_COMPLETIONLOOP_H
