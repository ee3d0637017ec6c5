//===- Block.cpp - Warps of a block, and the barriers between them --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Bulk.h"
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
  ++events;
  for (Warp &other : warps)
    if (other.state == Warp::AtBarrier && other.barrier == warp.barrier &&
        (barrier.arrived >> other.index & 1)) {
      other.state = Warp::Running;
      if (other.reduction)
        finishVote(other, barrier);
    }
  barrier = Barrier();
}

void Block::checkPhase(Mbarrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  ++barrier.phase;
  ++events;
  barrier.pending = barrier.expected;
  barrier.done = std::move(barrier.next);
  barrier.next = Times();
}

/// Lets warps go on that only asked whether something has happened.
bool Block::wakePolling() {
  bool woken = false;
  for (Warp &warp : warps)
    if (warp.state == Warp::Waiting && warp.polls) {
      warp.state = Warp::Running;
      woken = true;
    }
  return woken;
}

/// Makes a copy that somebody waits for: the oldest, unless orders are drawn.
bool Block::landCopy() {
  auto isAwaited = [&](const BulkCopy &copy) {
    return std::any_of(warps.begin(), warps.end(), [&](const Warp &warp) {
      return warp.state == Warp::Waiting && warp.awaited == copy.barrier;
    });
  };
  auto found = std::find_if(copies.begin(), copies.end(), isAwaited);
  if (found == copies.end())
    return false;
  if (draw) {
    // Copies have no order among themselves.
    std::vector<std::vector<BulkCopy>::iterator> awaited;
    for (auto copy = found; copy != copies.end(); ++copy)
      if (isAwaited(*copy))
        awaited.push_back(copy);
    found = awaited[draw->below(awaited.size())];
  }
  BulkCopy copy = std::move(*found);
  copies.erase(found);
  landBulkCopy(*this, copy);
  Mbarrier &barrier = barriersInMemory[copy.barrier];
  shared.releaseCopies(barrier.next);
  barrier.bytes -= copy.bytes;
  ++events;
  checkPhase(barrier);
  return true;
}

/// Nothing that uses the block's memory may be under way when it ends.
void Block::finish() {
  current = &warps.front();
  auto leave = [&](Warp &warp, int32_t op, const char *what) {
    warp.current = op;
    warp.fail(std::string("the block ends before ") + what, allLanes);
  };
  if (!copies.empty())
    leave(warps.front(), copies.front().op, "this copy was waited for");
  for (Warp &warp : warps) {
    current = &warp;
    finishBulkStores(warp);
    const Products &products = warp.products;
    if (!products.open.empty() || !products.groups.empty())
      leave(warp,
            products.open.empty() ? products.groups.front().front().at
                                  : products.open.front().at,
            "this product was waited for");
    const Warp &first = warps[warp.index / 4 * 4];
    if (products.trace != first.products.trace)
      warp.fail("warps of a warpgroup issued different wgmma instructions",
                allLanes);
  }
}

void Block::takeTurn(Warp &warp, const Program &program) {
  constexpr uint64_t longest = 64;
  uint64_t most = draw ? 1 + draw->below(longest) : UINT64_MAX;
  while (warp.state == Warp::Running) {
    warp.run(program, most);
    if (warp.state == Warp::AtBarrier)
      arrive(warp);
    if (draw)
      return;
  }
}

void Block::run(const Program &program) {
  std::fill(std::begin(barriers), std::end(barriers), Barrier());
  constexpr int mostPolls = 10000;
  int polls = 0;
  for (uint64_t before = events;; before = events) {
    bool moved = false, done = true;
    size_t first = draw ? draw->below(warps.size()) : 0;
    for (size_t i = 0; i < warps.size(); ++i) {
      Warp &warp = warps[(first + i) % warps.size()];
      current = &warp;
      if (warp.state == Warp::Waiting && warp.seen != events)
        warp.state = Warp::Running;
      moved |= warp.state == Warp::Running;
      takeTurn(warp, program);
      done &= warp.state == Warp::Done;
    }
    if (done)
      return finish();
    if (events != before)
      polls = 0;
    // Who polls gets some turns before copies come.
    if (moved || (polls++ < 2 && wakePolling()) || landCopy())
      continue;
    if (polls > mostPolls || !wakePolling())
      failDeadlock(program);
  }
}

/// What an mbarrier lacks, in words.
static std::string describeMissing(const Warp &warp) {
  const Mbarrier &barrier = warp.block->barriersInMemory[warp.awaited];
  return "mbarrier at byte " + std::to_string(warp.awaited) +
         " of shared memory, phase " + std::to_string(barrier.phase) + ": " +
         std::to_string(barrier.pending) + " of " +
         std::to_string(barrier.expected) + " arrivals and " +
         std::to_string(barrier.bytes) + " bytes are missing";
}

/// All warps that have not ended wait at barriers.
void Block::failDeadlock(const Program &program) {
  for (Warp &warp : warps)
    if (warp.state == Warp::Waiting) {
      current = &warp;
      warp.fail("waits for ever" + (warp.awaited < 0
                                        ? std::string(" for the cluster")
                                        : " for the " + describeMissing(warp)),
                warp.mask);
    }
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
