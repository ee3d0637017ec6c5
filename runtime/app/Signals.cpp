//===- Signals.cpp - Stop after a signal ----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Signals.h"
#include "heddle/runtime/io/Process.h"
#include "heddle/runtime/io/StopSignals.h"

#include <csignal>

using namespace heddle;

static volatile std::sig_atomic_t received = 0;
static io::StopRequests requests;

static void note(int signal, siginfo_t *information, void *) {
  io::SignalSender sender = {information->si_code == SI_KERNEL,
                             information->si_pid};
  if (requests.judge(signal, sender) == io::StopRequests::Kind::Urgent) {
    io::endOnSignal(signal);
    raise(signal);
  } else if (received == 0) {
    received = signal;
  }
}

void heddle::rt::catchStopSignals() {
  requests.setParent();
  struct sigaction action = {}, before = {};
  action.sa_sigaction = note;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&action.sa_mask, signal);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, nullptr, &before);
  // Keep SIGHUP ignored if the parent process, such as nohup, ignored it. The
  // run then continues when the terminal is closed.
  if (before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
}

int heddle::rt::stopSignal() { return received; }
