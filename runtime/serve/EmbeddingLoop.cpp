//===- EmbeddingLoop.cpp - Batches of texts for an encoder ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmbeddingLoop.h"

#include <algorithm>

using namespace heddle::rt;

void EmbeddingLoop::takeRequests() {
  auto [came, gone] = inbox.take(/*waits=*/waiting.empty());
  std::move(came.begin(), came.end(), std::back_inserter(waiting));
  const std::vector<uint64_t> &ids = gone;
  auto isGone = [&](const Submission &text) {
    return std::find(ids.begin(), ids.end(), text.id) != ids.end();
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), isGone),
                waiting.end());
}

void EmbeddingLoop::expire(Clock::time_point now) {
  auto isLate = [&](const Submission &text) {
    if (text.deadline > now)
      return false;
    events.push_back({text.id, {}});
    return true;
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), isLate),
                waiting.end());
}

void EmbeddingLoop::step() {
  std::vector<const EncoderText *> all, rows;
  for (const Submission &asked : waiting)
    all.push_back(&asked.text);
  std::vector<size_t> batch = nextBatch(encoder, all);
  for (size_t i : batch) {
    rows.push_back(all[i]);
    counts.promptTokens += int64_t(all[i]->tokens.size());
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
  auto turn = [&] {
    expire(Clock::now());
    if (!waiting.empty())
      step();
    metrics.update(counts, int64_t(waiting.size()), 0);
    if (!events.empty())
      deliver(std::exchange(events, {}));
  };
  return inbox.run(
      stopSignal, [&] { takeRequests(); }, [&] { return waiting.empty(); },
      turn);
}
