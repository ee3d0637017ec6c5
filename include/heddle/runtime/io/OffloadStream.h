//===- OffloadStream.h - Bytes on their way to and from files ------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// Pages of a file that are read to memory, or written from it.
struct OffloadTransfer {
  bool isWrite = false;
  OffloadFile *file = nullptr;
  int64_t offset = 0;
  char *memory = nullptr;
  int64_t bytes = 0;
  OffloadTime *time = nullptr; ///< Noted there; the end alone if it has begun.
};

/// Transfers are counted apart: those that read, those that write, and those
/// that their caller waits for at once.
enum class OffloadLane { Read, Write, Now };

/// So many of each lane.
struct OffloadPoint {
  std::array<int64_t, 3> counts = {};

  int64_t &operator[](OffloadLane lane) { return counts[size_t(lane)]; }
  int64_t operator[](OffloadLane lane) const { return counts[size_t(lane)]; }
  /// Of this point and the other one the later.
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

/// How transfers are cut into requests. What is not given is of the table in
/// docs/swap.md, which heddle-bench-swap measures.
struct OffloadShape {
  int64_t requestBytes = int64_t(1) << 20; ///< At most, of one request.
  int64_t depth = 16;                      ///< Requests under way at a time.
};

/// Does transfers beside the caller, on a thread of its own. They appear to be
/// done in the order of their starts; those of which no bytes overlap, in the
/// file or in memory, are done at the same time. Several threads may use it;
/// running allocates nothing.
class OffloadStream {
public:
  OffloadStream(std::unique_ptr<BlockQueue> queue, const OffloadShape &shape);
  /// Finishes what was started.
  ~OffloadStream();
  OffloadStream(const OffloadStream &) = delete;
  OffloadStream &operator=(const OffloadStream &) = delete;

  /// Begins a transfer, and returns at once unless very many are under way.
  /// Offset, memory and bytes, of which there are some, are multiples of
  /// OffloadFile::pageBytes; the bytes in memory stay as they are, or alone,
  /// until it is done. Gives the point at which it is.
  OffloadPoint start(const OffloadTransfer &transfer);
  /// All that were started.
  OffloadPoint started() const;
  /// Returns when the first so many of each lane are done. Throws what failed
  /// of all so far (see OffloadFile): nothing is moved after that.
  void await(const OffloadPoint &point);

  /// Read and write bytes wherever they stand, after what was started with
  /// bytes of them, and return when they are there; what else is under way goes
  /// on. What does not fill pages takes a detour.
  void read(OffloadFile &file, int64_t offset, void *target, int64_t bytes);
  void write(OffloadFile &file, int64_t offset, const void *source,
             int64_t bytes);
  /// Reads the rows of the table at `offset` that the ids name, one behind the
  /// other; for each OffloadFile::bytesForRow. An id that is no row gives bytes
  /// of ones.
  void readRows(OffloadFile &file, int64_t offset, char *target,
                const RowChoice &choice);
  /// Writes `value` into every byte.
  void fill(OffloadFile &file, int64_t offset, unsigned char value,
            int64_t bytes);

  OffloadTraffic traffic() const;
  /// `io_uring` or `threads`.
  const char *method() const { return queue->name(); }

private:
  /// In its lane, counted from 1.
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
    int64_t number = 0; ///< Among all, counted from 1.
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
  void readSomeRows(OffloadFile &file, int64_t offset, char *target,
                    int64_t span, const RowChoice &choice);
  OffloadPoint start(const OffloadTransfer &transfer, OffloadLane lane);
  void moveNow(const OffloadTransfer &transfer);
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
  OffloadShape shape;
  std::mutex detouring; ///< Who has the detour holds it.
  std::optional<Detour> around;

  mutable std::mutex mutex;
  std::condition_variable startedOne, finishedSome;
  std::vector<Waiting> waiting; ///< A ring.
  int64_t offered = 0, taken = 0;
  OffloadPoint offeredOf, takenOf, done;
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

#endif // HEDDLE_RUNTIME_IO_OFFLOADSTREAM_H
