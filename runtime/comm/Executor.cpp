//===- Executor.cpp - Asynchronous collectives on the host ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Executor.h"

using namespace heddle::rt;

Executor::Executor(Collectives &collectives, Transport &transport,
                   bool spareCore)
    : collectives(collectives) {
  bool pays = spareCore || transport.waitsAsleep();
  if (pays && transport.isConcurrent() && transport.size() > 1)
    worker = std::thread([this] { work(); });
}

Executor::~Executor() {
  if (!worker.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  startedOne.notify_one();
  worker.join();
}

Executor::Ticket Executor::start(const CollectiveCall &call) {
  if (!worker.joinable()) {
    collectives.run(call);
    finished = ++started;
    return started;
  }
  Ticket ticket;
  {
    std::unique_lock<std::mutex> lock(mutex);
    finishedOne.wait(lock, [&] { return started - finished < capacity; });
    calls[started % capacity] = call;
    ticket = ++started;
  }
  startedOne.notify_one();
  return ticket;
}

void Executor::wait(Ticket ticket) {
  if (!worker.joinable())
    return;
  std::unique_lock<std::mutex> lock(mutex);
  finishedOne.wait(lock, [&] { return finished >= ticket; });
  if (error)
    std::rethrow_exception(error);
}

void Executor::work() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    startedOne.wait(lock, [&] { return stopping || started > finished; });
    if (started == finished)
      return;
    // After an error the ranks may be at different collectives, so further
    // collectives would exchange wrong data. Skip them.
    if (!error) {
      CollectiveCall call = calls[finished % capacity];
      lock.unlock();
      std::exception_ptr thrown;
      try {
        collectives.run(call);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      error = thrown;
    }
    ++finished;
    finishedOne.notify_all();
  }
}
