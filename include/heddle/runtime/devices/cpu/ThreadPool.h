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

/// A count that one thread raises and others wait for. They spin for a short
/// time and then sleep, so that a step keeps them awake and an idle process
/// costs nothing.
class Signal {
public:
  uint32_t count() const { return raised.load(std::memory_order_acquire); }
  void raise();
  /// Returns when the count is no longer `seen`.
  void await(uint32_t seen);

private:
  alignas(64) std::atomic<uint32_t> raised{0};
  alignas(64) std::atomic<uint32_t> sleepers{0};
};

/// A fixed number of threads, the caller's among them. Between two launches
/// they wait for a Signal. Threads are not pinned.
class ThreadPool {
public:
  using Task = void (*)(const void *context, int64_t thread, int64_t threads);

  /// Throws H0193 when the system does not start so many.
  explicit ThreadPool(int64_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  int64_t threads() const { return count; }

  /// Calls `task(context, t, threads())` for every t at the same time and
  /// returns when all have returned. Not to be called from within a task.
  void run(Task task, const void *context);

  /// Returns when every thread of the task has called it as often as this one.
  /// Only to be called from within a task.
  void barrier();

private:
  void work(int64_t thread);
  void stop();

  int64_t count;
  Task task = nullptr;
  const void *context = nullptr;
  Signal launches;
  Signal barriers;                             ///< Those that all have come to.
  alignas(64) std::atomic<int64_t> arrived{0}; ///< At the next one.
  std::atomic<bool> stopping{false};
  std::vector<std::thread> workers;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H
