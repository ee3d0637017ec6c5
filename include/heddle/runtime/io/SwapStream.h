//===- SwapStream.h - Bytes on their way to and from files ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_SWAPSTREAM_H
#define HEDDLE_RUNTIME_IO_SWAPSTREAM_H

#include "heddle/runtime/io/BlockQueue.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/RowChoice.h"
#include "heddle/runtime/io/SwapFile.h"
#include "heddle/runtime/io/SwapTimes.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace heddle::io {

/// Pages of a file that are read to memory, or written from it.
struct SwapTransfer {
  bool isWrite = false;
  SwapFile *file = nullptr;
  int64_t offset = 0;
  char *memory = nullptr;
  int64_t bytes = 0;
  SwapTime *time = nullptr; ///< Noted there; the end alone if it has begun.
};

/// How transfers are cut into requests. What is not given is of the table in
/// docs/swap.md, which heddle-bench-swap measures.
struct SwapShape {
  int64_t requestBytes = int64_t(1) << 20; ///< At most, of one request.
  int64_t depth = 16;                      ///< Requests under way at a time.
};

/// Does transfers beside the caller, on a thread of its own. They appear to be
/// done in the order of their starts; those of which no bytes overlap, in the
/// file or in memory, are done at the same time. One thread uses it; running
/// allocates nothing.
class SwapStream {
public:
  SwapStream(std::unique_ptr<BlockQueue> queue, const SwapShape &shape);
  /// Finishes what was started.
  ~SwapStream();
  SwapStream(const SwapStream &) = delete;
  SwapStream &operator=(const SwapStream &) = delete;

  /// Begins a transfer, and returns at once unless very many are under way.
  /// Offset, memory and bytes, of which there are some, are multiples of
  /// SwapFile::pageBytes; the bytes in memory stay as they are, or alone, until
  /// it is done.
  void start(const SwapTransfer &transfer);
  /// How many were started.
  int64_t started() const { return startedCount; }
  /// Returns when the first `count` that were started are done. Throws what
  /// failed of all so far (see SwapFile): nothing is moved after that.
  void await(int64_t count);

  /// Read and write bytes wherever they stand, after all that was started, and
  /// return when they are there. What does not fill pages takes a detour.
  void read(SwapFile &file, int64_t offset, void *target, int64_t bytes);
  void write(SwapFile &file, int64_t offset, const void *source, int64_t bytes);
  /// Reads the rows of the table at `offset` that the ids name, one behind the
  /// other; for each SwapFile::bytesForRow. An id that is no row gives bytes of
  /// ones.
  void readRows(SwapFile &file, int64_t offset, char *target,
                const RowChoice &choice);
  /// Writes `value` into every byte.
  void fill(SwapFile &file, int64_t offset, unsigned char value, int64_t bytes);

  SwapTraffic traffic() const;
  /// `io_uring` or `threads`.
  const char *method() const { return queue->name(); }

private:
  struct Active {
    SwapTransfer transfer;
    int64_t number = 0; ///< Counted from 1.
    int64_t issued = 0; ///< Bytes of which requests were made.
    int64_t moved = 0;
  };
  struct Slot {
    BlockRequest request;
    int64_t number = 0;  ///< Of the transfer; 0: the slot is free.
    int64_t stalled = 0; ///< Results in a row that were no whole page.
  };
  /// A page-aligned buffer for the detour.
  struct Detour {
    explicit Detour(int64_t bytes);
    ~Detour();
    char *data;
  };

  void work();
  bool take();
  void issue();
  void issuePart(Active &active, int64_t slot);
  BlockResult awaitOne();
  void finish(const BlockResult &result);
  void finishPart(const BlockResult &result);
  void announce();
  Active &activeOf(int64_t number);
  void readSomeRows(SwapFile &file, int64_t offset, char *target, int64_t span,
                    const RowChoice &choice);
  void moveNow(const SwapTransfer &transfer);
  /// Calls `visit(page-aligned offset, first byte there, bytes)` for pieces of
  /// a range that fit into the detour.
  template <typename F>
  void forEachPiece(int64_t offset, int64_t bytes, F visit) const;
  char *detour();
  /// Some requests are under way at a time on the detour, too.
  int64_t detourBytes() const {
    return shape.requestBytes * std::min<int64_t>(shape.depth, 4);
  }

  std::unique_ptr<BlockQueue> queue;
  SwapShape shape;
  std::optional<Detour> around;
  int64_t startedCount = 0; ///< The caller's.

  std::mutex mutex;
  std::condition_variable startedOne, finishedSome;
  std::vector<SwapTransfer> waiting; ///< A ring.
  int64_t offered = 0, taken = 0, done = 0;
  bool stopping = false;
  std::optional<Diagnostic> failure; ///< Set once nothing is under way.

  // Of the thread alone.
  std::vector<Active> active; ///< By their numbers.
  std::vector<Slot> slots;
  int64_t underWay = 0;
  std::optional<Diagnostic> failing;

  std::atomic<int64_t> readBytes{0}, writtenBytes{0}, requests{0};
  std::thread thread;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_SWAPSTREAM_H
