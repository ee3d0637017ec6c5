//===- HostTasks.h - Host functions in a stream -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Host functions that run in the order of a GPU stream (cuLaunchHostFunc), for
// transfers with files and for kernels on the host.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_HOSTTASKS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_HOSTTASKS_H

#include "heddle/runtime/devices/cuda/Driver.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace heddle::rt::cuda {

/// Host functions that GPU streams call when they reach them. A thread of the
/// driver runs them, one at a time.
class HostTasks {
public:
  explicit HostTasks(const Driver &driver) : driver(driver) {}

  /// Submits `work` to the stream. With `repeats`, `work` becomes part of a
  /// captured graph, which calls it in each of its runs. `work` then lives as
  /// long as this object. If `work` throws a UserError, the error is kept for
  /// `check`, and no later function is called.
  void add(StreamHandle stream, std::function<void()> work, bool repeats);
  /// Throws the error of the first host function that failed, if one did.
  void check();

private:
  struct Task {
    HostTasks *owner;
    std::function<void()> work;
    bool repeats;
  };
  void perform(const Task &task);

  const Driver &driver;
  std::vector<std::unique_ptr<Task>> repeated;
  std::mutex running; ///< Lets one function run at a time.
  Diagnostic failure; ///< Written before `hasFailed` is set.
  std::atomic<bool> hasFailed{false};
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_HOSTTASKS_H
