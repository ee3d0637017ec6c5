//===- SlowReader.cpp - Pipes whose reader is slow ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/SlowReader.h"
#include "heddle/runtime/app/Signals.h"

#include <cerrno>
#include <poll.h>

using namespace heddle::rt;

bool SlowReader::takes(int descriptor) {
  constexpr int patience = 1000; // Milliseconds.
  pollfd asked = {descriptor, POLLOUT, 0};
  int found;
  do
    found = poll(&asked, 1, isStalled || stopSignal() != 0 ? 0 : patience);
  while (found < 0 && errno == EINTR);
  isStalled = found == 0;
  return !isStalled;
}
