//===- HeartbeatTest.cpp - Ranks that die, stop, or are only slow ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Heartbeat.h"
#include "test/Runtime/Comm/JobRun.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <thread>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

using Clock = std::chrono::steady_clock;

static void sleepFor(double seconds) {
  std::this_thread::sleep_for(
      std::chrono::milliseconds(int64_t(seconds * 1000)));
}

class Heartbeats : public testing::TestWithParam<Starter> {
protected:
  void SetUp() override {
    if (!isInstalled(GetParam()))
      GTEST_SKIP() << "no mpirun of " << nameOf(GetParam());
  }
};

/// Signals one rank of a running job; all others must name it within 10 s. The
/// end is left to them: an mpirun would kill them all when one was killed.
static void expectAlarm(Starter starter, int rank, int signal,
                        const std::string &message) {
  JobRun job(starter, 3, {"beat", "60", "5000", "idle"}, {},
             Survivors::LeftAlone);
  std::vector<int> pids = job.waitForPids();
  ASSERT_GT(pids[rank], 0) << job.output();
  sleepFor(1);
  Clock::time_point begin = Clock::now();
  kill(pids[rank], signal);
  size_t alarms = 0;
  std::chrono::duration<double> passed{};
  while (alarms < 2 && passed.count() < 10) {
    sleepFor(0.02);
    alarms = countOf(job.output(), message);
    passed = Clock::now() - begin;
  }
  EXPECT_EQ(alarms, 2u) << job.output();
  sleepFor(0.5);
  if (starter == Starter::Sockets) {
    EXPECT_EQ(countOf(job.output(), "help: start the job again"), 2u)
        << job.output();
  }
  for (int other = 0; other < 3; ++other) {
    if (other == rank || starter != Starter::Sockets)
      continue;
    EXPECT_EQ(job.waitForRank(other, 1), 5) << job.output();
  }
  kill(pids[rank], SIGKILL);
  EXPECT_NE(job.wait(10), -1) << "the job did not end";
  EXPECT_EQ(countOf(job.output(), ": ok"), 0u);
}

TEST_P(Heartbeats, ARankDies) {
  if (GetParam() == Starter::Mpich)
    GTEST_SKIP() << "its mpirun kills the others, or its transport may";
  expectAlarm(GetParam(), 1, SIGKILL, "error[H0421]: rank 1 (");
}

TEST_P(Heartbeats, RankZeroDies) {
  if (GetParam() == Starter::Mpich)
    GTEST_SKIP() << "its mpirun kills the others, or its transport may";
  expectAlarm(GetParam(), 0, SIGKILL, "error[H0421]: rank 0 (");
}

TEST_P(Heartbeats, ARankStops) {
  expectAlarm(GetParam(), 2, SIGSTOP, "error[H0422]: rank 2 (");
}

TEST(Heartbeat, RankZeroStops) {
  expectAlarm(Starter::Sockets, 0, SIGSTOP, "error[H0422]: rank 0 (");
}

TEST_P(Heartbeats, ARankFailsAlone) {
  Outcome job = runJob(GetParam(), 3, {"fail"});
  EXPECT_NE(job.status, 0);
  EXPECT_EQ(countOf(job.output, "error[H0401]"), 1u) << job.output;
  EXPECT_EQ(countOf(job.output, "error[H0423]: rank 1 ("), 2u) << job.output;
  EXPECT_EQ(countOf(job.output, "in step 3: no space left"), 2u) << job.output;
}

/// More ranks than cores, all busy, at the lowest priority.
TEST_P(Heartbeats, SlowIsNotStopped) {
  JobRun job(GetParam(), 6, {"beat", "5", "100000", "busy"});
  for (int pid : job.waitForPids())
    setpriority(PRIO_PROCESS, pid, 19);
  EXPECT_EQ(job.wait(90), 0) << job.output();
  EXPECT_EQ(countOf(job.output(), "error["), 0u) << job.output();
}

