//===- HostTasks.cpp - What the host does in the order of a stream --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Submits host functions to streams, and keeps their first error.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/HostTasks.h"

using namespace heddle;
using namespace heddle::rt::cuda;

void HostTasks::add(StreamHandle stream, std::function<void()> work,
                    bool repeats) {
  // This HostTasks owns a task that is in a graph, because the graph runs it
  // repeatedly. Any other task is deleted by the host function that performs
  // it.
  auto task = std::make_unique<Task>(Task{this, std::move(work), repeats});
  auto run = [](void *data) {
    auto *task = static_cast<Task *>(data);
    task->owner->perform(*task);
    if (!task->repeats)
      delete task;
  };
  cuda::check(driver.launchHost(stream, run, task.get()), "work of the host");
  if (repeats)
    repeated.push_back(std::move(task));
  else
    task.release();
}

void HostTasks::perform(const Task &task) {
  std::lock_guard<std::mutex> alone(running);
  if (hasFailed)
    return;
  try {
    task.work();
  } catch (const UserError &error) {
    failure = error.diagnostic;
    hasFailed = true;
  } catch (const std::exception &error) { // Exceptions must not reach the
                                          // driver's thread.
    failure.code = "H0900";
    failure.message = std::string("work of the host: ") + error.what();
    hasFailed = true;
  }
}

void HostTasks::check() {
  if (hasFailed)
    throw UserError(failure);
}
