//===- Signals.cpp - A clean stop when a signal asks for it ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Signals.h"

#include <csignal>

static volatile std::sig_atomic_t received = 0;

static void note(int signal) { received = signal; }

void heddle::rt::catchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A file over the limit of the process's files is an error of its writing.
  signal(SIGXFSZ, SIG_IGN);
}

int heddle::rt::stopSignal() { return received; }
