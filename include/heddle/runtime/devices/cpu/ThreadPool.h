//===- ThreadPool.h - The threads of a rank ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The thread pool on which kernels run. Threads wait in user space for a short
// time, so that the next launch of a step starts without a system call.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H
#define HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace heddle::rt {

/// The number of threads that this process may run at the same time: its CPU
/// affinity.
int64_t availableThreads();

/// The threads of one of `ranks` ranks on a machine: an equal share of the
/// cores, but at most as many as the process may use.
int64_t threadsOfRank(int64_t ranks);

/// A counter that one thread raises and other threads wait for. They spin for a
/// short time and then sleep: threads stay awake during a step, and an idle
/// process uses no CPU time.
class Signal {
public:
  uint32_t count() const { return raised.load(std::memory_order_acquire); }
  void raise();
  /// Returns once the count is not `seen` any more.
  void await(uint32_t seen);

private:
  alignas(64) std::atomic<uint32_t> raised{0};
  alignas(64) std::atomic<uint32_t> sleepers{0};
};

/// A fixed number of threads, including the caller's. They wait on a Signal
/// between launches, and are not pinned to cores.
class ThreadPool {
public:
  using Task = void (*)(const void *context, int64_t thread, int64_t threads);

  /// Throws H0193 if the system cannot start that many threads.
  explicit ThreadPool(int64_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  int64_t threads() const { return count; }

  /// Calls `task(context, t, threads())` for every t in parallel, and returns
  /// after all have returned. Must not be called within a task.
  void run(Task task, const void *context);

  /// Waits until all threads of the task have called it equally often. Must be
  /// called only within a task.
  void barrier();

private:
  void work(int64_t thread);
  void stop();

  int64_t count;
  Task task = nullptr;
  const void *context = nullptr;
  Signal launches;
  Signal barriers;                             ///< Barriers that all threads
                                               ///< have reached.
  alignas(64) std::atomic<int64_t> arrived{0}; ///< Threads at the next barrier.
  std::atomic<bool> stopping{false};
  std::vector<std::thread> workers;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_THREADPOOL_H
