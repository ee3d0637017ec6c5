//===- CompletionLoop.cpp - Generate text for many requests ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the scheduler's tokens into text for clients, with stop strings and
// offsets of characters.
//
//===----------------------------------------------------------------------===//

#include "CompletionLoop.h"
#include "heddle/runtime/io/tokenizer/Unicode.h"

using namespace heddle;
using namespace heddle::rt;
using Clock = Scheduler::Clock;

CompletionLoop::CompletionLoop(Engine &engine, const Options &options,
                               Metrics &metrics, Deliver deliver)
    : options(options), metrics(metrics), deliver(std::move(deliver)),
      scheduler(engine, *this, options.checksPages, options.draft) {
  metrics.update(scheduler);
}

/// `part` is the text that a token completes. Returns the number of characters
/// in `part` that come from earlier tokens. The bytes of these characters were
/// held back, because they looked like the beginning of an incomplete UTF-8
/// character.
static int64_t charactersBefore(const io::Tokenizer &tokenizer, int32_t token,
                                const std::string &part) {
  const std::string piece = tokenizer.pieceOf(token);
  bool endsWith =
      part.size() > piece.size() &&
      part.compare(part.size() - piece.size(), piece.size(), piece) == 0;
  if (!endsWith || !io::unicode::isValid(piece))
    return 0;
  return io::unicode::countCharacters(
      part.substr(0, part.size() - piece.size()));
}

bool CompletionLoop::onToken(uint64_t id, int32_t token,
                             const std::vector<TokenLogprob> &logprobs) {
  Sequence &seq = sequences.at(id);
  Clock::time_point now = Clock::now();
  double seconds = std::chrono::duration<double>(now - seq.last).count();
  if (seq.hasToken)
    metrics.betweenTokens(seconds);
  else
    metrics.firstToken(seconds);
  std::string part = seq.stream
                         ? seq.stream->add({token})
                         : (seq.hasToken ? " " : "") + std::to_string(token);
  seq.last = now;
  seq.hasToken = true;
  int64_t offset = seq.characters;
  if (seq.stream)
    offset += charactersBefore(*options.tokenizer, token, part);
  seq.characters += io::unicode::countCharacters(part);
  events.push_back(
      {id, seq.filter.add(part), token, logprobs, offset, std::nullopt});
  return seq.filter.hasStopped();
}

void CompletionLoop::onPrompt(uint64_t id,
                              const std::vector<TokenLogprob> &logprobs) {
  Sequence &seq = sequences.at(id);
  int32_t token = logprobs.front().token;
  std::string part = seq.promptStream ? seq.promptStream->add({token})
                                      : std::to_string(token) + " ";
  int64_t offset = seq.promptCharacters;
  if (seq.promptStream)
    offset += charactersBefore(*options.tokenizer, token, part);
  seq.promptCharacters += io::unicode::countCharacters(part);
  events.push_back({id, "", std::nullopt, logprobs, offset, std::nullopt});
}

void CompletionLoop::onEnd(uint64_t id, FinishReason end) {
  Sequence &seq = sequences.at(id);
  std::string part;
  if (seq.stream)
    part = seq.filter.add(seq.stream->finish());
  part += seq.filter.finish();
  events.push_back({id, part, std::nullopt, {}, seq.characters, end});
  sequences.erase(id);
}

void CompletionLoop::takeRequests() {
  auto [came, gone] = inbox.take(/*waits=*/scheduler.isIdle());
  for (Submission &each : came) {
    uint64_t id = each.request.id;
    Sequence seq(options.tokenizer, each);
    seq.last = Clock::now();
    sequences.emplace(id, std::move(seq));
    scheduler.submit(std::move(each.request));
  }
  for (uint64_t id : gone)
    if (scheduler.cancel(id))
      sequences.erase(id);
}

int CompletionLoop::run(const std::function<int()> &stopSignal) {
  auto turn = [&] {
    scheduler.step(Clock::now());
    metrics.update(scheduler);
    if (!events.empty())
      deliver(std::exchange(events, {}));
  };
  int signal = inbox.run(
      stopSignal, [&] { takeRequests(); }, [&] { return scheduler.isIdle(); },
      turn);
  metrics.update(scheduler);
  return signal;
}
