//===- BlockQueue.h - Asynchronous block reads and writes -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A queue of asynchronous reads and writes of files, on io_uring or on threads.
// OffloadStream is its only user.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_BLOCKQUEUE_H
#define HEDDLE_RUNTIME_IO_BLOCKQUEUE_H

#include <cstdint>
#include <memory>
#include <string>

namespace heddle::io {

/// One pread or pwrite of an open file.
struct BlockRequest {
  bool isWrite = false;
  int descriptor = -1;
  int64_t offset = 0;
  char *memory = nullptr;
  int64_t bytes = 0;
  int64_t tag = 0; ///< Identifies the result of this request.
};

struct BlockResult {
  int64_t tag = 0;
  /// Bytes that were moved, maybe fewer than requested; negative: an errno.
  int64_t moved = 0;
};

/// Runs several requests (reads and writes of files) at a time and completes
/// them in any order. Only one thread may use a queue.
class BlockQueue {
public:
  virtual ~BlockQueue() = default;
  /// `io_uring` or `threads`.
  virtual const char *name() const = 0;
  /// Adds a request. It starts at the latest when `wait` is called next. The
  /// number of requests in flight must not exceed the `depth` of the queue (see
  /// openBlockQueue).
  virtual void submit(const BlockRequest &request) = 0;
  /// Returns when a request is done; at least one must be in flight.
  virtual BlockResult wait() = 0;
};

/// Opens a queue on io_uring. Returns null, with the reason in `why`, where
/// io_uring is forbidden, as in many containers, or missing in the kernel.
std::unique_ptr<BlockQueue> openUring(int64_t depth, std::string &why);

/// Opens a queue of `depth` threads that call pread and pwrite.
std::unique_ptr<BlockQueue> openBlockThreads(int64_t depth);

/// Opens the queue that `method` names: `io_uring`, `threads`, or `auto` for
/// io_uring if possible and threads otherwise. Throws H0190 for another name,
/// and for `io_uring` where that is not available.
std::unique_ptr<BlockQueue> openBlockQueue(const std::string &method,
                                           int64_t depth);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_BLOCKQUEUE_H
