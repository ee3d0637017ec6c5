//===- TextLoop.cpp - Tokens of many texts, as texts ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/TextLoop.h"
#include "runtime/io/tokenizer/Unicode.h"

using namespace heddle;
using namespace heddle::rt;
using Clock = Scheduler::Clock;

TextLoop::TextLoop(Engine &engine, const Options &options, Metrics &metrics,
                   Deliver deliver)
    : options(options), metrics(metrics), deliver(std::move(deliver)),
      scheduler(engine, *this, options.checksPages, options.draft) {
  metrics.update(scheduler);
}

/// The characters of `part` before its token: it begins with bytes of earlier
/// tokens where these turned out to be no character.
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

bool TextLoop::onToken(uint64_t id, int32_t token,
                       const std::vector<TokenLogprob> &logprobs) {
  Text &text = texts.at(id);
  Clock::time_point now = Clock::now();
  double seconds = std::chrono::duration<double>(now - text.last).count();
  if (text.hasToken)
    metrics.betweenTokens(seconds);
  else
    metrics.firstToken(seconds);
  std::string part = text.stream
                         ? text.stream->add({token})
                         : (text.hasToken ? " " : "") + std::to_string(token);
  text.last = now;
  text.hasToken = true;
  int64_t offset = text.characters;
  if (text.stream)
    offset += charactersBefore(*options.tokenizer, token, part);
  text.characters += io::unicode::countCharacters(part);
  events.push_back(
      {id, text.filter.add(part), token, logprobs, offset, std::nullopt});
  return text.filter.hasStopped();
}

void TextLoop::onPrompt(uint64_t id,
                        const std::vector<TokenLogprob> &logprobs) {
  Text &text = texts.at(id);
  int32_t token = logprobs.front().token;
  std::string part = text.promptStream ? text.promptStream->add({token})
                                       : std::to_string(token) + " ";
  int64_t offset = text.promptCharacters;
  if (text.promptStream)
    offset += charactersBefore(*options.tokenizer, token, part);
  text.promptCharacters += io::unicode::countCharacters(part);
  events.push_back({id, "", std::nullopt, logprobs, offset, std::nullopt});
}

void TextLoop::onEnd(uint64_t id, TextEnd end) {
  Text &text = texts.at(id);
  std::string part;
  if (text.stream)
    part = text.filter.add(text.stream->finish());
  part += text.filter.finish();
  events.push_back({id, part, std::nullopt, {}, text.characters, end});
  texts.erase(id);
}

void TextLoop::takeRequests() {
  auto [came, gone] = inbox.take(/*waits=*/scheduler.isIdle());
  for (Asked &each : came) {
    uint64_t id = each.request.id;
    Text text(options.tokenizer, each);
    text.last = Clock::now();
    texts.emplace(id, std::move(text));
    scheduler.submit(std::move(each.request));
  }
  for (uint64_t id : gone)
    if (scheduler.cancel(id))
      texts.erase(id);
}

int TextLoop::run(const std::function<int()> &stopSignal) {
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
