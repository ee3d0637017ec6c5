//===- Cluster.cpp - Runs the warps of a cluster in turns -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the blocks of a cluster together on one thread of the host. The warps
// run in turns, and a warp runs until it waits or its turn ends.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Bulk.h"

#include <algorithm>

namespace heddle::emulator {

void Cluster::checkPhase(Mbarrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  ++barrier.phase;
  ++events;
  barrier.pending = barrier.expected;
  barrier.done = std::move(barrier.next);
  barrier.next = VectorClock();
}

/// Continues the warps that only test whether the phase of an mbarrier has
/// completed, instead of waiting for it. The result of their test is false.
/// Returns whether there were any such warps.
bool Cluster::wakePolling() {
  bool woken = false;
  for (Block &block : blocks)
    for (Warp &warp : block.warps)
      if (warp.state == Warp::Waiting && warp.polls) {
        warp.state = Warp::Running;
        woken = true;
      }
  return woken;
}

bool Cluster::isAwaited(int64_t barrier) const {
  for (const Block &block : blocks)
    for (const Warp &warp : block.warps)
      if (warp.state == Warp::Waiting && warp.awaits == Warp::AnMbarrier &&
          warp.awaited == barrier)
        return true;
  return false;
}

/// Completes one copy for whose mbarrier a warp waits. This is the oldest such
/// copy, or with HEDDLE_EMULATE=seed:N a random one.
bool Cluster::landCopy() {
  // Collect all copies that a warp waits for, because they may complete in any
  // order.
  std::vector<size_t> awaited;
  for (size_t i = 0; i < copies.size(); ++i)
    if (isAwaited(copies[i].barrier))
      awaited.push_back(i);
  for (size_t i = 0; i < arrivals.size(); ++i)
    if (isAwaited(arrivals[i].barrier))
      awaited.push_back(copies.size() + i);
  if (awaited.empty())
    return false;
  size_t chosen = awaited[draw ? draw->below(awaited.size()) : 0];
  if (chosen < copies.size()) {
    BulkCopy copy = std::move(copies[chosen]);
    copies.erase(copies.begin() + static_cast<long>(chosen));
    landBulkCopy(*this, copy);
  } else {
    auto found = arrivals.begin() + static_cast<long>(chosen - copies.size());
    landArrival(*this, *found);
    arrivals.erase(found);
  }
  ++events;
  return true;
}

void Cluster::takeTurn(Warp &warp, const Program &program) {
  constexpr uint64_t longest = 64;
  uint64_t most = draw ? 1 + draw->below(longest) : UINT64_MAX;
  while (warp.state == Warp::Running) {
    warp.run(program, most);
    if (warp.state == Warp::AtBarrier)
      warp.block->arrive(warp);
    if (draw)
      break;
  }
  auto isDone = [](const Warp &of) { return of.state == Warp::Done; };
  // If the warp ended without waiting, the kernel after this one could begin
  // before the kernels before this one have ended.
  if (isDone(warp) && warp.isEarly)
    warp.fail("ends without griddepcontrol.wait", warp.mask);
  Block &block = *warp.block;
  if (isDone(warp) && !block.isDone &&
      std::all_of(block.warps.begin(), block.warps.end(), isDone)) {
    block.finish();
    ++events;
  }
}

void Cluster::run(const Program &program) {
  constexpr int mostPolls = 10000;
  int polls = 0;
  size_t warps = numWarps();
  for (uint64_t before = events;; before = events) {
    bool moved = false;
    size_t first = draw ? draw->below(warps) : 0;
    for (size_t i = 0; i < warps; ++i) {
      Warp &warp = warpAt((first + i) % warps);
      if (warp.state == Warp::Done)
        continue;
      current = &warp;
      if (warp.state == Warp::Waiting && warp.seen != events)
        warp.state = Warp::Running;
      moved |= warp.state == Warp::Running;
      takeTurn(warp, program);
    }
    if (std::all_of(blocks.begin(), blocks.end(),
                    [](const Block &block) { return block.isDone; }))
      return;
    if (events != before)
      polls = 0;
    // Warps may test an mbarrier repeatedly instead of waiting. Let them
    // continue twice before a copy completes, so that they see an mbarrier that
    // is not ready.
    if (moved || (polls++ < 2 && wakePolling()) || landCopy())
      continue;
    if (polls > mostPolls || !wakePolling())
      failDeadlock(program);
  }
}

/// Describes what a warp waits for, for the message about a deadlock.
static std::string describeAwaited(const Warp &warp) {
  if (warp.awaits == Warp::TheCluster)
    return "the cluster";
  if (warp.awaits == Warp::RegistersOfBlock)
    return "registers; " + std::to_string(warp.block->freeRegisters) +
           " of its block are free";
  const Mbarrier &barrier = warp.cluster->barriersInMemory[warp.awaited];
  return "the mbarrier at " + warp.cluster->shared.describeByte(warp.awaited) +
         ", phase " + std::to_string(barrier.phase) + ": " +
         std::to_string(barrier.pending) + " of " +
         std::to_string(barrier.expected) + " arrivals and " +
         std::to_string(barrier.bytes) + " bytes are missing";
}

/// Reports a deadlock: all warps that have not ended wait.
void Cluster::failDeadlock(const Program &program) {
  Warp *atBarrier = nullptr;
  for (size_t i = numWarps(); i-- > 0;)
    if (warpAt(i).state == Warp::AtBarrier)
      atBarrier = &warpAt(i);
  for (size_t i = 0; i < numWarps(); ++i)
    if (Warp &warp = warpAt(i); warp.state == Warp::Waiting) {
      current = &warp;
      warp.fail("waits for ever for " + describeAwaited(warp), warp.mask);
    }
  current = atBarrier;
  atBarrier->block->failDivergence(*atBarrier, program);
}

} // namespace heddle::emulator
