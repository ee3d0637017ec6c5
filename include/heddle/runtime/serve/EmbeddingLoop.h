//===- EmbeddingLoop.h - Embeddings of many clients -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_EMBEDDINGLOOP_H
#define HEDDLE_RUNTIME_SERVE_EMBEDDINGLOOP_H

#include "heddle/runtime/serve/Encoder.h"
#include "heddle/runtime/serve/Metrics.h"
#include "heddle/runtime/serve/RequestInbox.h"

#include <deque>

namespace heddle::rt {

/// What has become of a text.
struct EmbeddingEvent {
  uint64_t id = 0;
  std::vector<float> embedding; ///< Empty: its time was over.
};

/// Runs an encoder for texts that come from other threads, those that wait at
/// the same time and have the same bucket together.
class EmbeddingLoop {
public:
  using Clock = std::chrono::steady_clock;
  struct Submission {
    uint64_t id = 0; ///< Different for each text that waits.
    EncoderText text;
    Clock::time_point deadline;
  };
  /// What came of a run is told on the thread of `run`.
  using Deliver = std::function<void(std::vector<EmbeddingEvent>)>;
  EmbeddingLoop(Encoder &encoder, Metrics &metrics, Deliver deliver)
      : encoder(encoder), metrics(metrics), deliver(std::move(deliver)) {}

  /// Any thread may call these.
  void submit(std::vector<Submission> texts) { inbox.submit(std::move(texts)); }
  void cancel(const std::vector<uint64_t> &ids) { inbox.cancel(ids); }
  /// Whether a signal came: what is submitted now may not be heard.
  bool isDraining() const { return inbox.isDraining(); }

  /// Runs until `stopSignal` gives something else than 0 and no text waits;
  /// returns it. Throws what the encoder throws.
  int run(const std::function<int()> &stopSignal);

private:
  void takeRequests();
  void expire(Clock::time_point now);
  void step();

  Encoder &encoder;
  Metrics &metrics;
  Deliver deliver;
  std::deque<Submission> waiting;
  SchedulerCounts counts;
  std::vector<EmbeddingEvent> events; ///< Of this run.
  RequestInbox<Submission> inbox;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_EMBEDDINGLOOP_H
