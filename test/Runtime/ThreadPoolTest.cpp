//===- ThreadPoolTest.cpp - Tests of the thread pool ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

using namespace heddle::rt;

namespace {
struct Counts {
  std::atomic<int64_t> calls[8] = {};
  std::atomic<int64_t> wrongTotals{0};
  int64_t threads;
};

void countCall(const void *context, int64_t thread, int64_t threads) {
  auto &counts = *static_cast<Counts *>(const_cast<void *>(context));
  ++counts.calls[thread];
  counts.wrongTotals += threads != counts.threads;
}

/// CPU time of the whole process.
double cpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}
} // namespace

TEST(ThreadPool, RanksOfAMachineShareItsCores) {
  int64_t cores = sysconf(_SC_NPROCESSORS_ONLN), here = availableThreads();
  EXPECT_EQ(threadsOfRank(1), std::min(here, cores));
  EXPECT_EQ(threadsOfRank(2), std::min(here, std::max<int64_t>(cores / 2, 1)));
  EXPECT_EQ(threadsOfRank(1000 * cores), 1);
  // A launcher has bound this rank to a core, and the others to others.
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all))
      CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(threadsOfRank(2), 1);
  EXPECT_EQ(threadsOfRank(1), 1);
  sched_setaffinity(0, sizeof(all), &all);
}

TEST(ThreadPool, CallsEveryThreadOnce) {
  for (int64_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    Counts counts;
    counts.threads = threads;
    for (int i = 0; i < 1000; ++i)
      pool.run(countCall, &counts);
    for (int64_t thread = 0; thread < 8; ++thread)
      EXPECT_EQ(counts.calls[thread], thread < threads ? 1000 : 0);
    EXPECT_EQ(counts.wrongTotals, 0);
  }
}

TEST(ThreadPool, WakesAfterSleep) {
  ThreadPool pool(3);
  Counts counts;
  counts.threads = 3;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.run(countCall, &counts);
  }
  EXPECT_EQ(counts.calls[2], 5);
}

TEST(ThreadPool, CallerSleepsForSlowThreads) {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  for (int i = 0; i < 5; ++i)
    pool.run(
        [](const void *context, int64_t thread, int64_t) {
          if (thread == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
          ++*static_cast<std::atomic<int> *>(const_cast<void *>(context));
        },
        &done);
  EXPECT_EQ(done, 10);
}

/// Fast threads wait for slow ones, spinning and asleep, in one launch.
TEST(ThreadPool, BarriersHoldAllThreads) {
  struct Rounds {
    ThreadPool pool{3};
    std::atomic<int64_t> arrived{0}, wrong{0};
  } all;
  constexpr int64_t rounds = 300;
  auto task = [](const void *context, int64_t thread, int64_t threads) {
    auto &all = *static_cast<Rounds *>(const_cast<void *>(context));
    for (int64_t round = 0; round < rounds; ++round) {
      if (round % 100 == 7 * thread)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++all.arrived;
      all.pool.barrier();
      all.wrong += all.arrived < (round + 1) * threads;
      all.pool.barrier();
      all.wrong += all.arrived > (round + 2) * threads;
    }
  };
  for (int run = 0; run < 3; ++run) {
    all.arrived = 0;
    all.pool.run(task, &all);
    EXPECT_EQ(all.arrived, rounds * 3);
  }
  EXPECT_EQ(all.wrong, 0);
}

TEST(ThreadPool, IdleCostsNothing) {
  ThreadPool pool(4);
  Counts counts;
  counts.threads = 4;
  pool.run(countCall, &counts);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  double before = cpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(cpuSeconds() - before, 0.02);
}

TEST(ThreadPool, KnowsItsCpus) { EXPECT_GE(availableThreads(), 1); }
