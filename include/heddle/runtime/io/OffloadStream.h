//===- OffloadStream.h - Asynchronous offload transfers ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asynchronous transfers between memory and offload files. They take effect in
// the order in which they were started, like work on a CUDA stream: `start`
// returns a point of the stream, and `await` waits for it. Devices use such a
// stream to prefetch and write back states that are offloaded to files.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_OFFLOADSTREAM_H
#define HEDDLE_RUNTIME_IO_OFFLOADSTREAM_H

#include "heddle/runtime/io/BlockQueue.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/OffloadFile.h"
#include "heddle/runtime/io/OffloadTimes.h"
#include "heddle/runtime/io/RowChoice.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace heddle::io {

/// A transfer of whole pages from a file to memory, or back.
struct OffloadTransfer {
  bool isWrite = false;
  OffloadFile *file = nullptr;
  int64_t offset = 0;
  char *memory = nullptr;
  int64_t bytes = 0;
  /// The transfer writes the times of its begin and end here. If the caller has
  /// already set the time of the begin, that time is kept. Null if the times
  /// are not needed.
  OffloadTime *time = nullptr;
};

/// The stream counts transfers separately in three lanes: reads, writes, and
/// transfers for which the caller waits at once (Now).
enum class OffloadLane { Read, Write, Now };

/// A point of the stream: for each lane, how many transfers were started before
/// the point. The point is reached when these are done.
struct OffloadPoint {
  std::array<int64_t, 3> counts = {};

  int64_t &operator[](OffloadLane lane) { return counts[size_t(lane)]; }
  int64_t operator[](OffloadLane lane) const { return counts[size_t(lane)]; }
  /// Moves this point so that it is reached when both this point and `other`
  /// are.
  void include(const OffloadPoint &other) {
    for (size_t lane = 0; lane < counts.size(); ++lane)
      counts[lane] = std::max(counts[lane], other.counts[lane]);
  }
  bool isDone(const OffloadPoint &done) const {
    for (size_t lane = 0; lane < counts.size(); ++lane)
      if (counts[lane] > done.counts[lane])
        return false;
    return true;
  }
};

/// How transfers are split into requests. The defaults are the fastest ones in
/// the table of bench/README.md, which heddle-bench-swap measures.
struct OffloadShape {
  int64_t requestBytes = int64_t(1) << 20; ///< Largest size of a request.
  int64_t depth = 16;                      ///< Requests in flight at a time.
};

/// Runs transfers on a thread of its own. Their effects are as if they ran one
/// after the other, in the order of `start`; transfers that overlap neither in
/// the file nor in memory run at the same time. Several threads may use a
/// stream. Transfers allocate no memory.
class OffloadStream {
public:
  OffloadStream(std::unique_ptr<BlockQueue> queue, const OffloadShape &shape);
  /// Finishes all transfers that were started.
  ~OffloadStream();
  OffloadStream(const OffloadStream &) = delete;
  OffloadStream &operator=(const OffloadStream &) = delete;

  /// Starts a transfer of at least one byte. Blocks only if very many transfers
  /// are queued. Offset, address and size are multiples of
  /// OffloadFile::pageBytes. Until the returned point is reached, the caller
  /// must not change memory that is written to the file, nor touch memory that
  /// is read into.
  OffloadPoint start(const OffloadTransfer &transfer);
  /// The point that is reached when all transfers started so far are done.
  OffloadPoint started() const;
  /// Waits until `point` is reached. Throws the error of any transfer so far
  /// (see OffloadFile); no bytes are transferred after an error.
  void await(const OffloadPoint &point);

  /// Read or write a range at any offset and address, and return when it is
  /// done. They run after earlier transfers that overlap with the range; other
  /// transfers continue. Ranges that are not whole pages go through a
  /// page-aligned buffer.
  void read(OffloadFile &file, int64_t offset, void *target, int64_t bytes);
  void write(OffloadFile &file, int64_t offset, const void *source,
             int64_t bytes);
  /// Reads rows of a table at `offset` in the file: the row of each id of
  /// `choice`, in the order of the ids. Every row is read with whole pages
  /// (OffloadFile::bytesForRow). For an id that names no row, all bits of the
  /// result are ones.
  void readRows(OffloadFile &file, int64_t offset, char *target,
                const RowChoice &choice);
  /// Writes `value` to every byte of a range.
  void fill(OffloadFile &file, int64_t offset, unsigned char value,
            int64_t bytes);

  OffloadTraffic traffic() const;
  /// `io_uring` or `threads`.
  const char *method() const { return queue->name(); }

private:
  /// Identifies a transfer by its lane and its index in that lane, from 1.
  struct LanePosition {
    OffloadLane lane = OffloadLane::Read;
    int64_t number = 0;
  };
  struct Waiting {
    OffloadTransfer transfer;
    LanePosition position;
  };
  struct Active {
    OffloadTransfer transfer;
    LanePosition position;
    int64_t number = 0; ///< Index of the transfer among all transfers, from 1.
    int64_t issued = 0; ///< Bytes for which requests were issued.
    int64_t moved = 0;
  };
  struct Slot {
    BlockRequest request;
    int64_t number = 0; ///< Index of the transfer, from 1; 0: the slot is free.
    int64_t stalled = 0; ///< Consecutive results that moved less than a page.
  };
  /// A page-aligned buffer through which ranges that are not page-aligned are
  /// read and written.
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
  void readSomeRows(OffloadFile &file, int64_t offset, char *target,
                    int64_t span, const RowChoice &choice);
  OffloadPoint start(const OffloadTransfer &transfer, OffloadLane lane);
  void moveNow(const OffloadTransfer &transfer);
  /// Divides a range into chunks that fit into the detour buffer, which holds
  /// whole pages. Calls `visit(offset of the first page, index of the first
  /// byte in that page, bytes)` for each chunk.
  template <typename F>
  void forEachPiece(int64_t offset, int64_t bytes, F visit) const;
  char *detour();
  /// The size of the detour buffer, through which ranges that are not
  /// page-aligned are read and written. It holds several requests, which can be
  /// in flight at the same time.
  int64_t detourBytes() const {
    return shape.requestBytes * std::min<int64_t>(shape.depth, 4);
  }

  std::unique_ptr<BlockQueue> queue;
  OffloadShape shape;
  std::mutex detouring; ///< Held by the thread that uses the detour buffer.
  std::optional<Detour> around;

  mutable std::mutex mutex;
  std::condition_variable startedOne, finishedSome;
  std::vector<Waiting> waiting; ///< A ring buffer.
  int64_t offered = 0, taken = 0;
  OffloadPoint offeredOf, takenOf, done;
  bool stopping = false;
  /// The error of the first failed transfer, for callers that wait. It is set
  /// only when no request is in flight any more, so that callers may then free
  /// their memory.
  std::optional<Diagnostic> failure;

  // Only the stream's thread uses the next four members.
  std::vector<Active> active; ///< The transfers in progress, oldest first.
  std::vector<Slot> slots;
  int64_t underWay = 0;
  std::optional<Diagnostic> failing;

  std::atomic<int64_t> readBytes{0}, writtenBytes{0}, requests{0};
  std::thread thread;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADSTREAM_H
