//===- StopSignalsTest.cpp - Tests of what signals ask for ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/StopSignals.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle::io;
using Kind = StopRequests::Kind;

namespace {

constexpr pid_t parent = 100, other = 7;
constexpr SignalSender system_{true, 0};

/// Signals that come at given seconds.
struct Arrivals {
  StopRequests requests;
  Kind at(double seconds, int signal, SignalSender sender) {
    return requests.judge(signal, sender, int64_t(1e9 * (1 + seconds)));
  }
};

} // namespace

TEST(StopSignals, OneRequestMayArriveOften) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Arrivals seen;
    seen.requests.setParent(parent, false);
    EXPECT_EQ(seen.at(0, signal, {false, other}), Kind::First);
    EXPECT_EQ(seen.at(0.5, signal, {false, other}), Kind::Repeated);
    EXPECT_EQ(seen.at(1.9, signal, {false, 8}), Kind::Repeated);
    EXPECT_EQ(seen.at(2, signal, {false, other}), Kind::Urgent);
  }
  // Kinds have nothing to do with each other.
  Arrivals seen;
  EXPECT_EQ(seen.at(0, SIGINT, {false, other}), Kind::First);
  EXPECT_EQ(seen.at(5, SIGTERM, {false, other}), Kind::First);
  EXPECT_EQ(seen.at(6, SIGHUP, system_), Kind::First);
  EXPECT_EQ(seen.at(7.5, SIGHUP, system_), Kind::Repeated);
}

TEST(StopSignals, KeysAreAPersons) {
  Arrivals seen;
  EXPECT_EQ(seen.at(0, SIGINT, system_), Kind::First);
  // A launcher in the same group passes it on.
  EXPECT_EQ(seen.at(0.31, SIGINT, {false, other}), Kind::Repeated);
  EXPECT_EQ(seen.at(0.29, SIGINT, system_), Kind::Repeated);
  EXPECT_EQ(seen.at(0.3, SIGINT, system_), Kind::Urgent);
}

TEST(StopSignals, ParentsPassOn) {
  Arrivals seen;
  seen.requests.setParent(parent, false);
  EXPECT_EQ(seen.at(0, SIGTERM, {false, other}), Kind::First);
  // However late it is: the machine may be busy.
  EXPECT_EQ(seen.at(9, SIGTERM, {false, parent}), Kind::Repeated);
  EXPECT_EQ(seen.at(10, SIGTERM, {false, parent}), Kind::Urgent);
  // GNU timeout: first the child, then the group.
  Arrivals timeout;
  timeout.requests.setParent(parent, false);
  EXPECT_EQ(timeout.at(0, SIGINT, {false, parent}), Kind::First);
  EXPECT_EQ(timeout.at(0.001, SIGINT, {false, parent}), Kind::Repeated);
  EXPECT_EQ(timeout.at(2, SIGINT, {false, parent}), Kind::Urgent);
}

TEST(StopSignals, TheLauncherDecides) {
  Arrivals seen;
  seen.requests.setParent(parent, true);
  EXPECT_EQ(seen.at(0, SIGINT, {false, parent}), Kind::First);
  EXPECT_EQ(seen.at(0.1, SIGINT, {false, other}), Kind::Repeated);
  EXPECT_EQ(seen.at(0.4, SIGINT, {false, parent}), Kind::Urgent);
}

TEST(StopSignals, TheEndOfTheLauncherIsNoRequest) {
  // The rank becomes a child of this process.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  pid_t middle = fork();
  if (middle == 0) {
    int ready[2];
    if (pipe(ready) != 0)
      _exit(9);
    static StopRequests requests;
    static Kind last = Kind::First;
    pid_t rank = fork();
    if (rank > 0) {
      char byte;
      (void)!read(ready[0], &byte, 1);
      _exit(0); // The rank's parent ends.
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setenv(launcherVariable, std::to_string(getppid()).c_str(), 1);
    requests.setParent();
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int signal, siginfo_t *information, void *) {
      last = requests.judge(
          signal, {information->si_code == SI_KERNEL, information->si_pid});
    };
    sigaction(SIGTERM, &action, nullptr);
    requests.judge(SIGTERM, {false, getppid()});
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    (void)!write(ready[1], "x", 1);
    sigsuspend(&before);
    _exit(last == Kind::Repeated ? 3 : 4);
  }
  int statuses[2] = {};
  pid_t ended[2];
  for (int i = 0; i < 2; ++i)
    ended[i] = wait(&statuses[i]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  int rank = ended[0] == middle ? 1 : 0;
  EXPECT_EQ(WEXITSTATUS(statuses[1 - rank]), 0);
  EXPECT_EQ(WEXITSTATUS(statuses[rank]), 3);
}
