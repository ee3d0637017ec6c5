//===- EmbeddingLoop.cpp - Embeddings of many clients ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/EmbeddingLoop.h"

#include <algorithm>

using namespace heddle::rt;

void EmbeddingLoop::submit(std::vector<Asked> texts) {
  {
    std::lock_guard lock(mutex);
    std::move(texts.begin(), texts.end(), std::back_inserter(asked));
  }
  hasCome.notify_one();
}

void EmbeddingLoop::cancel(const std::vector<uint64_t> &ids) {
  std::lock_guard lock(mutex);
  cancelled.insert(cancelled.end(), ids.begin(), ids.end());
}

void EmbeddingLoop::takeRequests() {
  std::unique_lock lock(mutex);
  if (waiting.empty())
    // Signals are looked at from time to time.
    hasCome.wait_for(lock, std::chrono::milliseconds(50),
                     [&] { return !asked.empty(); });
  std::move(asked.begin(), asked.end(), std::back_inserter(waiting));
  asked.clear();
  auto isGone = [&](const Asked &text) {
    return std::find(cancelled.begin(), cancelled.end(), text.id) !=
           cancelled.end();
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), isGone),
                waiting.end());
  cancelled.clear();
}

void EmbeddingLoop::expire(Clock::time_point now) {
  auto isLate = [&](const Asked &text) {
    if (text.deadline > now)
      return false;
    events.push_back({text.id, {}});
    return true;
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), isLate),
                waiting.end());
}

void EmbeddingLoop::step() {
  std::vector<const Tokens *> all, rows;
  for (const Asked &text : waiting)
    all.push_back(&text.tokens);
  std::vector<size_t> batch = nextBatch(encoder, all);
  for (size_t i : batch) {
    rows.push_back(all[i]);
    counts.promptTokens += int64_t(all[i]->size());
  }
  const int64_t width = encoder.limits().width;
  std::vector<float> found(rows.size() * width);
  metrics.update(counts, int64_t(all.size() - rows.size()),
                 int64_t(rows.size()));
  encoder.run(rows, found.data());
  ++counts.runs;
  for (size_t row = 0; row < batch.size(); ++row) {
    auto first = found.begin() + row * width;
    events.push_back({waiting[batch[row]].id, {first, first + width}});
  }
  for (size_t row = batch.size(); row-- > 0;)
    waiting.erase(waiting.begin() + batch[row]);
}

int EmbeddingLoop::run(const std::function<int()> &stopSignal) {
  int signal = 0;
  for (;;) {
    if (signal == 0)
      signal = stopSignal();
    // What comes before others know of the signal is still taken.
    bool isLast = draining;
    draining = signal != 0;
    takeRequests();
    if (isLast && waiting.empty())
      break;
    expire(Clock::now());
    if (!waiting.empty())
      step();
    metrics.update(counts, int64_t(waiting.size()), 0);
    if (!events.empty())
      deliver(std::exchange(events, {}));
  }
  return signal;
}
