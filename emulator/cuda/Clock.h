//===- Clock.h - Commands and vector clocks ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders the commands of streams by vector clocks, as happens-before race
// detectors do.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_CLOCK_H
#define HEDDLE_EMULATOR_CUDA_CLOCK_H

#include "heddle/emulator/ptx/Machine.h"
#include "heddle/runtime/devices/cuda/CudaApi.h"

#include <functional>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// A vector clock, which describes a point in time: for each stream (by its
/// index), how many commands of this stream come before the point.
using Clock = std::vector<uint64_t>;

/// Merges `other` into `clock`. All commands that come before the point `other`
/// then also come before the point `clock`.
inline void join(Clock &clock, const Clock &other) {
  if (clock.size() < other.size())
    clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    if (clock[i] < other[i])
      clock[i] = other[i];
}

/// An error of an asynchronous command.
struct Fault {
  Result code;
  std::string message;
};

/// A command that was submitted to a stream.
struct Command {
  enum class Kind {
    Kernel, ///< A programmatic launch after it may begin before its end.
    /// The time of an event. A programmatic launch after it may overlap with
    /// the kernel before it.
    Mark,
    Other
  };
  Kind kind = Kind::Other;
  /// Whether the command is a launch that may begin before the end of the
  /// kernel before it.
  bool isProgrammatic = false;
  /// How many of the stream's commands certainly end before this one begins,
  /// even if it is programmatic, because the host or the stream waited for
  /// them.
  uint64_t ended = 0;
  /// What the command is, for messages, such as "a copy of 12 bytes".
  std::string name;
  /// The bytes that the command reads and writes, as far as known.
  emulator::AccessedRanges memory;
  /// Executes the command, which is its argument, and may add to `memory`.
  /// Throws a Fault.
  std::function<void(Command &command)> run;
  /// Only set for commands that wait for other processes. When all commands
  /// before this one are done, `begin` is called once. Then `isReady` is called
  /// until it returns true. Only then may `run` be called.
  std::function<void()> begin;
  std::function<bool()> isReady;
  /// A vector clock that includes the command itself and everything that comes
  /// before it.
  Clock clock;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_CLOCK_H
