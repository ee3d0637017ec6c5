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

/// A vector clock: for each stream, by number, how many of its commands come
/// before a point.
using Clock = std::vector<uint64_t>;

/// Extends `clock` to everything that comes before `clock` or `other`.
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
  std::string name; ///< As "a copy of 12 bytes".
  /// The bytes that the command reads and writes, as far as known.
  emulator::AccessedRanges memory;
  /// Executes the command, and may add to `memory`. Throws a Fault.
  std::function<void(emulator::AccessedRanges &memory)> run;
  /// For commands that wait for other processes. `begin` is called once, when
  /// all commands before it are done; then `isReady` is called until it returns
  /// true, and `run` may be called.
  std::function<void()> begin;
  std::function<bool()> isReady;
  /// The command and everything that comes before it.
  Clock clock;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_CLOCK_H
