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
#include <memory>
#include <optional>

namespace heddle::rt {

/// Two equal buffers in pinned memory. Odd runs of programs use one of them and
/// even runs the other, so that the host can write the inputs of a run while
/// the device still computes the run before. Programs that never run at the
/// same time can share the buffers.
class StagingBuffers {
public:
  /// `device` must outlive the object.
  explicit StagingBuffers(Device &device);

  /// Makes each buffer have at least `bytes` bytes. Must not be called after
  /// the first call of `at`, which allocates the buffers.
  void reserve(int64_t bytes);
  /// The bytes of both buffers.
  int64_t bytes() const { return int64_t(buffers.size()) * size; }

  /// The buffer of the run with number `run`. Throws H0292 if there is too
  /// little memory.
  char *at(int64_t run);
  /// The number of the next run.
  int64_t nextRun() const { return runs; }
  /// Says that all work of the next run is submitted to the stream Compute, and
  /// returns the number of that run. Then waits for the run before it, which
  /// has used the buffer of the run after it.
  int64_t endRun();
  /// Waits until the run with this number, one of the last two, is done.
  void await(int64_t run) { device.await(buffers[run % 2].done); }

private:
  struct Buffer {
    std::optional<DeviceMemory> memory;
    char *host = nullptr;
    Event done; ///< The end of the last run that used the buffer.
  };

  Device &device;
  std::array<Buffer, 2> buffers;
  int64_t size = 0;
  int64_t runs = 0;
};

/// The inputs that the host writes before each run of a program, and the
/// outputs that the host reads after the run. They are in StagingBuffers. If
/// the host can access the device's memory, they are not copied, and there are
/// no such buffers.
class Staging {
public:
  /// Reserves space for the inputs of `program`, and for the outputs in
  /// `results`, in `buffers`; if that is null, in buffers of this object.
  /// `session` must outlive the object.
  Staging(Session &session, const LoadedProgram &program,
          const std::vector<const Value *> &results,
          std::shared_ptr<StagingBuffers> buffers = nullptr);

  /// The buffer for the value of `input` in the next run. The host must write
  /// all of it.
  template <typename T> T *at(const Value &input) const {
    const StagedValue *staged = find(input);
    return staged ? reinterpret_cast<T *>(host(*staged, buffers->nextRun()))
                  : session.at<T>(input);
  }
  /// Submits the copy of the input's buffer to the device, after all work that
  /// is submitted so far.
  void store(const Value &input) const;

  /// Submits a run of the program on the stored inputs. Returns the number of
  /// the run, which `result` takes. Waits at most for the previous run.
  /// `outcomes` and `times` are as in Session::run. `submitLast` may submit
  /// further work to the stream Compute. It runs after the program and before
  /// the results are copied.
  int64_t run(const Outcomes &outcomes = {}, LaunchTime *times = nullptr,
              const std::function<void()> &submitLast = nullptr);
  /// Waits until the run with number `run` is done, and returns its value of
  /// `output`. The run must be one of the last two. If the host can access the
  /// device's memory, it must be the last one.
  template <typename T> const T *result(const Value &output, int64_t run) {
    const StagedValue *staged = find(output);
    if (!staged)
      return session.load<T>(output);
    buffers->await(run);
    return reinterpret_cast<const T *>(host(*staged, run));
  }

private:
  struct StagedValue {
    const Value *value;
    int64_t offset; ///< Offset in the buffer of a run.
    bool isResult;
  };
  const StagedValue *find(const Value &value) const;
  char *host(const StagedValue &staged, int64_t run) const {
    return buffers->at(run) + staged.offset;
  }
  void fork();
  void join();

  Session &session;
  const LoadedProgram &program;
  std::vector<StagedValue> values;
  std::shared_ptr<StagingBuffers> buffers;
  /// For each stream, the event that `fork` and `join` record.
  std::array<Event, numStreams> ends;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_STAGING_H
