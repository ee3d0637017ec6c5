//===- ThreadPool.cpp - Threads that wait for the next launch -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace heddle::rt;

/// A step's launches follow each other within microseconds; whoever waits
/// longer than this sleeps.
static constexpr std::chrono::microseconds spinTime(200);
/// After this long, let another process have the core if one wants it.
static constexpr std::chrono::microseconds politeTime(20);

int64_t heddle::rt::availableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return std::max(1u, std::thread::hardware_concurrency());
  return std::max(1, CPU_COUNT(&set));
}

int64_t heddle::rt::threadsOfRank(int64_t ranks) {
  // Of a rank that its launcher has bound to cores the others have others.
  int64_t cores = std::max<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
  return std::min(availableThreads(), std::max<int64_t>(cores / ranks, 1));
}

static void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE,
          expected, nullptr, nullptr, 0);
}

static void futexWakeAll(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE,
          INT_MAX, nullptr, nullptr, 0);
}

/// Spins until `done()` or until it has spun long enough; the last `done()`.
template <typename Predicate> static bool spin(Predicate done) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 64; ++i) {
    if (done())
      return true;
    _mm_pause();
  }
  Clock::time_point begin = Clock::now();
  while (true) {
    for (int i = 0; i < 32; ++i) {
      if (done())
        return true;
      _mm_pause();
    }
    Clock::duration waited = Clock::now() - begin;
    if (waited > spinTime)
      return done();
    if (waited > politeTime)
      sched_yield();
  }
}

ThreadPool::ThreadPool(int64_t threads) : count(std::max<int64_t>(1, threads)) {
  for (int64_t thread = 1; thread < count; ++thread)
    workers.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  stopping = true;
  epoch.fetch_add(1);
  futexWakeAll(epoch);
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::run(Task newTask, const void *newContext) {
  if (count == 1) {
    newTask(newContext, 0, 1);
    return;
  }
  task = newTask;
  context = newContext;
  pending.store(count - 1, std::memory_order_relaxed);
  // Sequentially consistent on both sides: either the worker that falls asleep
  // sees the new epoch, or it is seen here as a sleeper.
  epoch.fetch_add(1);
  if (sleepers.load() != 0)
    futexWakeAll(epoch);
  newTask(newContext, 0, count);

  auto done = [&] { return pending.load(std::memory_order_acquire) == 0; };
  while (!spin(done)) {
    callerSleeps = 1;
    uint32_t left = pending.load();
    if (left != 0)
      futexWait(pending, left);
    callerSleeps = 0;
  }
}

void ThreadPool::finishOne() {
  pending.fetch_sub(1);
  if (callerSleeps.load() != 0)
    futexWakeAll(pending);
}

void ThreadPool::work(int64_t thread) {
  uint32_t seen = 0;
  while (true) {
    auto changed = [&] {
      return epoch.load(std::memory_order_acquire) != seen;
    };
    while (!spin(changed)) {
      sleepers.fetch_add(1);
      futexWait(epoch, seen);
      sleepers.fetch_sub(1);
    }
    if (stopping)
      return;
    ++seen;
    task(context, thread, count);
    finishOne();
  }
}