INSTANTIATE_TEST_SUITE_P(Comm, Heartbeats,
                         testing::Values(Starter::Sockets, Starter::OpenMpi,
                                         Starter::Mpich),
                         [](const auto &info) { return nameOf(info.param); });

/// As a machine that is suspended: every observer misses the same time.
TEST(Heartbeat, SuspendedTogether) {
  JobRun job(Starter::Sockets, 3, {"beat", "11", "1000", "idle"});
  std::vector<int> pids = job.waitForPids();
  sleepFor(1);
  for (int pid : pids)
    kill(pid, SIGSTOP);
  sleepFor(8);
  for (int pid : pids)
    kill(pid, SIGCONT);
  EXPECT_EQ(job.wait(30), 0) << job.output();
  EXPECT_EQ(countOf(job.output(), "error["), 0u) << job.output();
}

/// Three ranks are in step 17; the first two go on to `step`, then the last one
/// dies. What each of them is told.
static std::vector<std::string> alarmsOfADeath(int64_t step) {
  auto transports = makeLocalThreads(3);
  std::vector<std::unique_ptr<Heartbeat>> heartbeats(3);
  std::vector<std::string> alarms(3);
  std::atomic<int> raised = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      heartbeats[rank] = std::make_unique<Heartbeat>(
          *transports[rank],
          [&, rank](const Diagnostic &diagnostic, int missing) {
            EXPECT_EQ(missing, 2);
            alarms[rank] = diagnostic.code + ": " + diagnostic.message;
            ++raised;
          });
      heartbeats[rank]->setActivity(17, "all_reduce over data");
    });
  for (std::thread &thread : threads)
    thread.join();
  sleepFor(0.5);
  for (int rank : {0, 1})
    heartbeats[rank]->setActivity(step, "all_gather over data");
  heartbeats[2].reset(); // Without a goodbye.
  for (int i = 0; i < 500 && raised < 2; ++i)
    sleepFor(0.01);
  EXPECT_EQ(raised, 2);
  return alarms;
}

static void expectAlarms(int64_t step, const std::string &message) {
  std::vector<std::string> alarms = alarmsOfADeath(step);
  for (int rank : {0, 1}) {
    EXPECT_EQ(countOf(alarms[rank], "H0421: rank 2 ("), 1u) << alarms[rank];
    EXPECT_EQ(countOf(alarms[rank], message), 1u) << alarms[rank];
  }
  EXPECT_EQ(alarms[2], "");
}

/// What a rank was at is in the alarm of the others.
TEST(Heartbeat, SaysWhatTheRankDid) {
  expectAlarms(17, ") died in step 17, in all_reduce over data");
}

/// And where they came to without it, when its last beat is older.
TEST(Heartbeat, SaysWhereTheRankIsMissed) {
  expectAlarms(19, ") died in step 19, in all_gather over data");
}

TEST(Heartbeat, GoodbyeIsNoAlarm) {
  auto transports = makeLocalThreads(3);
  std::atomic<int> raised = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      Heartbeat heartbeat(*transports[rank],
                          [&](const Diagnostic &, int) { ++raised; });
      sleepFor(0.2 * (rank + 1));
      heartbeat.goodbye();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(raised, 0);
}

TEST(Heartbeat, ActivityIsReadWhole) {
  ActivitySlot slot;
  slot.set(0, std::string(100, 'a'));
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int64_t i = 0; !stop; ++i)
      slot.set(i % 26, std::string(100, char('a' + i % 26)));
  });
  Clock::time_point end = Clock::now() + std::chrono::milliseconds(500);
  bool whole = true;
  while (whole && Clock::now() < end) {
    int64_t step = -1;
    char text[ActivitySlot::maxText + 1];
    slot.get(step, text);
    whole = std::string(text) == std::string(100, char('a' + step));
  }
  EXPECT_TRUE(whole);
  stop = true;
  writer.join();
  slot.set(1, std::string(1000, 'z'));
  int64_t step = 0;
  char text[ActivitySlot::maxText + 1];
  slot.get(step, text);
  EXPECT_EQ(std::string(text), std::string(ActivitySlot::maxText, 'z'));
}
