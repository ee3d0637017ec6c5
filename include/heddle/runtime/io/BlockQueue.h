//===- BlockQueue.h - Reads and writes beside the caller --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_BLOCKQUEUE_H
#define HEDDLE_RUNTIME_IO_BLOCKQUEUE_H

#include <cstdint>
#include <memory>
#include <string>

namespace heddle::io {

/// A single read or write of an open file, as one system call does it.
struct BlockRequest {
  bool isWrite = false;
  int descriptor = -1;
  int64_t offset = 0;
  char *memory = nullptr;
  int64_t bytes = 0;
  int64_t tag = 0; ///< What the result is known by.
};

struct BlockResult {
  int64_t tag = 0;
  int64_t moved = 0; ///< Bytes, maybe fewer than wanted; or minus an errno.
};

/// Several requests under way at a time, done in any order. One thread uses it.
class BlockQueue {
public:
  virtual ~BlockQueue() = default;
  /// `io_uring` or `threads`.
  virtual const char *name() const = 0;
  /// Adds a request, which begins with the next `wait` at the latest. No more
  /// may be under way than the queue is deep.
  virtual void submit(const BlockRequest &request) = 0;
  /// Returns when one is done; some must be under way.
  virtual BlockResult wait() = 0;
};

/// A queue of the kernel's; null, with the reason in `why`, where it is
/// forbidden, as in many containers, or was not built in.
std::unique_ptr<BlockQueue> openUring(int64_t depth, std::string &why);

/// `depth` threads that call pread and pwrite.
std::unique_ptr<BlockQueue> openBlockThreads(int64_t depth);

/// The queue that `method` means: `io_uring`, `threads`, or `auto`, which is
/// the first one where it can be had. Throws H0190 for another word, and where
/// io_uring was asked for and cannot be had.
std::unique_ptr<BlockQueue> openBlockQueue(const std::string &method,
                                           int64_t depth);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_BLOCKQUEUE_H
