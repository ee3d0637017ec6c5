//===- Clock.h - What comes before what -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// For each stream, by its number, how many of its commands are known to be
/// done at some point.
using Clock = std::vector<uint64_t>;

/// What both know.
inline void join(Clock &clock, const Clock &other) {
  if (clock.size() < other.size())
    clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    if (clock[i] < other[i])
      clock[i] = other[i];
}

/// What an asynchronous command did wrong.
struct Fault {
  Result code;
  std::string message;
};

/// What was submitted to a stream.
struct Command {
  std::string name;         ///< As "a copy of 12 bytes".
  emulator::AccessedRanges
      memory; ///< What it reads and writes, if it is known.
  /// Does it, and may add to `memory`. Throws a Fault.
  std::function<void(emulator::AccessedRanges &memory)> run;
  /// Of one that waits for other processes: called once all before it is done,
  /// and then again and again, until `run` may be called.
  std::function<void()> begin;
  std::function<bool()> isReady;
  /// It, and all that comes before it.
  Clock clock;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_CLOCK_H
