//===- Staging.h - Double buffers of inputs and results ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Double buffers for inputs and results of programs: the host can prepare the
// next step while the device runs the current one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_STAGING_H
#define HEDDLE_RUNTIME_CORE_STAGING_H

#include "heddle/runtime/core/Session.h"

#include <array>
#include <optional>

namespace heddle::rt {

/// The inputs that the host writes before each run of a program, and the
/// outputs that the host reads after the run. Each value has two buffers in
/// pinned memory. Odd runs use one buffer and even runs the other, so that the
/// host can write the inputs of a run while the device still computes the run
/// before. If the host can access the device's memory, there are no such
/// buffers.
class Staging {
public:
  /// Makes buffers for the inputs of `program`, and for the outputs in
  /// `results`. `session` must outlive the object. Throws H0292 if there is too
  /// little memory.
  Staging(Session &session, const LoadedProgram &program,
          const std::vector<const Value *> &results);

  /// The buffer for the value of `input` in the next run. The host must write
  /// all of it.
  template <typename T> T *at(const Value &input) const {
    const StagedValue *staged = find(input);
    return staged ? reinterpret_cast<T *>(host(*staged, turn))
                  : session.at<T>(input);
  }
  /// Submits the copy of the input's buffer to the device, after all work that
  /// is submitted so far.
  void store(const Value &input) const;

  /// Submits a run of the program on the stored inputs. Returns the number of
  /// the run, which `result` takes. Waits at most for the previous run.
  /// `outcomes` and `times` are as in Session::run.
  int64_t run(const Outcomes &outcomes = {}, LaunchTime *times = nullptr);
  /// Waits until the run with number `run` is done, and returns its value of
  /// `output`. The run must be one of the last two. If the host can access the
  /// device's memory, it must be the last one.
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
  /// One of the two sets of buffers: pinned memory for all inputs and results
  /// of a run. Runs alternate between the two sets.
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
  /// For each stream, the event that `fork` and `join` record.
  std::array<Event, numStreams> ends;
  int64_t runs = 0;
  int64_t turn = 0; ///< Index of the buffer of the next run.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_STAGING_H
