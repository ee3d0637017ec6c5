//===- Executor.h - Collectives beside the computation ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_EXECUTOR_H
#define HEDDLE_RUNTIME_COMM_EXECUTOR_H

#include "heddle/runtime/comm/Collectives.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace heddle::rt {

/// Runs collectives one after the other, in the order of their starts. With a
/// thread of its own a start returns at once; without one it is the collective.
/// Starts and waits come from one thread. Nothing is allocated while running.
class Executor {
public:
  /// Counts starts from 1.
  using Ticket = int64_t;

  /// It has a thread where several may use the transport, the group is not
  /// alone, and the thread takes no core from the computation: there is one to
  /// spare (`spareCore`), or the transport sleeps while it waits.
  Executor(Collectives &collectives, Transport &transport, bool spareCore);
  /// Finishes what was started.
  ~Executor();

  Ticket start(const CollectiveCall &call);
  /// Throws what the collective, or one before it, threw.
  void wait(Ticket ticket);
  bool isThreaded() const { return worker.joinable(); }

private:
  void work();

  static constexpr Ticket capacity = 256;
  Collectives &collectives;
  CollectiveCall calls[capacity];
  Ticket started = 0, finished = 0;
  std::exception_ptr error;
  bool stopping = false;
  std::mutex mutex;
  std::condition_variable startedOne, finishedOne;
  std::thread worker;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_EXECUTOR_H
