//===- Staging.h - Double buffers of inputs and results ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Double buffers for inputs and results of programs, so that the host can
// prepare a step while the device runs the one before.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_STAGING_H
#define HEDDLE_RUNTIME_CORE_STAGING_H

#include "heddle/runtime/core/Session.h"

#include <array>
#include <optional>

namespace heddle::rt {

/// The inputs that the host writes before each run of a program, and the
/// outputs that it reads afterwards. Each has two buffers in pinned memory,
/// which runs use alternately, so that the host can write the inputs of a run
/// while the device computes the one before. If the host can access the
/// device's memory, values are not staged.
class Staging {
public:
  /// Stages the inputs of `program`, and the outputs listed in `results`. The
  /// session must outlive it. Throws H0292 without memory.
  Staging(Session &session, const LoadedProgram &program,
          const std::vector<const Value *> &results);

  /// The buffer in which the host writes all of an input for the next run.
  template <typename T> T *at(const Value &input) const {
    const StagedValue *staged = find(input);
    return staged ? reinterpret_cast<T *>(host(*staged, turn))
                  : session.at<T>(input);
  }
  /// Copies the input's buffer to the device, after all submitted work.
  void store(const Value &input) const;

  /// Runs the program once on the stored inputs; returns the number of the run.
  /// Waits at most for the run before this one. `times` as in Session::run.
  int64_t run(LaunchTime *times = nullptr);
  /// A result of one of the last two runs, or only of the last one if the host
  /// can access the device's memory. Waits until that run is done.
  template <typename T> const T *result(const Value &output, int64_t run) {
    const StagedValue *staged = find(output);
    if (!staged)
      return session.load<T>(output);
    session.runsOn().await(turns[run % 2].done);
    return reinterpret_cast<const T *>(host(*staged, run % 2));
  }

private:
  struct StagedValue {
    const Value *value;
    int64_t offset; ///< Offset in the buffer of a run.
    bool isResult;
  };
  /// One of the two buffers, for every second run.
  struct Turn {
    std::optional<DeviceMemory> memory;
    char *host = nullptr;
    Event done;
  };
  const StagedValue *find(const Value &value) const;
  char *host(const StagedValue &staged, int64_t turn) const {
    return turns[turn].host + staged.offset;
  }
  void fork();
  void join();

  Session &session;
  const LoadedProgram &program;
  std::vector<StagedValue> values;
  std::array<Turn, 2> turns;
  std::array<Event, numStreams> ends; ///< Ends of streams, for fork and join.
  int64_t runs = 0;
  int64_t turn = 0; ///< Index of the buffer of the next run.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_STAGING_H
