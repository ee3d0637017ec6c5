//===- ThreadPool.h - Threads that wait for the next launch -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H
#define HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace heddle::rt {

/// How many threads this process may use at once: its CPU affinity.
int64_t availableThreads();

/// Those of one of `ranks` ranks on a machine: an equal part of its cores, as
/// far as this process may use them.
int64_t threadsOfRank(int64_t ranks);

/// A fixed number of threads, the caller's among them. Between two launches
/// they spin for a short time and then sleep, so that a step keeps them awake
/// and an idle process costs nothing. Threads are not pinned.
class ThreadPool {
public:
  using Task = void (*)(const void *context, int64_t thread, int64_t threads);

  explicit ThreadPool(int64_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  int64_t threads() const { return count; }

  /// Calls `task(context, t, threads())` for every t at the same time and
  /// returns when all have returned. Not to be called from within a task.
  void run(Task task, const void *context);

private:
  void work(int64_t thread);
  void finishOne();

  int64_t count;
  Task task = nullptr;
  const void *context = nullptr;
  /// Counts launches; workers wait for it to change.
  alignas(64) std::atomic<uint32_t> epoch{0};
  /// Workers that have not finished the launch.
  alignas(64) std::atomic<uint32_t> pending{0};
  /// Workers asleep on `epoch`, and whether the caller sleeps on `pending`.
  alignas(64) std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> callerSleeps{0};
  std::atomic<bool> stopping{false};
  std::vector<std::thread> workers;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H
