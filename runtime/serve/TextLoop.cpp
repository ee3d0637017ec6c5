//===- TextLoop.cpp - Tokens of many texts, as texts ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/TextLoop.h"

using namespace heddle;
using namespace heddle::rt;
using Clock = Scheduler::Clock;

TextLoop::TextLoop(Engine &engine, const Options &options, Metrics &metrics,
                   Deliver deliver)
    : options(options), metrics(metrics), deliver(std::move(deliver)),
      scheduler(engine, *this, options.checksPages) {
  metrics.update(scheduler);
}

void TextLoop::submit(std::vector<Asked> more) {
  std::lock_guard lock(mutex);
  for (Asked &each : more)
    asked.push_back(std::move(each));
  hasCome.notify_one();
}

void TextLoop::cancel(const std::vector<uint64_t> &ids) {
  std::lock_guard lock(mutex);
  cancelled.insert(cancelled.end(), ids.begin(), ids.end());
  hasCome.notify_one();
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
  events.push_back({id, text.filter.add(part), token, logprobs, std::nullopt});
  return text.filter.hasStopped();
}

void TextLoop::onEnd(uint64_t id, TextEnd end) {
  Text &text = texts.at(id);
  std::string part;
  if (text.stream)
    part = text.filter.add(text.stream->finish());
  part += text.filter.finish();
  events.push_back({id, part, std::nullopt, {}, end});
  texts.erase(id);
}

void TextLoop::takeRequests() {
  std::vector<Asked> came;
  std::vector<uint64_t> gone;
  {
    std::unique_lock lock(mutex);
    if (scheduler.isIdle())
      // Signals are looked at from time to time.
      hasCome.wait_for(lock, std::chrono::milliseconds(50),
                       [&] { return !asked.empty() || !cancelled.empty(); });
    came.swap(asked);
    gone.swap(cancelled);
  }
  for (Asked &each : came) {
    uint64_t id = each.request.id;
    Text text(options.tokenizer, std::move(each.stops));
    text.last = Clock::now();
    texts.emplace(id, std::move(text));
    scheduler.submit(std::move(each.request));
  }
  for (uint64_t id : gone)
    if (scheduler.cancel(id))
      texts.erase(id);
}

int TextLoop::run(const std::function<int()> &stopSignal) {
  int signal = 0;
  for (;;) {
    if (signal == 0)
      signal = stopSignal();
    // What comes before others know of the signal is still taken.
    bool isLast = draining;
    draining = signal != 0;
    takeRequests();
    if (isLast && scheduler.isIdle())
      break;
    scheduler.step(Clock::now());
    metrics.update(scheduler);
    if (!events.empty())
      deliver(std::exchange(events, {}));
  }
  metrics.update(scheduler);
  return signal;
}
