//===- SharedMemory.h - Shared memory with race detection -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulated shared memory, with checks for races. With full checks, each
// byte of shared memory has a shadow with its last accesses. An access is an
// error if no barrier orders it after these accesses.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H
#define HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::emulator {

/// The state space whose writes a proxy fence makes visible to asynchronous
/// copies.
enum class FenceOf { Shared, Global };

/// A vector clock: says which accesses are ordered before a certain point in a
/// warp's execution. For each warp, `clocks` has the time up to which that
/// warp's accesses are ordered before the point, and `fences` the time up to
/// which that warp's writes have passed a proxy fence. A barrier merges the
/// clocks of the warps that arrive, and passes the merged clock on to the warps
/// that wait. Times are logical: a warp's time advances when the warp
/// synchronizes with others or executes a fence.
struct VectorClock {
  std::vector<uint32_t> clocks;
  /// The first index is a FenceOf, the second a warp. The entry is the time up
  /// to which the warp's writes have passed a proxy fence for this state space.
  std::array<std::vector<uint32_t>, 2> fences;

  /// Sets each time to the later one of this clock's time and the time in
  /// `from`.
  void add(const VectorClock &from);
};

/// The shared memory of all blocks of a cluster, in one array. With full
/// checks, every byte has a shadow: the warps that last wrote and read it, and
/// the logical times at which they did (see VectorClock). An access is ordered
/// before an access by another warp if a barrier has passed the time of the
/// first access on to the other warp. Warps and threads are numbered through
/// all blocks of the cluster.
class SharedMemory {
public:
  /// Starts a new cluster. Each of its blocks has `bytesOfBlock` bytes of
  /// shared memory and `warpsOfBlock` warps.
  void reset(int64_t bytesOfBlock, int blocks, int warpsOfBlock,
             bool isShadowed);

  char *data() { return bytes.data(); }

  /// `read`, `write` and `atomic` record an access of a thread, and return an
  /// error message, or "" if there is no race.
  std::string read(int64_t offset, int64_t size, int thread);
  /// Two threads may write the same bytes at the same time if they write the
  /// same `values`.
  std::string write(int64_t offset, int64_t size, int thread,
                    const char *values = nullptr);
  /// Atomic operations do not race with each other.
  std::string atomic(int64_t offset, int64_t size, int thread);
  /// Issues an asynchronous copy that writes the bytes. Until a thread waits
  /// for the copy, no thread may access the bytes.
  std::string beginCopy(int64_t offset, int64_t size, int thread);
  void endCopy(int64_t offset, int64_t size, int thread, uint32_t time);

  /// Issues an asynchronous read of the bytes. Until a thread waits for the
  /// read, no thread may write them. Earlier writes of threads to these bytes
  /// must have passed a proxy fence.
  std::string beginRead(int64_t offset, int64_t size, int thread);
  void endRead(int64_t offset, int64_t size, int thread);
  /// Completes a bulk copy. A thread that the copy's mbarrier notifies may then
  /// read the copied bytes, and overwrite the source of the copy.
  void landCopy(int64_t offset, int64_t size);
  void landRead(int64_t offset, int64_t size);
  /// Does the same as beginCopy for a bulk copy with a reduction, which adds
  /// its elements to those in memory, or combines them in another way. Such
  /// copies do not race with each other.
  std::string beginReduction(int64_t offset, int64_t size, int thread);
  void landReduction(int64_t offset, int64_t size);
  /// Check that a thread may initialize (beginBarrier), use (useBarrier) or
  /// invalidate (endBarrier) an mbarrier at this offset.
  std::string beginBarrier(int64_t offset, int thread);
  std::string useBarrier(int64_t offset, int thread,
                         const VectorClock &knownInits);
  std::string endBarrier(int64_t offset, int thread);

  /// Merges a warp's vector clock into `to`, the clock of a barrier. The
  /// barrier passes its clock on to the warps that wait there.
  void release(int warp, VectorClock &to);
  /// Merges the clock of the completed bulk copies into `to`, the clock of an
  /// mbarrier. Warps that wait at the mbarrier may then read the copied bytes.
  void releaseCopies(VectorClock &to) { release(numWarps, to); }
  /// Returns a warp's vector clock, its own accesses included.
  VectorClock knownBy(int warp);
  /// Called for a relaxed arrival of a warp at the cluster's barrier. Such an
  /// arrival orders no memory accesses. It tells other warps only that this
  /// warp has started, so only this is added to `to`, the barrier's clock.
  void releaseStart(int warp, VectorClock &to);
  void acquire(int warp, const VectorClock &from);
  /// Executes a proxy fence of a warp. Asynchronous operations may then read
  /// all writes that are ordered before the fence.
  void fenceProxy(int warp, FenceOf memory);
  /// Whether the writes of warp `of` up to its logical time `time` have passed
  /// a proxy fence that is ordered before the next access of warp `warp`.
  bool isFenced(int warp, int of, uint32_t time, FenceOf memory) {
    return time <= fence(memory, warp, of);
  }

