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

/// Returns the number of cores on which this process may run (its CPU
/// affinity).
int64_t availableThreads();

/// Returns the number of threads for each of `ranks` ranks on a machine: an
/// equal share of the cores, but at most the number of cores on which the
/// process may run.
int64_t threadsOfRank(int64_t ranks);

/// A counter that one thread raises and for which other threads wait. They spin
/// for a short time and then sleep. Thus threads stay awake during a step, and
/// an idle process uses no CPU time.
class Signal {
public:
  /// The number of calls of `raise` so far.
  uint32_t count() const { return raised.load(std::memory_order_acquire); }
  void raise();
  /// Waits until `count()`, the number of calls of `raise`, differs from
  /// `seen`.
  void await(uint32_t seen);

private:
  alignas(64) std::atomic<uint32_t> raised{0};
  alignas(64) std::atomic<uint32_t> sleepers{0};
};

/// A fixed number of threads, including the thread of the caller. Between
/// launches they wait on a Signal. They are not pinned to cores.
class ThreadPool {
public:
  using Task = void (*)(const void *context, int64_t thread, int64_t threads);

  /// Throws H0193 if the system cannot start that many threads.
  explicit ThreadPool(int64_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  int64_t threads() const { return count; }

  /// Calls `task(context, t, threads())` once for every t below `threads()`,
  /// each call on its own thread. Returns after all calls have returned. Must
  /// not be called within a task.
  void run(Task task, const void *context);

  /// A barrier between the threads of a task: returns when all of them have
  /// called it. Must be called only within a task.
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
