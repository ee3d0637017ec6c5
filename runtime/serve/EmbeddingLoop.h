//===- EmbeddingLoop.h - Batches of texts for an encoder --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loop that computes embeddings: takes texts from the HTTP thread, batches
// texts of the same padded length, and reports results.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_EMBEDDINGLOOP_H
#define HEDDLE_RUNTIME_SERVE_EMBEDDINGLOOP_H

#include "Metrics.h"
#include "RequestInbox.h"
#include "heddle/runtime/serve/Encoder.h"

#include <deque>

namespace heddle::rt {

/// The result for one text.
struct EmbeddingEvent {
  uint64_t id = 0;
  /// The embedding; empty if the text's deadline has passed.
  std::vector<float> embedding;
};

/// Runs an encoder on texts that other threads submit. Texts that wait at the
/// same time and have the same bucket (padded length) are computed together.
class EmbeddingLoop {
public:
  using Clock = std::chrono::steady_clock;
  struct Submission {
    uint64_t id = 0; ///< Unique among the texts that wait.
    EncoderText text;
    Clock::time_point deadline;
  };
  /// Receives the results of one run of the encoder. It is called on the thread
  /// that has called `run`.
  using Deliver = std::function<void(std::vector<EmbeddingEvent>)>;
  EmbeddingLoop(Encoder &encoder, Metrics &metrics, Deliver deliver)
      : encoder(encoder), metrics(metrics), deliver(std::move(deliver)) {}

  /// `submit` and `cancel` are thread-safe.
  void submit(std::vector<Submission> texts) { inbox.submit(std::move(texts)); }
  void cancel(const std::vector<uint64_t> &ids) { inbox.cancel(ids); }
  /// Whether a stop signal has come: submissions may be ignored.
  bool isDraining() const { return inbox.isDraining(); }

  /// Runs until `stopSignal` is not 0 and no text waits; returns the signal.
  /// Throws the errors of the encoder.
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
  std::vector<EmbeddingEvent> events; ///< Results of the current run.
  RequestInbox<Submission> inbox;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_EMBEDDINGLOOP_H
