//===- Block.cpp - Warps of a block, and the barriers between them --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Lanes.h"

#include <algorithm>

namespace heddle::rt::emulator {

/// Gives a warp what the barrier made of all votes.
static void finishVote(Warp &warp, const Barrier &barrier) {
  const Op &op = *warp.reduction;
  if (op.imm == CountVotes)
    return eachLane(warp, warp.row<uint32_t>(op, 0),
                    [&](int) { return barrier.votes; });
  bool holds =
      op.imm == AllVote ? barrier.votes == barrier.voters : barrier.votes != 0;
  storePredicate(warp, warp.predicate(op, 0), holds ? allLanes : 0);
}

/// Notes that a warp has come to its barrier, and lets all pass when it was
/// the last.
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
  shared.join(barrier.arrived);
  for (Warp &other : warps)
    if (other.state == Warp::AtBarrier && other.barrier == warp.barrier &&
        (barrier.arrived >> other.index & 1)) {
      other.state = Warp::Running;
      if (other.reduction)
        finishVote(other, barrier);
    }
  barrier = Barrier();
}

void Block::run(const Program &program) {
  std::fill(std::begin(barriers), std::end(barriers), Barrier());
  while (true) {
    bool moved = false, done = true;
    for (Warp &warp : warps) {
      current = &warp;
      while (warp.state == Warp::Running) {
        moved = true;
        warp.run(program);
        if (warp.state == Warp::AtBarrier)
          arrive(warp);
      }
      done &= warp.state == Warp::Done;
    }
    if (done)
      return;
    if (!moved)
      failDeadlock(program);
  }
}

/// All warps that have not ended wait at barriers.
void Block::failDeadlock(const Program &program) {
  auto waits = [](const Warp &warp) { return warp.state == Warp::AtBarrier; };
  auto first = std::find_if(warps.begin(), warps.end(), waits);
  int64_t together = 0;
  std::string others;
  for (const Warp &warp : warps) {
    if (waits(warp) && warp.current == first->current &&
        warp.barrier == first->barrier) {
      together += __builtin_popcount(warp.live);
      continue;
    }
    if (!others.empty())
      continue;
    others = ", thread " + std::to_string(warp.thread(0)) + " ";
    int64_t line = program.places[warp.current].line;
    others += waits(warp) ? "waits at barrier " + std::to_string(warp.barrier) +
                                ", line " + std::to_string(line)
                          : "has returned";
  }
  current = &*first;
  throw Fault{"divergent barrier: " + std::to_string(together) + " of " +
                  std::to_string(numThreads) + " threads wait at barrier " +
                  std::to_string(first->barrier) + others,
              first->live};
}

} // namespace heddle::rt::emulator
