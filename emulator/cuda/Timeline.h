//===- Timeline.h - Executes the commands of streams ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides when each command of a stream runs, in an order that CUDA permits.
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

/// The data of a CUstream.
struct StreamData {
  size_t number = 0;
  bool isBlocking = false; ///< Synchronizes with the default stream.
  std::deque<Command> queue;
  uint64_t submitted = 0, done = 0;
  Clock clock; ///< Of the last submitted command.
};

/// The data of a CUevent.
struct EventData {
  Clock point;             ///< Empty if it was never recorded.
  bool isCaptured = false; ///< Whether it was last recorded in a graph.
  bool isTimed = false;
  int64_t graphs = 0; ///< Launched graphs when it was last recorded.
  /// The time at which the stream reached the event, in milliseconds. It is set
  /// when the stream gets there.
  std::shared_ptr<double> time;
};

/// The streams of a context. A stream executes its commands in the order of
/// submission, each after the events that the stream waits for. Among the
/// orders that this allows, Settings::order chooses.
class Timeline {
public:
  explicit Timeline(const Settings &settings);

  StreamData &defaultStream() { return *streams.front(); }
  StreamData &makeStream(bool isBlocking);

  void submit(StreamData &stream, Command command);
  void record(StreamData &stream, EventData &event) const;
  void wait(StreamData &stream, const EventData &event);

  /// Executes commands until the host may continue. What the host submits later
  /// comes after everything that it has waited for.
  void finish(StreamData &stream) { finish(stream.clock); }
  void finish(const EventData &event) { finish(event.point); }
  void finish();
  bool isDone(const Clock &point) const;
  /// As isDone; if true, the host's later commands come after the point.
  bool query(const Clock &point);

  /// Executes commands for which other processes may wait, as far as possible.
  void advanceExchanges();
  /// Drops all commands that have not run, after a fault.
  void abandon();
  /// Whether commands are checked for races.
  bool isChecked() const {
    return settings.machine.checks == emulator::Checks::Full;
  }

private:
  void finish(const Clock &point);
  /// Executes commands until the point is reached.
  void reach(const Clock &point);
  /// Whether the stream's next command waits for no other stream.
  bool isFree(const StreamData &stream) const;
  /// Whether the stream's next command can run, as far as it depends on other
  /// processes.
  static bool isReady(StreamData &stream);
  /// A stream whose next command must run before the next one of `stream`, and
  /// which waits for no other stream.
  StreamData &leading(StreamData &stream);
  /// Executes the next command of a random stream; false if none can run.
  bool advance();
  void execute(StreamData &stream);
  /// Everything that comes before all commands that have not run, or that will
  /// be submitted.
  Clock floor() const;

  const Settings &settings;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<StreamData>> streams; ///< By number.
  Clock seen; ///< What the host has waited for.
  RaceDetector races;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_TIMELINE_H
