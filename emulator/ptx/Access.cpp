//===- Access.cpp - Memory addresses of a warp's lanes --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the addresses of loads, stores and atomic operations, finds the bytes
// on the host, and counts requests, sectors and bank conflicts.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

static std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx",
                static_cast<unsigned long long>(value));
  return text;
}

Access::Access(const Warp &warp, const Op &op, int row) {
  auto offset = static_cast<uint64_t>(op.imm);
  if (op.flags & IsNarrowAddress) {
    const uint32_t *base = warp.row<uint32_t>(op, row);
    for (int i = 0; i < warpSize; ++i)
      addresses[i] = uint32_t(base[i] + offset);
  } else {
    const uint64_t *base = warp.row<uint64_t>(op, row);
    for (int i = 0; i < warpSize; ++i)
      addresses[i] = base[i] + offset;
  }
  if (warp.mask == allLanes)
    return;
  // Inactive lanes must not affect the checks of the addresses, so they get the
  // address of an active lane.
  uint64_t some = addresses[__builtin_ctz(warp.mask)];
  for (int i = 0; i < warpSize; ++i)
    addresses[i] = warp.mask >> i & 1 ? addresses[i] : some;
}

/// The smallest and the largest address.
static std::pair<uint64_t, uint64_t> extremes(const uint64_t *addresses) {
  uint64_t least = addresses[0], most = addresses[0];
  for (int i = 1; i < warpSize; ++i) {
    least = std::min(least, addresses[i]);
    most = std::max(most, addresses[i]);
  }
  return {least, most};
}

void Access::resolveGlobal(Warp &warp, int64_t bytes) {
  auto [least, most] = isDense
                           ? std::pair(addresses[0], addresses[warpSize - 1])
                           : extremes(addresses);
  auto &last = warp.worker->lastAllocation[warp.current];
  bool isKnown = last && least >= last->address &&
                 most + bytes <= last->address + last->bytes;
  if (!isKnown)
    if (auto *found = warp.worker->memory->find(least, most + bytes)) {
      last = found;
      isKnown = true;
    }
  if (isKnown) {
    int count = isDense ? 1 : warpSize;
    for (int i = 0; i < count; ++i)
      host[i] = last->host + (addresses[i] - last->address);
    return;
  }
  for (int i = 0; i < warpSize; ++i) {
    uint64_t at = addresses[i];
    const auto *found = warp.worker->memory->find(at, at + bytes);
    if (!found)
      warp.fail("access of " + std::to_string(bytes) + " bytes at " + hex(at) +
                    ", " + warp.worker->memory->describe(at),
                uint32_t(1) << i & warp.mask);
    host[i] = found->host + (at - found->address);
  }
  isDense = false; // Contiguous on the device, but not on the host.
}

/// Finds the host addresses of the lanes' bytes in shared or local memory. This
/// memory begins at the PTX address `first` and has `size` bytes.
void Access::resolveWindow(Warp &warp, int64_t bytes, char *base,
                           uint64_t first, uint64_t size, const char *what) {
  uint64_t outside = 0;
  for (int i = 0; i < warpSize; ++i) {
    uint64_t offset = addresses[i] - first;
    // The sign bit of `outside` is set if an access begins before the memory or
    // ends after it.
    outside |= offset | (size - bytes - offset);
    host[i] = base + offset;
  }
  if (!(outside >> 63) && static_cast<int64_t>(size) >= bytes)
    return;
  for (int i = 0; i < warpSize; ++i) {
    uint64_t offset = addresses[i] - first;
    if (offset > size || offset + bytes > size)
      warp.fail("access of " + std::to_string(bytes) + " bytes at " +
                    hex(addresses[i]) + ", outside of " + what + ": byte " +
                    std::to_string(static_cast<int64_t>(offset)) + " of " +
                    std::to_string(size),
                uint32_t(1) << i & warp.mask);
  }
}

