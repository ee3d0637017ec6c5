//===- Staging.h - Steps that are submitted ahead ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_STAGING_H
#define HEDDLE_RUNTIME_CORE_STAGING_H

#include "heddle/runtime/core/Session.h"

#include <array>
#include <optional>

namespace heddle::rt {

/// The values that the host gives a program before each run, and those that it
/// reads afterwards, so that it can give the next ones while the device is
/// busy. Each value has two places in pinned memory: runs take turns. Where the
/// host sees the device's memory, a value has its own place alone.
class Staging {
public:
  /// For the inputs of `program` and those of its outputs that are `results`.
  /// The session must outlive it. Throws H0292 without memory.
  Staging(Session &session, const LoadedProgram &program,
          const std::vector<const Value *> &results);

  /// Where the host writes all of an input for the next run.
  template <typename T> T *at(const Value &input) const {
    const StagedValue *staged = find(input);
    return staged ? reinterpret_cast<T *>(host(*staged, turn))
                  : session.at<T>(input);
  }
  /// Brings it to the device, after all that was submitted.
  void store(const Value &input) const;

  /// Runs the program once on what was stored, and returns the number of the
  /// run. Waits at most for the run before this one. `times` is as in
  /// Session::run.
  int64_t run(LaunchTime *times = nullptr);
  /// A result of one of the last two runs, of the last one where the host sees
  /// the device's memory. Waits until that run is done.
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
    int64_t offset; ///< In the memory of a turn.
    bool isResult;
  };
  /// What one of two runs has.
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
  std::array<Event, numStreams> ends; ///< Of streams, for fork and join.
  int64_t runs = 0;
  int64_t turn = 0; ///< Of the next run.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_STAGING_H
