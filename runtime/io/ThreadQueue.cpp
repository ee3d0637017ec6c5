//===- ThreadQueue.cpp - Block I/O with threads -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BlockQueue on threads that call pread and pwrite, for systems without
// io_uring.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/BlockQueue.h"
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace heddle;
using namespace heddle::io;

namespace {

/// Reads and writes blocks on threads. They take requests from one ring buffer
/// and put the results into another.
class ThreadQueue : public BlockQueue {
public:
  explicit ThreadQueue(int64_t depth) : requests(depth), results(depth) {
    for (int64_t i = 0; i < depth; ++i)
      threads.emplace_back([this] { work(); });
  }
  ~ThreadQueue() override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
    }
    submittedOne.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }

  const char *name() const override { return "threads"; }
  void submit(const BlockRequest &request) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      requests[submitted++ % requests.size()] = request;
    }
    submittedOne.notify_one();
  }
  BlockResult wait() override {
    std::unique_lock<std::mutex> lock(mutex);
    finishedOne.wait(lock, [&] { return finished > seen; });
    return results[seen++ % results.size()];
  }

private:
  void work();

  std::mutex mutex;
  std::condition_variable submittedOne, finishedOne;
  std::vector<BlockRequest> requests;
  std::vector<BlockResult> results;
  size_t submitted = 0, taken = 0, finished = 0, seen = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
};

} // namespace

static int64_t perform(const BlockRequest &request) {
  ssize_t moved = request.isWrite ? pwrite(request.descriptor, request.memory,
                                           request.bytes, request.offset)
                                  : pread(request.descriptor, request.memory,
                                          request.bytes, request.offset);
  return moved < 0 ? -errno : moved;
}

void ThreadQueue::work() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    submittedOne.wait(lock, [&] { return stopping || taken < submitted; });
    if (taken == submitted)
      return;
    BlockRequest request = requests[taken++ % requests.size()];
    lock.unlock();
    int64_t moved = perform(request);
    lock.lock();
    results[finished++ % results.size()] = {request.tag, moved};
    finishedOne.notify_one();
  }
}

std::unique_ptr<BlockQueue> io::openBlockThreads(int64_t depth) {
  return std::make_unique<ThreadQueue>(depth);
}