void Access::resolveLocal(Warp &warp, int64_t bytes) {
  int64_t size = warp.cluster->localBytes;
  resolveWindow(warp, bytes, nullptr, 0, size, "local memory");
  for (int i = 0; i < warpSize; ++i)
    host[i] = warp.block->local.data() + warp.thread(i) * size + addresses[i];
}

int64_t sharedOffset(Warp &warp, uint64_t address, int64_t bytes,
                     bool ofCluster, int lane) {
  Cluster &cluster = *warp.cluster;
  uint32_t self = uint32_t(1) << lane & warp.mask;
  uint64_t rank = address >> clusterRankShift;
  bool isKnown = rank <= cluster.blocks.size();
  const Block &block = rank && isKnown ? cluster.blocks[rank - 1] : *warp.block;
  auto offset = static_cast<int64_t>(address) - sharedBase;
  if (isKnown)
    offset -= static_cast<int64_t>(rank << clusterRankShift);
  if (offset < 0 || offset + bytes > cluster.sharedBytes)
    warp.fail("access of " + std::to_string(bytes) + " bytes at " +
                  hex(address) + ", outside of shared memory: byte " +
                  std::to_string(offset) + " of " +
                  std::to_string(cluster.sharedBytes),
              self);
  if (&block != warp.block && !ofCluster)
    warp.fail("shared::cta is memory of the block itself, not of block " +
                  std::to_string(block.rank) + " of the cluster",
              self);
  if (std::string wrong = whyNoAccess(warp, block, lane); !wrong.empty())
    warp.fail(wrong, self);
  return block.firstShared + offset;
}

std::string whyNoAccess(Warp &warp, const Block &block, int lane) {
  if (&block == warp.block)
    return {};
  if (block.isDone)
    return "access of shared memory of block " + std::to_string(block.rank) +
           " of the cluster, which has ended";
  return warp.cluster->shared.touchOther(block.rank, warp.member(lane));
}

void Access::resolveShared(Warp &warp, int64_t bytes, bool ofCluster) {
  Cluster &cluster = *warp.cluster;
  uint64_t ranks = 0;
  for (int i = 0; i < warpSize; ++i)
    ranks |= addresses[i] >> clusterRankShift;
  if (!ranks)
    return resolveWindow(warp, bytes,
                         cluster.shared.data() + warp.block->firstShared,
                         sharedBase, cluster.sharedBytes, "shared memory");
  isDense = false;
  for (int i = 0; i < warpSize; ++i)
    host[i] = cluster.shared.data() +
              sharedOffset(warp, addresses[i], bytes, ofCluster, i);
}

void Access::resolve(Warp &warp, Space space, int64_t bytes) {
  uint64_t bits = 0, notDense = warp.mask != allLanes;
  for (int i = 0; i < warpSize; ++i) {
    bits |= addresses[i];
    notDense |= addresses[i] ^ (addresses[0] + i * bytes);
  }
  isDense = !notDense;
  if (bits & (bytes - 1)) {
    for (int i = 0; i < warpSize; ++i)
      if (addresses[i] & (bytes - 1))
        warp.fail("access of " + std::to_string(bytes) + " bytes at " +
                      hex(addresses[i]) + ", which is not aligned to " +
                      std::to_string(bytes),
                  uint32_t(1) << i & warp.mask);
  }
  if (space == Space::Generic) {
    // All lanes of an access are in one state space, because compilers generate
    // nothing else.
    uint64_t window = addresses[0] & ~(windowBytes - 1);
    space = window == sharedWindow  ? Space::ClusterShared
            : window == localWindow ? Space::Local
                                    : Space::Global;
    if (space != Space::Global)
      for (uint64_t &address : addresses)
        address -= window;
  }
  isShared = space == Space::Shared || space == Space::ClusterShared;
  isGlobal = space == Space::Global;
  if (isShared) {
    resolveShared(warp, bytes, space == Space::ClusterShared);
  } else if (space == Space::Local) {
    isDense = false;
    resolveLocal(warp, bytes);
  } else {
    resolveGlobal(warp, bytes);
  }
}

