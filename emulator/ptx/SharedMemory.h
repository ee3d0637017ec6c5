//===- SharedMemory.h - Shared memory that sees races -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H
#define HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::emulator {

/// Memory whose writes a proxy fence is for.
enum class FenceOf { Shared, Global };

/// What somebody knows of the time of each warp, and of the time of each warp
/// up to which its writes have passed a proxy fence.
struct Times {
  std::vector<uint32_t> clocks;
  std::array<std::vector<uint32_t>, 2> fences; ///< By FenceOf.

  /// Learns what is known to `from`, too.
  void add(const Times &from);
};

/// The shared memory of the blocks of a cluster, one after the other. With full
/// checks, every byte has a shadow: who wrote and who read it last, in the time
/// of their warp. A warp's time goes on at its barriers; what a warp knows of
/// another's time, it knows from a barrier that both passed. Warps and threads
/// are numbered through all blocks.
class SharedMemory {
public:
  /// A new cluster starts, of blocks with so many bytes and warps each.
  void reset(int64_t bytesOfBlock, int blocks, int warpsOfBlock,
             bool isShadowed);

  char *data() { return bytes.data(); }

  /// Notes an access of a thread, and returns what is wrong with it, or "".
  std::string read(int64_t offset, int64_t size, int thread);
  /// Two writes of the same `values` (if given) are no race.
  std::string write(int64_t offset, int64_t size, int thread,
                    const char *values = nullptr);
  /// Atomic operations are in order among themselves.
  std::string atomic(int64_t offset, int64_t size, int thread);
  /// An asynchronous copy was issued: until it is waited for, nobody may touch
  /// the bytes.
  std::string beginCopy(int64_t offset, int64_t size, int thread);
  void endCopy(int64_t offset, int64_t size, int thread, uint32_t time);

  /// An asynchronous read is issued: until it is waited for, nobody may write
  /// the bytes. What threads wrote has to have passed a proxy fence.
  std::string beginRead(int64_t offset, int64_t size, int thread);
  void endRead(int64_t offset, int64_t size, int thread);
  /// A bulk copy has come; whom an mbarrier tells of it may read, and write
  /// what it was from.
  void landCopy(int64_t offset, int64_t size);
  void landRead(int64_t offset, int64_t size);
  /// The same of a copy that changes what is there, in order with others that
  /// do so.
  std::string beginReduction(int64_t offset, int64_t size, int thread);
  void landReduction(int64_t offset, int64_t size);
  /// An mbarrier begins, is used, ends.
  std::string beginBarrier(int64_t offset, int thread);
  std::string useBarrier(int64_t offset, int thread, const Times &knownInits);
  std::string endBarrier(int64_t offset, int thread);

  /// Adds what a warp knows to what an mbarrier hands on.
  void release(int warp, Times &to);
  /// The same of the bulk copies that have come.
  void releaseCopies(Times &to) { release(numWarps, to); }
  /// What a warp knows, and what it did.
  Times knownBy(int warp);
  /// Adds no more than that the warp has started.
  void releaseStart(int warp, Times &to);
  void acquire(int warp, const Times &from);
  /// What the warp knows to be written there may be read by asynchronous
  /// operations.
  void fenceProxy(int warp, FenceOf memory);
  /// Whether a warp knows that what `of` wrote at a time was fenced.
  bool isFenced(int warp, int of, uint32_t time, FenceOf memory) {
    return time <= fence(memory, warp, of);
  }

  /// Warps of `mask`, counted from the warp `first`, have met at a barrier.
  void join(uint32_t mask, int first);
  /// The lanes of a warp have met.
  void joinLanes(int warp) {
    if (isShadowed)
      ++clock(warp, warp);
  }

  /// The time of a warp, and whether another one knows that it has come.
  uint32_t now(int warp) { return isShadowed ? clock(warp, warp) : 0; }
  bool knows(int warp, int of, uint32_t time) {
    return !isShadowed || time <= clock(warp, of);
  }

  /// A thread touches memory of `block`, another one than its own.
  std::string touchOther(int block, int thread);
  /// The block ends. Whoever touched its memory must be known to have done so.
  std::string endBlock(int block);

  /// A byte in words: "byte 12 of shared memory".
  std::string place(int64_t offset) const;

private:
  /// Times are those of the accessing warp; 0 for never.
  struct Shadow {
    uint32_t writeTime = 0, readTime = 0, atomicTime = 0;
    uint16_t writer = 0, reader = 0, atomicThread = 0;
    uint16_t pendingReads = 0; ///< Asynchronous ones.
    bool isPending = false;    ///< Of an asynchronous copy.
    bool isGeneric = false;    ///< Written by a store.
    bool isBarrier = false;    ///< Of an mbarrier.
    bool hasOthers = false;    ///< Read by others at that time too.
    bool isSplit = false;      ///< Of a word: its bytes have their own.
  };
  static constexpr int64_t wordBytes = 4;

  /// Calls f(shadow, offset, bytes) for the words, or bytes of words, of a
  /// range, until it returns something.
  template <class F> std::string each(int64_t offset, int64_t size, F f);
  std::string readShadow(Shadow &shadow, int64_t at, int thread);
  /// What is wrong with the bytes for any reader, or "".
  std::string checkContents(const Shadow &shadow, int64_t at) const;
  /// What a thread wrote has to have passed a proxy fence, or "".
  std::string checkFenced(const Shadow &shadow, int64_t at, int thread);
  std::string writeShadow(Shadow &shadow, int64_t at, int thread, bool isSame);

  static constexpr int64_t barrierBytes = 8;

  /// Bulk copies have a time like a warp's: that of number `numWarps`.
  int numClocks() const { return numWarps + 1; }
  uint32_t &clock(int warp, int of) { return clocks[warp * numClocks() + of]; }
  uint32_t &fence(FenceOf memory, int warp, int of) {
    return fences[static_cast<int>(memory)][warp * numClocks() + of];
  }
  int numBlocks() const { return numWarps / warpsOfBlock; }
  std::string describe(int thread) const;
  /// Whether what `thread` did at `time` came before what `self` does now.
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
  std::vector<Shadow> words, parts; ///< Of words of four bytes, and of bytes.
  std::vector<uint32_t> clocks;     ///< What each warp knows of each.
  /// Of that, what was fenced; by FenceOf.
  std::array<std::vector<uint32_t>, 2> fences;
  /// When each warp last touched the memory of each block but its own.
  std::vector<uint32_t> touches;
  int numWarps = 0, warpsOfBlock = 0;
  int64_t bytesOfBlock = 0;
  bool isShadowed = false;
  uint32_t start = 1; ///< The time at which the cluster began.
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SHAREDMEMORY_H
