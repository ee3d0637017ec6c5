//===- Executor.h - Asynchronous collectives on the host --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts collectives on host memory asynchronously, on a thread, so that they
// overlap with computation.
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

/// Runs collectives in the order in which `start` is called. If the executor
/// has a thread, `start` returns at once; otherwise, it runs the collective to
/// its end. Only one thread may call `start` and `wait`. Running a collective
/// allocates no memory.
class Executor {
public:
  /// Identifies a collective: the number of its call of `start`, from 1.
  using Ticket = int64_t;

  /// Creates a thread if the transport is thread-safe, the job has several
  /// ranks, and the thread takes no core away from computation. It takes none
  /// away if there is a spare core (`spareCore`), or if the transport sleeps
  /// while it waits.
  Executor(Collectives &collectives, Transport &transport, bool spareCore);
  /// Completes all collectives that were started.
  ~Executor();

  Ticket start(const CollectiveCall &call);
  /// Waits until the collective is done. Throws its error, or the error of an
  /// earlier collective.
  void wait(Ticket ticket);

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