void Access::resolveAll(Warp &warp, Space space, int64_t bytes) {
  resolve(warp, space, bytes);
  if (isDense && !isShared)
    for (int i = 1; i < warpSize; ++i)
      host[i] = host[0] + i * bytes;
}

void Access::noteRead(Warp &warp, int64_t bytes) const {
  if (!isShared || warp.worker->options->checks == Checks::Light)
    return;
  forLanes(warp.mask, [&](int lane) {
    std::string wrong =
        warp.cluster->shared.read(offset(warp, lane), bytes, warp.member(lane));
    if (!wrong.empty())
      warp.fail(wrong, uint32_t(1) << lane);
  });
}

void Access::noteAtomic(Warp &warp, int lane, int64_t bytes) const {
  if (!isShared || warp.worker->options->checks == Checks::Light)
    return;
  std::string wrong =
      warp.cluster->shared.atomic(offset(warp, lane), bytes, warp.member(lane));
  if (!wrong.empty())
    warp.fail(wrong, uint32_t(1) << lane);
}

void Access::noteWrite(Warp &warp, int lane, int64_t bytes,
                       const char *values) const {
  if (!isShared || warp.worker->options->checks == Checks::Light)
    return;
  std::string wrong = warp.cluster->shared.write(offset(warp, lane), bytes,
                                                 warp.member(lane), values);
  if (!wrong.empty())
    warp.fail(wrong, uint32_t(1) << lane);
}

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

uint64_t countParts(const uint64_t *addresses, uint32_t mask, int64_t bytes) {
  uint64_t parts[warpSize];
  int count = 0;
  forLanes(mask, [&](int lane) { parts[count++] = addresses[lane] / bytes; });
  std::sort(parts, parts + count);
  return static_cast<uint64_t>(std::unique(parts, parts + count) - parts);
}

Wavefronts countWavefronts(const uint64_t *addresses, uint32_t mask,
                           int64_t bytes) {
  // The lanes of an access are served in several passes. A pass serves 32 lanes
  // if a lane accesses up to 4 bytes, 16 lanes for 8 bytes, and 8 lanes for 16
  // bytes.
  int lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  Wavefronts result;
  for (int first = 0; first < warpSize; first += lanes) {
    std::vector<uint64_t> words;
    for (int lane = first; lane < first + lanes; ++lane)
      if (mask >> lane & 1)
        for (int64_t word = 0; word < std::max<int64_t>(bytes / 4, 1); ++word)
          words.push_back(addresses[lane] / 4 + word);
    if (words.empty())
      continue;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    uint64_t inBank[32] = {}, most = 0;
    for (uint64_t word : words)
      most = std::max(most, ++inBank[word % 32]);
    result.actual += most;
    result.ideal += 1;
  }
  return result;
}

AccessSite accessBy(const Warp &warp, AccessKind kind) {
  return {warp.current, kind, warp.clusterArrivals, warp.clusterWaits};
}

/// Records stores of the lanes. Bulk copies that access the same bytes later
/// are checked against these.
static void noteWritten(Warp &warp, const Access &access, int64_t bytes) {
  GlobalWrites *written = warp.cluster->written.get();
  if (!written)
    return;
  int self = warp.inCluster;
  uint32_t now = warp.cluster->shared.now(self);
  const uint64_t *at = access.addresses;
  if (access.isDense)
    return written->add(at[0], {at[0] + warpSize * bytes, self, now});
  forLanes(warp.mask, [&](int lane) {
    written->add(at[lane], {at[lane] + bytes, self, now});
  });
}

