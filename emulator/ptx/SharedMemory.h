//===- SharedMemory.h - Shared memory with race detection -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With full checks, each byte of shared memory has a shadow with its last
// accesses. An access that is not ordered after these by a barrier is an error.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H
#define HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::emulator {

/// The state space whose writes a proxy fence covers.
enum class FenceOf { Shared, Global };

/// What a warp, or a barrier, knows: the latest time of each warp that is
/// ordered before it (a vector clock), and the time of each warp up to which
/// its writes have passed a proxy fence.
struct VectorClock {
  std::vector<uint32_t> clocks;
  std::array<std::vector<uint32_t>, 2> fences; ///< Indexed by FenceOf.

  /// Sets each time to the later one of this clock's and of `from`'s.
  void add(const VectorClock &from);
};

/// The shared memory of all blocks of a cluster, in one array. With full
/// checks, every byte has a shadow: the warps that last wrote and read it, and
/// their times. A warp's time advances at its barriers. A warp knows another
/// warp's time through a barrier that both have passed. Warps and threads are
/// numbered through all blocks.
class SharedMemory {
public:
  /// Starts a new cluster, with this many bytes and warps in each block.
  void reset(int64_t bytesOfBlock, int blocks, int warpsOfBlock,
             bool isShadowed);

  char *data() { return bytes.data(); }

  /// Record an access of a thread. Each returns an error message, or "".
  std::string read(int64_t offset, int64_t size, int thread);
  /// Two writes of the same `values`, if given, are no race.
  std::string write(int64_t offset, int64_t size, int thread,
                    const char *values = nullptr);
  /// Atomic operations do not race with each other.
  std::string atomic(int64_t offset, int64_t size, int thread);
  /// Issues an asynchronous copy: until a thread waits for it, none may access
  /// the bytes.
  std::string beginCopy(int64_t offset, int64_t size, int thread);
  void endCopy(int64_t offset, int64_t size, int thread, uint32_t time);

  /// Issues an asynchronous read: until a thread waits for it, none may write
  /// the bytes. Earlier writes of threads must have passed a proxy fence.
  std::string beginRead(int64_t offset, int64_t size, int thread);
  void endRead(int64_t offset, int64_t size, int thread);
  /// Completes a bulk copy. Threads that its mbarrier notifies may read the
  /// bytes, and write the copy's source.
  void landCopy(int64_t offset, int64_t size);
  void landRead(int64_t offset, int64_t size);
  /// As beginCopy, for a copy that combines its elements with those in memory:
  /// such copies do not race with each other.
  std::string beginReduction(int64_t offset, int64_t size, int thread);
  void landReduction(int64_t offset, int64_t size);
  /// Initialize, use and invalidate an mbarrier.
  std::string beginBarrier(int64_t offset, int thread);
  std::string useBarrier(int64_t offset, int thread,
                         const VectorClock &knownInits);
  std::string endBarrier(int64_t offset, int thread);

  /// Adds what a warp knows to `to`, the knowledge that an mbarrier passes on.
  void release(int warp, VectorClock &to);
  /// As `release`, for the bulk copies that have completed.
  void releaseCopies(VectorClock &to) { release(numWarps, to); }
  /// Returns what a warp knows, its own accesses included.
  VectorClock knownBy(int warp);
  /// As `release`, but adds only that the warp has started.
  void releaseStart(int warp, VectorClock &to);
  void acquire(int warp, const VectorClock &from);
  /// A proxy fence: asynchronous operations may read the writes that the warp
  /// knows of.
  void fenceProxy(int warp, FenceOf memory);
  /// Whether the warp knows that writes of warp `of` up to `time` were fenced.
  bool isFenced(int warp, int of, uint32_t time, FenceOf memory) {
    return time <= fence(memory, warp, of);
  }

  /// The warps of `mask`, counted from warp `first`, have met at a barrier.
  void join(uint32_t mask, int first);
  /// The lanes of a warp have met (bar.warp.sync).
  void joinLanes(int warp) {
    if (isShadowed)
      ++clock(warp, warp);
  }

  /// `now` returns the time of a warp. `knows`: whether another warp knows that
  /// this time has been reached.
  uint32_t now(int warp) { return isShadowed ? clock(warp, warp) : 0; }
  bool knows(int warp, int of, uint32_t time) {
    return !isShadowed || time <= clock(warp, of);
  }

  /// Records that a thread accesses the memory of `block`, which is not its
  /// own.
  std::string touchOther(int block, int thread);
  /// At a block's end: fails if another block's access to its memory is not
  /// known to be over.
  std::string endBlock(int block);

  /// Describes a byte: "byte 12 of shared memory".
  std::string describeByte(int64_t offset) const;

private:
  /// The shadow of a byte or of a word of four bytes. Times are those of the
  /// accessing warp; 0 means never.
  struct Shadow {
    uint32_t writeTime = 0, readTime = 0, atomicTime = 0;
    uint16_t writer = 0, reader = 0, atomicThread = 0;
    uint16_t pendingReads = 0; ///< Number of asynchronous reads in flight.
    bool isPending = false;    ///< An asynchronous copy writes it.
    bool isGeneric = false;    ///< The last write was by a store.
    bool isBarrier = false;    ///< It belongs to an mbarrier.
    bool hasOthers = false;    ///< Other threads read it at that time too.
    bool isSplit = false;      ///< Of a word: its bytes have separate shadows.
  };
  static constexpr int64_t wordBytes = 4;

  /// Calls f(shadow, offset, bytes) for the words of a range, or for their
  /// bytes if they are split, until f returns an error.
  template <class F> std::string each(int64_t offset, int64_t size, F f);
  std::string readShadow(Shadow &shadow, int64_t at, int thread);
  /// Why no thread may read the bytes, or "".
  std::string checkContents(const Shadow &shadow, int64_t at) const;
  /// An error message if a thread's write has not passed a proxy fence, or "".
  std::string checkFenced(const Shadow &shadow, int64_t at, int thread);
  std::string writeShadow(Shadow &shadow, int64_t at, int thread, bool isSame);

  static constexpr int64_t barrierBytes = 8;

  /// Number of clocks: one for each warp, and number `numWarps` for bulk
  /// copies.
  int numClocks() const { return numWarps + 1; }
  uint32_t &clock(int warp, int of) { return clocks[warp * numClocks() + of]; }
  uint32_t &fence(FenceOf memory, int warp, int of) {
    return fences[static_cast<int>(memory)][warp * numClocks() + of];
  }
  int numBlocks() const { return numWarps / warpsOfBlock; }
  std::string describe(int thread) const;
  /// Whether the access of `thread` at `time` is ordered before the current one
  /// of `self`.
  bool isBefore(int thread, uint32_t time, int self) {
    if (thread == self || time < start)
      return true;
    int warp = self / 32, other = thread / 32;
    return warp == other ? time < clock(warp, warp)
                         : time <= clock(warp, other);
  }
  std::string race(const char *what, int thread, const char *with, int other,
                   int64_t offset) const;

  std::vector<char> bytes;
  std::vector<Shadow> words, parts; ///< Shadows of words, and of single bytes.
  std::vector<uint32_t> clocks;     ///< What each warp knows of each other one.
  /// The part of `clocks` whose writes were fenced; indexed by FenceOf.
  std::array<std::vector<uint32_t>, 2> fences;
  /// Time of each warp's last access to the memory of each other block.
  std::vector<uint32_t> touches;
  int numWarps = 0, warpsOfBlock = 0;
  int64_t bytesOfBlock = 0;
  bool isShadowed = false;
  uint32_t start = 1; ///< The time at which the cluster started.
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H
