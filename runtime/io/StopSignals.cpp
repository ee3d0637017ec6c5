//===- StopSignals.cpp - Tell a first stop signal from a second -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/StopSignals.h"
#include <cstdlib>
#include <ctime>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t nanosecondsPerSecond = 1000000000;

void StopRequests::setParent(pid_t process, bool decides) {
  parent = process;
  parentDecides = decides;
  begunBy = getppid();
}

void StopRequests::setParent() {
  const char *launcher = std::getenv(launcherVariable);
  pid_t process = launcher ? pid_t(std::atol(launcher)) : 0;
  setParent(process > 0 ? process : getppid(), process > 0);
}

/// Whether the parent that started this process, `heddle run`, has ended. When
/// it ends, the kernel sends this process the signal that was requested by
/// PR_SET_PDEATHSIG, with the parent as its sender. That signal must not count
/// as the parent's second request, which would mean to stop at once.
bool StopRequests::hasParentEnded() const {
  return parent == begunBy && getppid() != parent;
}

StopRequests::Kind StopRequests::judge(int signal, SignalSender sender,
                                       int64_t nanoseconds) {
  Seen &kind = seen[signal == SIGINT ? 0 : signal == SIGTERM ? 1 : 2];
  bool isFromParent = sender.process > 0 && sender.process == parent;
  bool isParentsFirst = isFromParent && kind.fromParent.fetch_add(1) == 0;
  int64_t first = 0;
  if (kind.first.compare_exchange_strong(first, nanoseconds))
    return Kind::First;
  if (isParentsFirst)
    return Kind::Repeated;
  if (isFromParent && parentDecides)
    return hasParentEnded() ? Kind::Repeated : Kind::Urgent;
  bool isKey = signal == SIGINT && sender.isSystem;
  int64_t patience =
      isKey ? nanosecondsPerSecond * 3 / 10 : 2 * nanosecondsPerSecond;
  return nanoseconds - first >= patience ? Kind::Urgent : Kind::Repeated;
}

StopRequests::Kind StopRequests::judge(int signal, SignalSender sender) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return judge(signal, sender, now.tv_sec * nanosecondsPerSecond + now.tv_nsec);
}