void checkStoresFenced(Warp &warp, uint64_t first, uint64_t end, int lane) {
  Cluster &cluster = *warp.cluster;
  if (!cluster.written)
    return;
  auto isFenced = [&](const GlobalWrites::Write &made) {
    return cluster.shared.isFenced(warp.inCluster, made.warp, made.time,
                                   FenceOf::Global);
  };
  const auto *found = cluster.written->findRefused(first, end, isFenced);
  if (!found)
    return;
  int ofBlock = static_cast<int>(cluster.blocks.front().warps.size());
  int writer = found->second.warp;
  std::string who = "warp " + std::to_string(writer % ofBlock);
  if (cluster.blocks.size() > 1)
    who += " of block " + std::to_string(writer / ofBlock);
  warp.fail("a bulk copy meets what " + who +
                " stored in global memory, without fence.proxy.async in "
                "between: " +
                warp.worker->memory->describe(std::max(first, found->first)),
            uint32_t(1) << lane);
}

/// Called before an access in a programmatic launch by a warp that has not
/// executed griddepcontrol.wait. Records a read, and fails for a write.
static void noteEarly(Warp &warp, AccessKind kind, uint64_t first, uint64_t end,
                      uint32_t lanes) {
  if (writes(kind))
    warp.fail("changes global memory before griddepcontrol.wait: " +
                  warp.worker->memory->describe(first),
              lanes);
  if (AccessRecorder *reads = warp.block->earlyReads.get())
    reads->add(accessBy(warp, kind), first, end);
}

void noteAccess(Warp &warp, AccessKind kind, uint64_t first, uint64_t end,
                uint32_t lanes) {
  if (warp.isEarly)
    noteEarly(warp, kind, first, end, lanes);
  if (AccessRecorder *touched = warp.block->touched.get())
    touched->add(accessBy(warp, kind), first, end);
}

void noteAccess(Warp &warp, const Access &access, int64_t bytes,
                AccessKind kind) {
  if (!access.isGlobal)
    return;
  if (warp.isEarly)
    forLanes(warp.mask, [&](int lane) {
      uint64_t first = access.addresses[lane];
      noteEarly(warp, kind, first, first + bytes, uint32_t(1) << lane);
    });
  if (writes(kind))
    noteWritten(warp, access, bytes);
  AccessRecorder *touched = warp.block->touched.get();
  if (!touched)
    return;
  const uint64_t *at = access.addresses;
  AccessSite by = accessBy(warp, kind);
  if (access.isDense)
    return touched->add(by, at[0], at[0] + warpSize * bytes);
  forLanes(warp.mask,
           [&](int lane) { touched->add(by, at[lane], at[lane] + bytes); });
}

void learnOfBlocks(Warp &warp) {
  if (warp.block->touched)
    warp.block->touched->endRaces();
}

void countRequest(Warp &warp, const Access &access, int64_t bytes) {
  if (!warp.worker->options->counts)
    return;
  Counters &counters = warp.worker->counters;
  if (access.isShared) {
    Wavefronts wavefronts = countWavefronts(access.addresses, warp.mask, bytes);
    counters.sharedWavefronts += wavefronts.actual;
    counters.idealWavefronts += wavefronts.ideal;
    return;
  }
  ++counters.globalRequests;
  counters.globalSectors += countParts(access.addresses, warp.mask, 32);
  counters.globalBytes +=
      countParts(access.addresses, warp.mask, bytes) * bytes;
}

//===----------------------------------------------------------------------===//
// Modifiers
//===----------------------------------------------------------------------===//

Space takeSpace(Decode &d) {
  switch (d.takeOneOf({"global", "const", "shared", "shared::cta",
                       "shared::cluster", "local"})) {
  case 0:
  case 1:
    return Space::Global;
  case 2:
  case 3:
    return Space::Shared;
  case 4:
    d.requireTarget({"sm_90", "sm_90a"});
    return Space::ClusterShared;
  case 5:
    return Space::Local;
  default:
    return Space::Generic;
  }
}

uint32_t addressFlags(Decode &d, Space space, int bits) {
  if (bits != 64 &&
      (bits != 32 || space == Space::Generic || space == Space::Global))
    d.fail("an address of " + std::to_string(bits) + " bits");
  return static_cast<uint32_t>(space) | (bits == 32 ? IsNarrowAddress : 0);
}

} // namespace heddle::emulator
