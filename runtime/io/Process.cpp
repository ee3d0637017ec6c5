//===- Process.cpp - Set up a process for file I/O --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Process.h"
#include "heddle/runtime/io/File.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

//===----------------------------------------------------------------------===//
// Standard streams
//===----------------------------------------------------------------------===//

/// Opens /dev/null on each standard descriptor that is closed, so that no file
/// opened later gets its number. For stdin and stdout, /dev/null is opened
/// read-only, so that writes to a closed stdout still fail. Writes to a closed
/// stderr are lost silently.
static void fillStandardDescriptors() {
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(number, F_GETFD) < 0)
      // open returns the lowest free descriptor. This is `number`, because all
      // lower ones are open by now.
      (void)!open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

void io::failToPrint(int error) {
  fail("H0431",
       std::string("cannot write to stdout: ") +
           (error ? std::strerror(error) : "a part was lost"),
       "let stdout lead where there is room, as to a file on another disk");
}

void io::flushStandardOutput() {
  errno = 0;
  bool isFlushed = fflush(stdout) == 0;
  int error = errno;
  if (!isFlushed || ferror(stdout))
    failToPrint(error);
}

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

static void removeAndEnd(int signal) {
  removeTemporaries();
  // Sends the signal again. SA_RESETHAND has restored the signal's default
  // action, which ends the process as soon as this handler returns.
  raise(signal);
}

void io::endOnSignal(int signal) {
  struct sigaction action = {};
  action.sa_handler = removeAndEnd;
  action.sa_flags = SA_RESETHAND;
  sigaction(signal, &action, nullptr);
}

/// Handles SIGBUS, which the system sends for an access to a mapped page that a
/// truncated file has lost.
static void reportLostBytes(int signal, siginfo_t *information, void *) {
  // Several threads may get SIGBUS at the same time: only one reports it.
  static std::atomic_flag isReported = ATOMIC_FLAG_INIT;
  while (isReported.test_and_set())
    pause();
  const char *path = mappedFileAt(information->si_addr);
  if (!path) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    removeAndEnd(signal);
    return;
  }
  const char *const parts[] = {
      "error[", "H0432", "]: ", path,
      " became shorter while it was in use, or its disk fails\n"
      "  help: restore the file, and start again\n"};
  for (const char *part : parts)
    (void)!write(STDERR_FILENO, part, strlen(part));
  removeTemporaries();
  constexpr int failureWhileRunning = 5;
  _exit(failureWhileRunning);
}

void io::prepareProcess() {
  fillStandardDescriptors();
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    // nohup ignores SIGHUP.
    if (before.sa_handler != SIG_IGN)
      endOnSignal(signal);
  }
  struct sigaction action = {};
  action.sa_sigaction = reportLostBytes;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);
}
