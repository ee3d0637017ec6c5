//===- SharedMemory.cpp - Shared memory with race detection ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the race detector. It compares every access with the last accesses
// to the same bytes, which shadow memory records. The vector clocks of the
// warps say which accesses are ordered.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/SharedMemory.h"

#include <algorithm>

namespace heddle::emulator {

void SharedMemory::reset(int64_t ofBlock, int blocks, int warps,
                         bool shadowed) {
  int64_t size = ofBlock * blocks;
  // Fill the memory with bytes that are a NaN in every float format, so that
  // reads of unwritten memory show in the results.
  bytes.assign(size, static_cast<char>(0xff));
  isShadowed = shadowed;
  // The warps' clocks do not restart at 0 for the next cluster. So accesses of
  // the previous cluster in the shadow memory are older than `start` and need
  // not be erased.
  uint32_t latest = start;
  for (uint32_t time : clocks)
    latest = std::max(latest, time);
  bytesOfBlock = ofBlock;
  warpsOfBlock = warps;
  numWarps = blocks * warps;
  if (!shadowed)
    return;
  constexpr uint32_t nearEnd = 0xf0000000;
  if (parts.size() != static_cast<size_t>(size) || latest > nearEnd) {
    words.assign((size + wordBytes - 1) / wordBytes, Shadow());
    parts.assign(size, Shadow());
    latest = 0;
  }
  start = latest + 2;
  // A warp's vector clock starts after all accesses of the previous cluster. It
  // includes no event of this cluster, not even that other warps have started.
  clocks.assign(size_t(numClocks()) * numClocks(), start - 1);
  fences.fill(clocks);
  for (int warp = 0; warp <= numWarps; ++warp)
    clock(warp, warp) = start + 1;
  touches.assign(blocks > 1 ? size_t(blocks) * numWarps : 0, 0);
}

std::string SharedMemory::describeByte(int64_t offset) const {
  std::string result =
      "byte " + std::to_string(offset % bytesOfBlock) + " of shared memory";
  if (numBlocks() > 1)
    result += " of block " + std::to_string(offset / bytesOfBlock) +
              " of the cluster";
  return result;
}

std::string SharedMemory::race(const char *what, int thread, const char *with,
                               int other, int64_t offset) const {
  return std::string(what) + " by " + describe(thread) + " races with " + with +
         " by " + describe(other) + " at " + describeByte(offset);
}

std::string SharedMemory::describe(int thread) const {
  int warp = thread / 32;
  if (warp == numWarps)
    return "a bulk copy";
  std::string result = "thread " + std::to_string(thread % (warpsOfBlock * 32));
  if (numBlocks() > 1)
    result += " of block " + std::to_string(warp / warpsOfBlock);
  return result;
}

template <class F>
std::string SharedMemory::each(int64_t offset, int64_t size, F f) {
  for (int64_t at = offset; at < offset + size;) {
    int64_t start = at / wordBytes * wordBytes;
    Shadow &word = words[at / wordBytes];
    bool isWhole = at == start && offset + size >= start + wordBytes;
    if (isWhole && !word.isSplit) {
      if (std::string wrong = f(word, at, wordBytes); !wrong.empty())
        return wrong;
      at += wordBytes;
      continue;
    }
    if (!word.isSplit) {
      int64_t end = std::min<int64_t>(start + wordBytes, parts.size());
      std::fill(parts.begin() + start, parts.begin() + end, word);
      word.isSplit = true;
    }
    if (std::string wrong = f(parts[at], at, 1); !wrong.empty())
      return wrong;
    ++at;
  }
  return {};
}

std::string SharedMemory::checkContents(const Shadow &shadow,
                                        int64_t at) const {
  if (shadow.writeTime >= start && shadow.isBarrier)
    return "access of " + describeByte(at) + ", which is an mbarrier's";
  if (shadow.writeTime < start)
    return "read of " + describeByte(at) + ", which nobody has written";
  if (shadow.isPending)
    return "read of " + describeByte(at) +
           " before the wait for the asynchronous copy of " +
           describe(shadow.writer);
  return {};
}

std::string SharedMemory::readShadow(Shadow &shadow, int64_t at, int thread) {
  if (std::string wrong = checkContents(shadow, at); !wrong.empty())
    return wrong;
  if (!isBefore(shadow.writer, shadow.writeTime, thread))
    return race("read", thread, "a write", shadow.writer, at);
  if (!isBefore(shadow.atomicThread, shadow.atomicTime, thread))
    return race("read", thread, "an atomic operation", shadow.atomicThread, at);
  // A shadow, the record of a byte's last accesses, has room for one reader. If
  // the recorded read is not ordered before the new one, keep the recorded
  // read, and only note that there are other readers.
  bool isKept = shadow.readTime >= start && shadow.reader != thread &&
                !isBefore(shadow.reader, shadow.readTime, thread);
  if (isKept) {
    shadow.hasOthers = true;
    return {};
  }
  uint32_t now = clock(thread / 32, thread / 32);
  if (shadow.reader != thread || shadow.readTime != now)
    shadow.hasOthers = false;
  shadow.reader = static_cast<uint16_t>(thread);
  shadow.readTime = now;
  return {};
}

std::string SharedMemory::writeShadow(Shadow &shadow, int64_t at, int thread,
                                      bool isSame) {
  uint32_t now = clock(thread / 32, thread / 32);
  bool isWritten = shadow.writeTime >= start;
  if (!isWritten)
    shadow.isBarrier = shadow.isPending = false;
  if (shadow.isBarrier)
    return checkContents(shadow, at);
  if (shadow.readTime < start && shadow.writeTime < start)
    shadow.pendingReads = 0;
  if (shadow.pendingReads)
    return "write by " + describe(thread) +
           " races with an asynchronous read under way at " + describeByte(at);
  if (isWritten && shadow.isPending)
    return race("write", thread, "a copy under way", shadow.writer, at);
  if (isWritten && !isSame &&
      !isBefore(shadow.writer, shadow.writeTime, thread))
    return race("write", thread, "a write", shadow.writer, at);
  if (!isBefore(shadow.atomicThread, shadow.atomicTime, thread))
    return race("write", thread, "an atomic operation", shadow.atomicThread,
                at);
  bool isRead = shadow.readTime >= start;
  if (isRead && !isBefore(shadow.reader, shadow.readTime, thread))
    return race("write", thread, "a read", shadow.reader, at);
  if (isRead && shadow.hasOthers && shadow.reader == thread &&
      shadow.readTime == now)
    return "write by " + describe(thread) +
           " races with reads of several threads at " + describeByte(at);
  shadow.writer = static_cast<uint16_t>(thread);
  shadow.writeTime = now;
  shadow.isGeneric = true;
  return {};
}

std::string SharedMemory::read(int64_t offset, int64_t size, int thread) {
  if (!isShadowed)
    return {};
  return each(offset, size, [&](Shadow &shadow, int64_t at, int64_t) {
    return readShadow(shadow, at, thread);
  });
}

std::string SharedMemory::write(int64_t offset, int64_t size, int thread,
                                const char *values) {
  if (!isShadowed)
    return {};
  return each(offset, size, [&](Shadow &shadow, int64_t at, int64_t count) {
    bool isSame = values && std::equal(values + (at - offset),
                                       values + (at - offset) + count,
                                       bytes.begin() + at);
    return writeShadow(shadow, at, thread, isSame);
  });
}

std::string SharedMemory::atomic(int64_t offset, int64_t size, int thread) {
  if (!isShadowed)
    return {};
  return each(offset, size, [&](Shadow &shadow, int64_t at, int64_t) {
    if (std::string wrong = checkContents(shadow, at); !wrong.empty())
      return wrong;
    if (!isBefore(shadow.writer, shadow.writeTime, thread))
      return race("atomic operation", thread, "a write", shadow.writer, at);
    if (shadow.readTime >= start &&
        !isBefore(shadow.reader, shadow.readTime, thread))
      return race("atomic operation", thread, "a read", shadow.reader, at);
    shadow.atomicThread = static_cast<uint16_t>(thread);
    shadow.atomicTime = clock(thread / 32, thread / 32);
    return std::string();
  });
}

std::string SharedMemory::beginCopy(int64_t offset, int64_t size, int thread) {
  // The old contents of an asynchronous copy's target are invalid as soon as
  // the copy begins. The new contents are written only when a thread waits for
  // the copy. Until then the bytes are a NaN.
  std::fill_n(bytes.begin() + offset, size, static_cast<char>(0xff));
  if (!isShadowed)
    return {};
  return each(offset, size, [&](Shadow &shadow, int64_t at, int64_t) {
    std::string wrong = writeShadow(shadow, at, thread, /*isSame=*/false);
    shadow.isPending = true;
    // Mark the bytes as not written by a store, so that a later asynchronous
    // read of them needs no proxy fence. Compilers that are tested on GPUs emit
    // no such fence after cp.async.
    shadow.isGeneric = false;
    return wrong;
  });
}

void SharedMemory::endCopy(int64_t offset, int64_t size, int thread,
                           uint32_t time) {
  if (!isShadowed)
    return;
  each(offset, size, [&](Shadow &shadow, int64_t, int64_t) {
    shadow.isPending = false;
    shadow.writer = static_cast<uint16_t>(thread);
    shadow.writeTime = time;
    return std::string();
  });
}

//===----------------------------------------------------------------------===//
// Asynchronous reads and bulk copies
//===----------------------------------------------------------------------===//

std::string SharedMemory::checkFenced(const Shadow &shadow, int64_t at,
                                      int thread) {
  if (!shadow.isGeneric || isFenced(thread / 32, shadow.writer / 32,
                                    shadow.writeTime, FenceOf::Shared))
    return {};
  return "asynchronous read of " + describeByte(at) + ", which " +
         describe(shadow.writer) +
         " wrote, without fence.proxy.async in between";
}

std::string SharedMemory::beginRead(int64_t offset, int64_t size, int thread) {
  if (!isShadowed)
    return {};
  return each(offset, size, [&](Shadow &shadow, int64_t at, int64_t) {
    std::string wrong = readShadow(shadow, at, thread);
    if (!wrong.empty())
      return wrong;
    wrong = checkFenced(shadow, at, thread);
    ++shadow.pendingReads;
    return wrong;
  });
}

void SharedMemory::endRead(int64_t offset, int64_t size, int thread) {
  if (!isShadowed)
    return;
  each(offset, size, [&](Shadow &shadow, int64_t at, int64_t) {
    if (shadow.pendingReads)
      --shadow.pendingReads;
    // Record the asynchronous read at the time at which `thread` waits for it,
    // because the next writer must be ordered after this wait.
    readShadow(shadow, at, thread);
    return std::string();
  });
}

void SharedMemory::landCopy(int64_t offset, int64_t size) {
  if (!isShadowed)
    return;
  each(offset, size, [&](Shadow &shadow, int64_t, int64_t) {
    shadow.isPending = false;
    shadow.writer = static_cast<uint16_t>(numWarps * 32);
    shadow.writeTime = clock(numWarps, numWarps);
    return std::string();
  });
}

void SharedMemory::landRead(int64_t offset, int64_t size) {
  if (!isShadowed)
    return;
  each(offset, size, [&](Shadow &shadow, int64_t, int64_t) {
    if (shadow.pendingReads)
      --shadow.pendingReads;
    shadow.reader = static_cast<uint16_t>(numWarps * 32);
    shadow.readTime = clock(numWarps, numWarps);
    shadow.hasOthers = false;
    return std::string();
  });
}

std::string SharedMemory::beginReduction(int64_t offset, int64_t size,
                                         int thread) {
  if (std::string wrong = atomic(offset, size, thread); !wrong.empty())
    return wrong;
  if (!isShadowed)
    return {};
  return each(offset, size, [&](Shadow &shadow, int64_t at, int64_t) {
    return checkFenced(shadow, at, thread);
  });
}

void SharedMemory::landReduction(int64_t offset, int64_t size) {
  if (!isShadowed)
    return;
  each(offset, size, [&](Shadow &shadow, int64_t, int64_t) {
    shadow.atomicThread = static_cast<uint16_t>(numWarps * 32);
    shadow.atomicTime = clock(numWarps, numWarps);
    return std::string();
  });
}

std::string SharedMemory::beginBarrier(int64_t offset, int thread) {
  if (!isShadowed)
    return {};
  return each(offset, barrierBytes, [&](Shadow &shadow, int64_t at, int64_t) {
    std::string wrong = writeShadow(shadow, at, thread, /*isSame=*/false);
    shadow.isBarrier = true;
    return wrong;
  });
}

std::string SharedMemory::useBarrier(int64_t offset, int thread,
                                     const VectorClock &knownInits) {
  if (!isShadowed)
    return {};
  return each(offset, barrierBytes, [&](Shadow &shadow, int64_t at, int64_t) {
    size_t writer = shadow.writer / 32;
    bool isKnown = writer < knownInits.clocks.size() &&
                   shadow.writeTime <= knownInits.clocks[writer];
    if (!isKnown && !isBefore(shadow.writer, shadow.writeTime, thread))
      return race("use of an mbarrier", thread, "its initialization",
                  shadow.writer, at);
    shadow.atomicThread = static_cast<uint16_t>(thread);
    shadow.atomicTime = clock(thread / 32, thread / 32);
    return std::string();
  });
}

std::string SharedMemory::endBarrier(int64_t offset, int thread) {
  std::fill_n(bytes.begin() + offset, barrierBytes, static_cast<char>(0xff));
  if (!isShadowed)
    return {};
  return each(offset, barrierBytes, [&](Shadow &shadow, int64_t at, int64_t) {
    shadow.isBarrier = false;
    std::string wrong = writeShadow(shadow, at, thread, /*isSame=*/false);
    shadow.writeTime = 0; // It holds nothing that can be read.
    return wrong;
  });
}

//===----------------------------------------------------------------------===//
// Knowledge of other warps
//===----------------------------------------------------------------------===//

static void takeLater(uint32_t *to, const std::vector<uint32_t> &from) {
  for (size_t i = 0; i < from.size(); ++i)
    to[i] = std::max(to[i], from[i]);
}

void VectorClock::add(const VectorClock &from) {
  auto take = [](std::vector<uint32_t> &to, const std::vector<uint32_t> &more) {
    to.resize(std::max(to.size(), more.size()));
    takeLater(to.data(), more);
  };
  take(clocks, from.clocks);
  for (size_t memory = 0; memory < fences.size(); ++memory)
    take(fences[memory], from.fences[memory]);
}

VectorClock SharedMemory::knownBy(int warp) {
  if (!isShadowed)
    return {};
  auto row = [&](const std::vector<uint32_t> &of) {
    auto first = of.begin() + static_cast<long>(warp) * numClocks();
    return std::vector<uint32_t>(first, first + numClocks());
  };
  return {row(clocks), {row(fences[0]), row(fences[1])}};
}

void SharedMemory::release(int warp, VectorClock &to) {
  if (!isShadowed)
    return;
  auto give = [&](std::vector<uint32_t> &known,
                  const std::vector<uint32_t> &of) {
    const uint32_t *from = &of[static_cast<size_t>(warp) * numClocks()];
    known.resize(numClocks());
    for (int i = 0; i < numClocks(); ++i)
      known[i] = std::max(known[i], from[i]);
  };
  give(to.clocks, clocks);
  for (size_t memory = 0; memory < fences.size(); ++memory)
    give(to.fences[memory], fences[memory]);
  ++clock(warp, warp);
}

void SharedMemory::releaseStart(int warp, VectorClock &to) {
  if (!isShadowed)
    return;
  to.clocks.resize(numClocks());
  to.clocks[warp] = std::max(to.clocks[warp], start);
}

void SharedMemory::acquire(int warp, const VectorClock &from) {
  if (!isShadowed)
    return;
  takeLater(&clock(warp, 0), from.clocks);
  for (FenceOf memory : {FenceOf::Shared, FenceOf::Global})
    takeLater(&fence(memory, warp, 0), from.fences[static_cast<int>(memory)]);
}

void SharedMemory::fenceProxy(int warp, FenceOf memory) {
  if (!isShadowed)
    return;
  for (int of = 0; of < numClocks(); ++of) {
    uint32_t &known = fence(memory, warp, of);
    known = std::max(known, clock(warp, of));
  }
  ++clock(warp, warp);
}

void SharedMemory::join(uint32_t mask, int first) {
  VectorClock all;
  for (int warp = 0; warp < warpsOfBlock; ++warp)
    if (mask >> warp & 1)
      release(first + warp, all);
  for (int warp = 0; warp < warpsOfBlock; ++warp)
    if (mask >> warp & 1)
      acquire(first + warp, all);
}

//===----------------------------------------------------------------------===//
// Checks that other blocks access a block's memory only while the block runs
//===----------------------------------------------------------------------===//

std::string SharedMemory::touchOther(int block, int thread) {
  if (!isShadowed)
    return {};
  int self = thread / 32, first = block * warpsOfBlock;
  bool isStarted = false;
  for (int warp = first; warp < first + warpsOfBlock; ++warp)
    isStarted |= clock(self, warp) >= start;
  if (!isStarted)
    return "access of shared memory of block " + std::to_string(block) +
           " of the cluster, which may not have started";
  touches[size_t(block) * numWarps + self] = clock(self, self);
  return {};
}

std::string SharedMemory::endBlock(int block) {
  if (!isShadowed || touches.empty())
    return {};
  int first = block * warpsOfBlock;
  for (int other = 0; other < numWarps; ++other) {
    uint32_t time = touches[size_t(block) * numWarps + other];
    bool isKnown = time < start;
    for (int warp = first; warp < first + warpsOfBlock; ++warp)
      isKnown |= time <= clock(warp, other);
    if (!isKnown)
      return "the block ends, and does not know that warp " +
             std::to_string(other % warpsOfBlock) + " of block " +
             std::to_string(other / warpsOfBlock) +
             " of the cluster is done with its shared memory";
  }
  return {};
}

} // namespace heddle::emulator
