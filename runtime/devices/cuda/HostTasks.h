//===- HostTasks.h - What the host does in the order of a stream -*- C++ -*-==//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Functions of the host that streams of a GPU call when they come to them, on
/// a thread of the driver, one at a time.
class HostTasks {
public:
  explicit HostTasks(const Driver &driver) : driver(driver) {}

  /// With `repeats` a graph is captured, which calls it each time that it runs:
  /// it is kept as long as this is. What it throws as UserError is for `check`;
  /// nothing more is called after that.
  void add(StreamHandle stream, std::function<void()> work, bool repeats);
  /// Throws what failed of all that was called so far.
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
  std::mutex running; ///< One at a time.
  Diagnostic failure; ///< Written before `hasFailed` is.
  std::atomic<bool> hasFailed{false};
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_HOSTTASKS_H