  /// Records that the warps of `mask` have met at a barrier. Bit 0 of the mask
  /// is warp `first`.
  void join(uint32_t mask, int first);
  /// Records that the lanes of a warp have met (bar.warp.sync).
  void joinLanes(int warp) {
    if (isShadowed)
      ++clock(warp, warp);
  }

  /// The current logical time of a warp, which orders accesses for the
  /// detection of races. 0 without full checks.
  uint32_t now(int warp) { return isShadowed ? clock(warp, warp) : 0; }
  /// Whether the accesses of warp `of` up to its logical time `time` are
  /// ordered before the next access of warp `warp`. True without full checks.
  bool knows(int warp, int of, uint32_t time) {
    return !isShadowed || time <= clock(warp, of);
  }

  /// Records that a thread accesses the shared memory of `block`, another block
  /// of its cluster. Fails unless that block is known to have started.
  std::string touchOther(int block, int thread);
  /// Called at the end of a block. Fails if another block may still access the
  /// memory of this block.
  std::string endBlock(int block);

  /// Describes a byte: "byte 12 of shared memory".
  std::string describeByte(int64_t offset) const;

private:
  /// What is recorded about the accesses of a byte, or of a word of four bytes.
  /// Times are those of the accessing warp's clock; 0 means never.
  struct Shadow {
    uint32_t writeTime = 0, readTime = 0, atomicTime = 0;
    uint16_t writer = 0, reader = 0, atomicThread = 0;
    uint16_t pendingReads = 0; ///< Number of asynchronous reads in flight.
    /// Whether an asynchronous copy is writing the bytes.
    bool isPending = false;
    /// Whether the last write was by a store, not by an asynchronous copy.
    bool isGeneric = false;
    bool isBarrier = false; ///< Whether the bytes belong to an mbarrier.
    /// Whether threads other than `reader` have read the bytes too.
    bool hasOthers = false;
    /// For a word: whether its bytes have shadows of their own, because they
    /// were accessed separately. Then the word's shadow is not used.
    bool isSplit = false;
  };
  static constexpr int64_t wordBytes = 4;

  /// Calls f(shadow, offset, bytes) for each word of a range, or for each byte
  /// of a word whose bytes have shadows of their own. Stops when f returns an
  /// error, and returns that error.
  template <class F> std::string each(int64_t offset, int64_t size, F f);
  std::string readShadow(Shadow &shadow, int64_t at, int thread);
  /// Returns the reason why no thread may read the bytes, or "" if they may be
  /// read.
  std::string checkContents(const Shadow &shadow, int64_t at) const;
  /// Returns an error message if the last write to the bytes has not passed a
  /// proxy fence that is ordered before the next access of `thread`.
  /// Otherwise returns "".
  std::string checkFenced(const Shadow &shadow, int64_t at, int thread);
  std::string writeShadow(Shadow &shadow, int64_t at, int thread, bool isSame);

  static constexpr int64_t barrierBytes = 8;

  /// The number of times in a vector clock: one for each warp, and a last one,
  /// with the index `numWarps`, for bulk copies.
  int numClocks() const { return numWarps + 1; }
  uint32_t &clock(int warp, int of) { return clocks[warp * numClocks() + of]; }
  uint32_t &fence(FenceOf memory, int warp, int of) {
    return fences[static_cast<int>(memory)][warp * numClocks() + of];
  }
  int numBlocks() const { return numWarps / warpsOfBlock; }
  std::string describe(int thread) const;
  /// Whether the access of `thread` at `time` is ordered before the access that
  /// the thread `self` makes now.
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
  /// The vector clocks of all warps, one after the other. Index
  /// A * numClocks() + B has the time up to which the accesses of warp B are
  /// ordered before the next access of warp A.
  std::vector<uint32_t> clocks;
  /// The first index is FenceOf::Shared or FenceOf::Global. The second is
  /// A * numClocks() + B for the warps A and B. The entry is the time up to
  /// which the writes of B have passed a proxy fence for this state space that
  /// is ordered before the next access of A.
  std::array<std::vector<uint32_t>, 2> fences;
  /// For each warp and each other block of the cluster, the time of the warp's
  /// last access to that block's memory. It is an error if that block may end
  /// before this access.
  std::vector<uint32_t> touches;
  int numWarps = 0, warpsOfBlock = 0;
  int64_t bytesOfBlock = 0;
  bool isShadowed = false;
  uint32_t start = 1; ///< The time at which the cluster started.
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H
