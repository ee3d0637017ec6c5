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
  /// Whether the stream synchronizes with the default stream.
  bool isBlocking = false;
  std::deque<Command> queue;
  uint64_t submitted = 0, done = 0;
  Clock clock; ///< The clock of the last command that was submitted.
  /// Whether the last command that was submitted, apart from marks, is a
  /// kernel.
  bool endsWithKernel = false;
  /// How many of the stream's commands the host or the stream itself (by an
  /// event) has waited for.
  uint64_t ended = 0;
  /// The stream's commands from this number on may still be running on a GPU
  /// when a programmatic launch begins that is executed next.
  uint64_t firstRunning = 1;
};

/// The data of a CUevent.
struct EventData {
  Clock point; ///< The recorded point. Empty if the event was never recorded.
  /// Whether the latest cuEventRecord of the event was captured into a graph.
  bool isCaptured = false;
  bool isTimed = false;
  /// How many graphs had been launched when the event was last recorded. If no
  /// graph was launched since then, a wait for the event also waits for the
  /// last graph.
  int64_t graphs = 0;
  /// The time at which the stream reached the event, in milliseconds. It is set
  /// when the stream reaches the event.
  std::shared_ptr<double> time;
};

/// The streams of a context. Each stream executes its commands in the order of
/// submission, and a command runs only after the events for which its stream
/// waits. This allows several orders, among which Settings::order chooses.
class Timeline {
public:
  explicit Timeline(const Settings &settings);

  StreamData &defaultStream() { return *streams.front(); }
  StreamData &makeStream(bool isBlocking);

  void submit(StreamData &stream, Command command);
  void record(StreamData &stream, EventData &event) const;
  void wait(StreamData &stream, const EventData &event);

  /// Called when the host waits for a stream. Executes all commands that were
  /// submitted to the stream. For the detection of races, commands that the
  /// host submits later come after these.
  void finish(StreamData &stream) { finish(stream.clock); }
  void finish(const EventData &event) { finish(event.point); }
  void finish();
  bool isDone(const Clock &point) const;
  /// Whether all commands before `point` are done. If they are, commands that
  /// the host submits later are ordered after `point` for the detection of
  /// races.
  bool query(const Clock &point);

  /// Executes commands that communicate with other processes, and the commands
  /// before them, because the other processes may be waiting for this
  /// process. Stops at commands that are not ready.
  void advanceExchanges();
  /// Drops all commands that have not run, after a fault.
  void abandon();
  /// Whether commands are checked for races.
  bool isChecked() const {
    return settings.machine.checks == emulator::Checks::Full;
  }

private:
  void finish(const Clock &point);
  /// Executes commands until all commands before `point` are done.
  void reach(const Clock &point);
  /// Whether the stream's next command waits for no other stream.
  bool isFree(const StreamData &stream) const;
  /// Whether the stream's next command can run now, as far as it depends on
  /// other processes.
  static bool isReady(StreamData &stream);
  /// Returns a stream whose next command must run before the next command of
  /// `stream`. The next command of the returned stream waits for no other
  /// stream.
  StreamData &leading(StreamData &stream);
  /// Executes the next command of a random stream. Returns false if no command
  /// can run.
  bool advance();
  void execute(StreamData &stream);
  /// Checks a command that was executed for races with the kernels before it
  /// with which it may overlap. Then finds the commands that may overlap with
  /// the next one.
  void checkOverlap(StreamData &stream, const Command &command);
  /// Returns a point that comes before all commands that have not run, and
  /// before all commands that will be submitted later. Accesses before this
  /// point cannot race with these commands.
  Clock floor() const;

  const Settings &settings;
  std::mt19937_64 random;
  /// The streams, by their number.
  std::vector<std::unique_ptr<StreamData>> streams;
  Clock seen; ///< The point in time up to which the host has waited.
  RaceDetector races;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_TIMELINE_H
