//===- ThreadPool.cpp - The threads of a rank -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads that wait by spinning, then by futex.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ThreadPool.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

using namespace heddle::rt;

/// How long a waiting thread spins before it sleeps. The launches of a step
/// follow each other within microseconds, so that threads do not sleep during a
/// step.
static constexpr std::chrono::microseconds spinTime(200);
/// How long a waiting thread spins without a break. After this time it goes on
/// spinning, but offers its core to other processes again and again.
static constexpr std::chrono::microseconds politeTime(20);

int64_t heddle::rt::availableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return std::max(1u, std::thread::hardware_concurrency());
  return std::max(1, CPU_COUNT(&set));
}

int64_t heddle::rt::threadsOfRank(int64_t ranks) {
  // Divide the number of all cores of the machine by the number of ranks. The
  // cores on which this process may run are not divided, since a launcher may
  // have bound each rank to its share already.
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

/// Spins until `done()` is true or the time is over. Returns the last result of
/// `done()`.
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

/// This thread raises the count and then reads the number of sleepers. Both
/// accesses are sequentially consistent. Therefore a thread that goes to sleep
/// either sees the new count, or is counted here as a sleeper and woken.
void Signal::raise() {
  raised.fetch_add(1);
  if (sleepers.load() != 0)
    futexWakeAll(raised);
}

void Signal::await(uint32_t seen) {
  while (!spin([&] { return count() != seen; })) {
    sleepers.fetch_add(1);
    futexWait(raised, seen);
    sleepers.fetch_sub(1);
  }
}

ThreadPool::ThreadPool(int64_t threads) : count(std::max<int64_t>(1, threads)) {
  try {
    for (int64_t thread = 1; thread < count; ++thread)
      workers.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error &error) {
    int64_t started = int64_t(workers.size()) + 1;
    stop();
    fail("H0193",
         "the system starts no more than " + std::to_string(started) + " of " +
             std::to_string(count) + " threads: " + error.what(),
         "use --threads " + std::to_string(started) + ", or fewer");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping = true;
  launches.raise();
  for (std::thread &worker : workers)
    worker.join();
  workers.clear();
}

void ThreadPool::run(Task newTask, const void *newContext) {
  task = newTask;
  context = newContext;
  if (count > 1)
    launches.raise();
  newTask(newContext, 0, count);
  barrier();
}

void ThreadPool::barrier() {
  if (count == 1)
    return;
  uint32_t seen = barriers.count();
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < count)
    return barriers.await(seen);
  arrived.store(0, std::memory_order_relaxed);
  barriers.raise();
}

void ThreadPool::work(int64_t thread) {
  for (uint32_t seen = 0;; ++seen) {
    launches.await(seen);
    if (stopping)
      return;
    task(context, thread, count);
    barrier();
  }
}
