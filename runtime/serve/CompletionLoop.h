//===- CompletionLoop.h - Generate text for many requests -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop that generates: takes requests from the HTTP thread, runs the
// scheduler, and turns its tokens into text for the clients.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_COMPLETIONLOOP_H
#define HEDDLE_RUNTIME_SERVE_COMPLETIONLOOP_H

#include "Metrics.h"
#include "RequestInbox.h"
#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/Scheduler.h"
#include "heddle/runtime/serve/StopFilter.h"

namespace heddle::rt {

/// What has happened to a sequence: text or a token was added, or the sequence
/// has ended.
struct SequenceEvent {
  uint64_t id = 0;
  std::string part; ///< Text that was added.
  std::optional<int32_t> token;
  /// Log probabilities of `token`, or of a prompt token.
  std::vector<TokenLogprob> logprobs;
  /// The number of characters before the event's token. For a token of the
  /// prompt, characters of the prompt are counted, else characters of the
  /// generated text.
  int64_t offset = 0;
  std::optional<FinishReason> end;
};

/// Runs a scheduler for requests of other threads and reports generated text:
/// decoded by the tokenizer, up to a stop string.
class CompletionLoop : private SequenceListener {
public:
  /// Receives the events of one run of the engine. It is called on the thread
  /// that has called `run`.
  using Deliver = std::function<void(std::vector<SequenceEvent>)>;
  struct Options {
    /// Null if the model has no tokenizer. Text is then token ids separated by
    /// blanks.
    const io::Tokenizer *tokenizer = nullptr;
    bool checksPages = false; ///< See PageChecker.
    Engine *draft = nullptr;  ///< See Scheduler.
  };
  CompletionLoop(Engine &engine, const Options &options, Metrics &metrics,
                 Deliver deliver);

  struct Submission {
    SequenceRequest request;
    std::vector<std::string> stops;
    /// Whether the generated text continues the text of the prompt. If not, it
    /// is decoded without the prompt, as the answer of a chat is.
    bool continuesPrompt = false;
  };
  /// `submit` and `cancel` are thread-safe.
  void submit(std::vector<Submission> asked) { inbox.submit(std::move(asked)); }
  void cancel(const std::vector<uint64_t> &ids) { inbox.cancel(ids); }
  /// Whether a stop signal has come: submissions may be ignored.
  bool isDraining() const { return inbox.isDraining(); }

  /// See Scheduler.
  int64_t longest() const { return scheduler.longest(); }

  /// Runs until `stopSignal` is not 0 and all sequences have ended; returns the
  /// signal. Throws the errors of the engine.
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
    int64_t characters = 0, promptCharacters = 0; ///< Decoded so far.
    /// The time at which the last token was generated. Before the first token,
    /// the time at which the request was submitted.
    Scheduler::Clock::time_point last;
    bool hasToken = false;
  };

  bool onToken(uint64_t id, int32_t token,
               const std::vector<TokenLogprob> &logprobs) override;
  void onPrompt(uint64_t id,
                const std::vector<TokenLogprob> &logprobs) override;
  void onEnd(uint64_t id, FinishReason end) override;
  /// Gives submitted requests to the scheduler. Waits a moment for requests if
  /// there is no other work.
  void takeRequests();

  const Options options;
  Metrics &metrics;
  Deliver deliver;
  Scheduler scheduler;
  std::unordered_map<uint64_t, Sequence> sequences;
  std::vector<SequenceEvent> events; ///< Events of the current run.
  RequestInbox<Submission> inbox;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_COMPLETIONLOOP_H
