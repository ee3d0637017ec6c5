//===- Signals.cpp - A clean stop when a signal asks for it ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Signals.h"
#include "heddle/runtime/io/Process.h"

#include <csignal>

using namespace heddle;

static volatile std::sig_atomic_t received = 0;

static void note(int signal) {
  received = signal;
  // A second one of the kind ends the process.
  io::endOnSignal(signal);
}

void heddle::rt::catchStopSignals() {
  struct sigaction action = {}, before = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, nullptr, &before);
  // nohup asks for a run that goes on when its terminal is closed.
  if (before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
}

int heddle::rt::stopSignal() { return received; }
