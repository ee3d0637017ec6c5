//===- Block.cpp - Barriers and the end of a block ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the block's 16 barriers (bar.sync, bar.red), and the checks when
// its warps have ended.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Bulk.h"
#include "emulator/ptx/Lanes.h"

namespace heddle::emulator {

/// Writes the result of bar.red, which combines the votes of all threads, to
/// the warp's register.
static void finishVote(Warp &warp, const Barrier &barrier) {
  const Op &op = *warp.reduction;
  if (op.imm == CountVotes)
    return eachLane(warp, warp.row<uint32_t>(op, 0),
                    [&](int) { return barrier.votes; });
  bool holds =
      op.imm == AllVote ? barrier.votes == barrier.voters : barrier.votes != 0;
  storePredicate(warp, warp.predicate(op, 0), holds ? allLanes : 0);
}

void Block::arrive(Warp &warp) {
  int64_t whole = static_cast<int64_t>(warps.size()) * warpSize;
  int64_t threads = warp.barrierThreads ? warp.barrierThreads : whole;
  Barrier &barrier = barriers[warp.barrier];
  if (barrier.arrived && barrier.threads != threads)
    throw Fault{"barrier " + std::to_string(warp.barrier) + " waits for " +
                    std::to_string(barrier.threads) + " threads, not for " +
                    std::to_string(threads),
                warp.live};
  if (warp.countsOnly && (barrier.arrived >> warp.index & 1))
    throw Fault{"arrives twice at barrier " + std::to_string(warp.barrier),
                warp.live};
  barrier.threads = threads;
  barrier.arrived |= uint32_t(1) << warp.index;
  if (warp.reduction) {
    barrier.votes += __builtin_popcount(warp.votes);
    barrier.voters += __builtin_popcount(warp.mask);
  }
  if (warp.countsOnly)
    warp.state = Warp::Running;
  if (__builtin_popcount(barrier.arrived) * warpSize < threads)
    return;
  cluster->shared.join(barrier.arrived, warps.front().inCluster);
  ++cluster->events;
  for (Warp &other : warps)
    if (other.state == Warp::AtBarrier && other.barrier == warp.barrier &&
        (barrier.arrived >> other.index & 1)) {
      other.state = Warp::Running;
      if (other.reduction)
        finishVote(other, barrier);
    }
  barrier = Barrier();
}

void Block::failDivergence(const Warp &first, const Program &program) const {
  int64_t together = 0;
  std::string others;
  for (const Warp &warp : warps) {
    bool waits = warp.state == Warp::AtBarrier;
    if (waits && warp.current == first.current &&
        warp.barrier == first.barrier) {
      together += __builtin_popcount(warp.live);
      continue;
    }
    if (!others.empty())
      continue;
    others = ", thread " + std::to_string(warp.thread(0)) + " ";
    int64_t line = program.locations[warp.current].line;
    others += waits ? "waits at barrier " + std::to_string(warp.barrier) +
                          ", line " + std::to_string(line)
                    : "has returned";
  }
  throw Fault{"divergent barrier: " + std::to_string(together) + " of " +
                  std::to_string(cluster->numThreads) +
                  " threads wait at barrier " + std::to_string(first.barrier) +
                  others,
              first.live};
}

void Block::finish() {
  isDone = true;
  cluster->current = &warps.front();
  auto leave = [&](Warp &warp, int32_t op, const char *what) {
    warp.current = op;
    warp.fail(std::string("the block ends before ") + what, allLanes);
  };
  auto isHere = [&](int64_t offset) {
    return offset >= 0 && &cluster->blockOf(offset) == this;
  };
  for (const BulkCopy &copy : cluster->copies)
    if (isHere(copy.barrier) || isHere(copy.source))
      leave(warps.front(), copy.op, "this copy was waited for");
  for (const AsyncArrival &arrival : cluster->arrivals)
    if (isHere(arrival.barrier))
      leave(warps.front(), arrival.op, "its copies were waited for");
  if (std::string wrong = cluster->shared.endBlock(rank); !wrong.empty())
    warps.front().fail(wrong, allLanes);
  for (Warp &warp : warps) {
    cluster->current = &warp;
    finishBulkStores(warp);
    const Products &products = warp.products;
    if (!products.open.empty() || !products.groups.empty())
      leave(warp,
            products.open.empty() ? products.groups.front().front().at
                                  : products.open.front().at,
            "this product was waited for");
    const Warp &first = warps[warp.index / 4 * 4];
    if (warp.trace != first.trace)
      warp.fail("warps of a warpgroup issued different wgmma or setmaxnreg "
                "instructions",
                allLanes);
  }
}

} // namespace heddle::emulator
