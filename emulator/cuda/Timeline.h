//===- Timeline.h - In which order streams do their work --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_TIMELINE_H
#define HEDDLE_EMULATOR_CUDA_TIMELINE_H

#include "emulator/cuda/RaceDetector.h"
#include "emulator/cuda/Settings.h"

#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace heddle::rt::cuda {

/// A CUstream.
struct StreamData {
  size_t number = 0;
  bool isBlocking = false; ///< Has an order with the default stream.
  std::deque<Command> queue;
  uint64_t submitted = 0, done = 0;
  Clock clock; ///< Of what was submitted last.
};

/// A CUevent.
struct EventData {
  Clock point;             ///< Empty when it was never recorded.
  bool isCaptured = false; ///< It was last recorded in a graph.
  bool isTimed = false;
  int64_t graphs = 0; ///< That were launched when it was last recorded.
  /// When the stream came to it, in milliseconds, once it did.
  std::shared_ptr<double> time;
};

/// The streams of a context. A stream does its commands in the order of their
/// submission, and each after what its events and the host have waited for.
/// Within that, the settings choose.
class Timeline {
public:
  explicit Timeline(const Settings &settings);

  StreamData &defaultStream() { return *streams.front(); }
  StreamData &makeStream(bool isBlocking);

  void submit(StreamData &stream, Command command);
  void record(StreamData &stream, EventData &event) const;
  void wait(StreamData &stream, const EventData &event);

  /// Works until the host may go on; what it has seen done comes before all
  /// that it submits later.
  void finish(StreamData &stream) { finish(stream.clock); }
  void finish(const EventData &event) { finish(event.point); }
  void finish();
  bool isDone(const Clock &point) const;
  /// The same, seen by the host.
  bool query(const Clock &point);

  /// Does what can be done of that which other processes may wait for.
  void advanceExchanges();
  /// Forgets what is not done yet, after a fault.
  void abandon();
  /// Whether commands are held against each other.
  bool isChecked() const {
    return settings.machine.checks == emulator::Checks::Full;
  }

private:
  void finish(const Clock &point);
  /// Works until all of it is done.
  void reach(const Clock &point);
  /// Whether nothing of other streams comes before the next command.
  bool isFree(const StreamData &stream) const;
  /// Whether it can be done now, as far as other processes are concerned.
  static bool isReady(StreamData &stream);
  /// A stream whose next command has to be done before this one's next, and
  /// waits for no other stream.
  StreamData &leading(StreamData &stream);
  /// Does the next command of a stream that the seed chooses; false when none
  /// can be done.
  bool advance();
  void execute(StreamData &stream);
  /// What comes before all that is not done yet, or will be submitted.
  Clock floor() const;

  const Settings &settings;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<StreamData>> streams; ///< By their numbers.
  Clock seen;                                       ///< By the host.
  RaceDetector races;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_TIMELINE_H
