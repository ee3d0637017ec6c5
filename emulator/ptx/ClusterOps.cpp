//===- ClusterOps.cpp - Instructions for the blocks of a cluster ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements mapa, getctarank and barrier.cluster.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
//===----------------------------------------------------------------------===//
// Addresses in another block
//===----------------------------------------------------------------------===//

constexpr uint64_t rankMask = (windowBytes - 1) >> clusterRankShift
                                                       << clusterRankShift;

/// Fails unless a generic address is in shared memory.
void checkWindow(Warp &warp, uint64_t address, int lane) {
  if ((address & ~(windowBytes - 1)) != sharedWindow)
    warp.fail("an address that is not of shared memory", uint32_t(1) << lane);
}

/// mapa: returns the address in the shared memory of another block that has the
/// same offset as the given address.
template <class T, bool isGeneric> void mapAddress(Warp &warp, const Op &op) {
  const T *from = warp.row<T>(op, 1);
  const uint32_t *ranks = warp.row<uint32_t>(op, 2);
  size_t blocks = warp.cluster->blocks.size();
  forLanes(warp.mask, [&](int lane) {
    if (ranks[lane] >= blocks)
      warp.fail("block " + std::to_string(ranks[lane]) +
                    " of a cluster that has " + std::to_string(blocks),
                uint32_t(1) << lane);
    if (isGeneric)
      checkWindow(warp, from[lane], lane);
  });
  eachLane(warp, warp.row<T>(op, 0), [&](int i) {
    T rank = static_cast<T>(T(ranks[i] + 1) << clusterRankShift);
    return static_cast<T>((from[i] & ~static_cast<T>(rankMask)) | rank);
  });
}

/// getctarank: the rank of the block that owns an address.
template <class T, bool isGeneric> void rankOf(Warp &warp, const Op &op) {
  const T *from = warp.row<T>(op, 1);
  if (isGeneric)
    forLanes(warp.mask, [&](int lane) { checkWindow(warp, from[lane], lane); });
  auto self = static_cast<uint32_t>(warp.block->rank);
  eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
    auto rank = static_cast<uint32_t>((from[i] & rankMask) >> clusterRankShift);
    return rank ? rank - 1 : self;
  });
}

/// Consumes the type of an address, which may have 32 bits only if the
/// instruction names a state space.
bool takeAddressType(Decode &d, Type &type, bool &isShared) {
  d.requireTarget({"sm_90", "sm_90a"});
  isShared = d.take("shared::cluster");
  type = d.type();
  return type.kind == Type::Unsigned &&
         (type.width == 64 || (type.width == 32 && isShared));
}

template <template <class, bool> class Choose>
Handler chooseHandler(Type type, bool isShared) {
  return type.width == 32 ? Choose<uint32_t, false>::run
         : isShared       ? Choose<uint64_t, false>::run
                          : Choose<uint64_t, true>::run;
}
template <class T, bool isGeneric> struct Map {
  static constexpr Handler run = mapAddress<T, isGeneric>;
};
template <class T, bool isGeneric> struct Rank {
  static constexpr Handler run = rankOf<T, isGeneric>;
};

/// Decodes mapa{.shared::cluster}.type d, a, rank.
void decodeMap(Decode &d) {
  Type type;
  bool isShared;
  if (!takeAddressType(d, type, isShared))
    d.failUnknown();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, u32Type);
  d.op.run = chooseHandler<Map>(type, isShared);
}

/// getctarank{.shared::cluster}.type d, a
void decodeRank(Decode &d) {
  Type type;
  bool isShared;
  if (!takeAddressType(d, type, isShared))
    d.failUnknown();
  d.expectOperands(2);
  d.result(0, u32Type);
  d.use(1, type);
  d.op.run = chooseHandler<Rank>(type, isShared);
}

//===----------------------------------------------------------------------===//
// The barrier of all blocks
//===----------------------------------------------------------------------===//

enum ClusterFlags { IsRelaxed = 1 };

void arriveAtCluster(Warp &warp, const Op &op) {
  if (!warp.converge(warp.live))
    return;
  Cluster &cluster = *warp.cluster;
  if (warp.clusterArrivals > warp.clusterWaits)
    warp.fail("arrives twice at the cluster's barrier without a wait",
              warp.mask);
  uint32_t phase = ++warp.clusterArrivals;
  ++cluster.events;
  VectorClock &known = cluster.known[phase & 1],
              &inits = cluster.inits[phase & 1];
  if (phase > cluster.phase)
    known = inits = VectorClock();
  cluster.phase = std::max(cluster.phase, phase);
  if (!(op.flags & IsRelaxed))
    return cluster.shared.release(warp.inCluster, known);
  // A relaxed arrival orders only the memory accesses that precede an earlier
  // fence of the warp.
  cluster.shared.releaseStart(warp.inCluster, known);
  known.add(warp.fenced);
  inits.add(warp.fencedInits);
}

void waitForCluster(Warp &warp, const Op &) {
  if (!warp.converge(warp.live))
    return;
  Cluster &cluster = *warp.cluster;
  if (warp.clusterArrivals == warp.clusterWaits)
    warp.fail("waits at the cluster's barrier without an arrival", warp.mask);
  uint32_t phase = warp.clusterArrivals;
  for (const Block &block : cluster.blocks)
    for (const Warp &other : block.warps)
      if (other.state != Warp::Done && other.clusterArrivals < phase) {
        warp.awaits = Warp::TheCluster;
        warp.polls = false;
        warp.retryLater();
        return;
      }
  warp.clusterWaits = phase;
  cluster.shared.acquire(warp.inCluster, cluster.known[phase & 1]);
  warp.knownInits.add(cluster.inits[phase & 1]);
}
} // namespace

void decodeClusterBarrier(Decode &d) {
  d.requireTarget({"sm_90", "sm_90a"});
  int kind = d.takeOneOf({"arrive", "wait"});
  if (kind < 0)
    d.failUnknown();
  if (kind == 0 && d.takeOneOf({"relaxed", "release"}) == 0)
    d.op.flags = IsRelaxed;
  if (kind == 1)
    d.take("acquire");
  d.take("aligned");
  d.expectOperands(0);
  d.op.run = kind == 0 ? arriveAtCluster : waitForCluster;
}

const Opcode clusterOpcodes[] = {{"mapa", Class::Move, decodeMap},
                                 {"getctarank", Class::Move, decodeRank},
                                 {nullptr, Class::Move, nullptr}};

} // namespace heddle::emulator
