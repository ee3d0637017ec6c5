//===- TextLoop.h - Tokens of many texts, as texts ------------ -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_TEXTLOOP_H
#define HEDDLE_RUNTIME_SERVE_TEXTLOOP_H

#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/Metrics.h"
#include "heddle/runtime/serve/RequestInbox.h"
#include "heddle/runtime/serve/Scheduler.h"
#include "heddle/runtime/serve/StopFilter.h"

namespace heddle::rt {

/// What has happened to a text.
struct TextEvent {
  uint64_t id = 0;
  std::string part; ///< That follows what was told before.
  std::optional<int32_t> token;
  std::vector<TokenLogprob> logprobs; ///< Of it, or of one of the prompt.
  /// Where that token begins: characters before it, of the prompt where it is
  /// one of its tokens, else of what was generated.
  int64_t offset = 0;
  std::optional<TextEnd> end;
};

/// Runs a scheduler for requests that come from other threads, and tells what
/// it makes as text: as the tokenizer has it, without texts that stop it.
class TextLoop : private TextListener {
public:
  /// What happened in a run, told on the thread of `run`.
  using Deliver = std::function<void(std::vector<TextEvent>)>;
  struct Options {
    const io::Tokenizer *tokenizer = nullptr; ///< Null: numbers and blanks.
    bool checksPages = false;                 ///< See PageChecker.
    Engine *draft = nullptr;                  ///< See Scheduler.
  };
  TextLoop(Engine &engine, const Options &options, Metrics &metrics,
           Deliver deliver);

  struct Asked {
    TextRequest request;
    std::vector<std::string> stops;
    /// Whether the text goes on from the prompt's; else it stands for itself.
    bool goesOn = false;
  };
  /// Any thread may call these.
  void submit(std::vector<Asked> asked) { inbox.submit(std::move(asked)); }
  void cancel(const std::vector<uint64_t> &ids) { inbox.cancel(ids); }
  /// Whether a signal came: what is submitted now may not be heard.
  bool isDraining() const { return inbox.isDraining(); }

  /// See Scheduler.
  int64_t longest() const { return scheduler.longest(); }

  /// Runs until `stopSignal` gives something else than 0 and all texts have
  /// ended; returns it. Throws what the engine throws.
  int run(const std::function<int()> &stopSignal);

private:
  struct Text {
    Text(const io::Tokenizer *tokenizer, const Asked &asked)
        : filter(asked.stops) {
      if (!tokenizer)
        return;
      stream.emplace(*tokenizer, asked.goesOn ? asked.request.prompt
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
  void onEnd(uint64_t id, TextEnd end) override;
  /// Waits for requests if there is nothing else to do, and takes them.
  void takeRequests();

  const Options options;
  Metrics &metrics;
  Deliver deliver;
  Scheduler scheduler;
  std::unordered_map<uint64_t, Text> texts;
  std::vector<TextEvent> events; ///< Of this run.
  RequestInbox<Asked> inbox;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_TEXTLOOP_H
