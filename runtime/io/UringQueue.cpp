//===- UringQueue.cpp - Block I/O with io_uring -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BlockQueue on Linux's io_uring. It is not compiled if liburing was not found
// at build time.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/BlockQueue.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <cerrno>
#include <cstring>
#if HEDDLE_HAS_URING
#include <liburing.h>
#endif

using namespace heddle;
using namespace heddle::io;

#if HEDDLE_HAS_URING

namespace {

class UringQueue : public BlockQueue {
public:
  explicit UringQueue(const io_uring &ring) : ring(ring) {}
  ~UringQueue() override { io_uring_queue_exit(&ring); }

  const char *name() const override { return "io_uring"; }
  void submit(const BlockRequest &request) override;
  BlockResult wait() override;

private:
  io_uring ring;
};

} // namespace

void UringQueue::submit(const BlockRequest &request) {
  // The result is never null, because the ring has an entry for each request
  // that may be in flight.
  io_uring_sqe *entry = io_uring_get_sqe(&ring);
  if (request.isWrite)
    io_uring_prep_write(entry, request.descriptor, request.memory,
                        request.bytes, request.offset);
  else
    io_uring_prep_read(entry, request.descriptor, request.memory, request.bytes,
                       request.offset);
  io_uring_sqe_set_data64(entry, request.tag);
}

BlockResult UringQueue::wait() {
  io_uring_cqe *done = nullptr;
  while (true) {
    int status = io_uring_submit_and_wait(&ring, 1);
    if (status >= 0 && io_uring_peek_cqe(&ring, &done) == 0)
      break;
    // With these errors the kernel has not accepted some requests yet. The next
    // iteration submits them again.
    if (status < 0 && status != -EINTR && status != -EAGAIN && status != -EBUSY)
      fail("H0461", std::string("io_uring failed: ") + std::strerror(-status),
           "set HEDDLE_SWAP_IO=threads to do without it");
  }
  BlockResult result = {int64_t(io_uring_cqe_get_data64(done)), done->res};
  io_uring_cqe_seen(&ring, done);
  return result;
}

std::unique_ptr<BlockQueue> io::openUring(int64_t depth, std::string &why) {
  io_uring ring;
  int status = io_uring_queue_init(unsigned(depth), &ring, 0);
  if (status == 0)
    return std::make_unique<UringQueue>(ring);
  why = std::strerror(-status);
  return nullptr;
}

#else

std::unique_ptr<BlockQueue> io::openUring(int64_t, std::string &why) {
  why = "built without liburing";
  return nullptr;
}

#endif

std::unique_ptr<BlockQueue> io::openBlockQueue(const std::string &method,
                                               int64_t depth) {
  std::string why;
  bool isAuto = method == "auto";
  if (isAuto || method == "io_uring") {
    if (std::unique_ptr<BlockQueue> queue = openUring(depth, why))
      return queue;
    if (!isAuto)
      fail("H0190", "HEDDLE_SWAP_IO=io_uring cannot be had: " + why,
           "set it to threads or auto, or not at all");
  } else if (method != "threads") {
    fail("H0190", "HEDDLE_SWAP_IO=" + method + " names no way to move bytes",
         "set it to io_uring, threads or auto, or not at all");
  }
  return openBlockThreads(depth);
}
