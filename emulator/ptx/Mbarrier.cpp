//===- Mbarrier.cpp - mbarrier instructions -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements mbarrier.init, inval, arrive, expect_tx, complete_tx, test_wait
// and try_wait.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
enum MbarrierFlags {
  HasCount = 256,
  ExpectsBytes = 512,
  Drops = 1024,
  StaysOpen = 2048,
  OfParity = 4096
};

constexpr int64_t mostArrivals = (1 << 20) - 1;

/// Finds the offsets of the lanes' mbarriers in the cluster's shared memory.
Access resolveBarrier(Warp &warp, const Op &op, int row) {
  constexpr int64_t bytes = 8;
  Access access(warp, op, row);
  auto space = static_cast<Space>(op.flags & SpaceMask);
  access.resolve(warp, space, bytes);
  if (!access.isShared)
    warp.fail("an mbarrier has to be in shared memory", warp.mask);
  for (int lane = 0; lane < warpSize; ++lane) {
    int64_t offset = access.offset(warp, lane);
    if (space != Space::ClusterShared &&
        &warp.cluster->blockOf(offset) != warp.block)
      warp.fail("an mbarrier of another block",
                uint32_t(1) << lane & warp.mask);
    access.addresses[lane] = static_cast<uint64_t>(offset);
  }
  return access;
}

Mbarrier &find(Warp &warp, int64_t offset, int lane) {
  auto &known = warp.cluster->barriersInMemory;
  auto found = known.find(offset);
  if (found == known.end())
    warp.fail("there is no mbarrier at " +
                  warp.cluster->shared.describeByte(offset),
              uint32_t(1) << lane);
  return found->second;
}

void check(Warp &warp, const std::string &wrong, int lane) {
  if (!wrong.empty())
    warp.fail(wrong, uint32_t(1) << lane);
}

void init(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 0);
  const uint32_t *counts = warp.row<uint32_t>(op, 1);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    if (counts[lane] < 1 || counts[lane] > mostArrivals)
      warp.fail("an mbarrier of " + std::to_string(counts[lane]) + " arrivals",
                uint32_t(1) << lane);
    Cluster &cluster = *warp.cluster;
    if (cluster.barriersInMemory.count(offset))
      warp.fail(cluster.shared.describeByte(offset) + " is an mbarrier already",
                uint32_t(1) << lane);
    check(warp, cluster.shared.beginBarrier(offset, warp.member(lane)), lane);
    Mbarrier &made = cluster.barriersInMemory[offset];
    made.expected = made.pending = counts[lane];
  });
}

void invalidate(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 0);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    find(warp, offset, lane);
    Cluster &cluster = *warp.cluster;
    check(warp, cluster.shared.endBarrier(offset, warp.member(lane)), lane);
    auto tells = [&](const auto &copy) { return copy.barrier == offset; };
    if (std::any_of(cluster.copies.begin(), cluster.copies.end(), tells) ||
        std::any_of(cluster.arrivals.begin(), cluster.arrivals.end(), tells))
      warp.fail("a copy is under way that tells this mbarrier", uint32_t(1)
                                                                    << lane);
    cluster.barriersInMemory.erase(offset);
  });
}

void changeBytes(Warp &warp, Mbarrier &barrier, int64_t by, int lane) {
  constexpr int64_t most = (1 << 20) - 1;
  barrier.bytes += by;
  if (barrier.bytes > most || barrier.bytes < -most)
    warp.fail(std::to_string(barrier.bytes) + " bytes at an mbarrier; " +
                  std::to_string(most) + " can be",
              uint32_t(1) << lane);
}

/// Executes mbarrier.arrive. The op's operands are: resulting state, address,
/// [count or bytes].
void arrive(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 1);
  const uint32_t *given = op.operands > 1 ? warp.row<uint32_t>(op, 2) : nullptr;
  uint64_t *states = warp.row<uint64_t>(op, 0);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    Mbarrier &barrier = useMbarrier(warp, offset, lane);
    int64_t count = op.flags & HasCount ? given[lane] : 1;
    if (op.flags & ExpectsBytes)
      changeBytes(warp, barrier, given[lane], lane);
    if (count < 1 || count > barrier.pending)
      warp.fail(std::to_string(count) + " arrivals at the mbarrier at " +
                    warp.cluster->shared.describeByte(offset) +
                    "; it expects " + std::to_string(barrier.pending) +
                    " more in this phase",
                uint32_t(1) << lane);
    if (op.flags & StaysOpen && count == barrier.pending)
      warp.fail("the last arrival of a phase must not be noComplete",
                uint32_t(1) << lane);
    states[lane] = barrier.phase;
    barrier.isTold |= &warp.cluster->blockOf(offset) != warp.block;
    warp.cluster->shared.release(warp.inCluster, barrier.next);
    barrier.pending -= count;
    if (op.flags & Drops)
      barrier.expected -= count;
    warp.cluster->checkPhase(barrier);
  });
}

/// Executes expect_tx and complete_tx. The op's operands are: address, bytes.
void countBytes(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 0);
  const uint32_t *bytes = warp.row<uint32_t>(op, 1);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    Mbarrier &barrier = useMbarrier(warp, offset, lane);
    int64_t by = bytes[lane];
    changeBytes(warp, barrier, op.flags & ExpectsBytes ? by : -by, lane);
    warp.cluster->checkPhase(barrier);
  });
}

/// Executes test_wait and try_wait. The op's operands are: resulting predicate,
/// address, state or parity.
void wait(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 1);
  auto isDone = [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    const Mbarrier &barrier = useMbarrier(warp, offset, lane);
    if (op.flags & OfParity) {
      uint32_t parity = warp.row<uint32_t>(op, 2)[lane];
      if (parity > 1)
        warp.fail("a parity of " + std::to_string(parity), uint32_t(1) << lane);
      return (barrier.phase & 1) != parity;
    }
    uint64_t state = warp.row<uint64_t>(op, 2)[lane];
    if (state > barrier.phase || state + 1 < barrier.phase)
      warp.fail("a state that is not of this or the last phase of the mbarrier",
                uint32_t(1) << lane);
    return barrier.phase > state;
  };
  uint32_t done = 0;
  forLanes(warp.mask,
           [&](int lane) { done |= uint32_t(isDone(lane)) << lane; });
  if (done != warp.mask) {
    // The phase is not complete for some lanes, so their result is false. The
    // warp continues with this result, but only after other warps have run.
    // This holds for try_wait as well, because it may suspend a thread only for
    // a limited time.
    int missing = __builtin_ctz(warp.mask & ~done);
    warp.awaits = Warp::AnMbarrier;
    warp.awaited = static_cast<int64_t>(at.addresses[missing]);
    warp.polls = true;
    if (warp.retryLater())
      warp.paths.back().pc = warp.current + 1;
    else
      warp.pc = warp.current + 1;
  }
  forLanes(done, [&](int lane) {
    const Mbarrier &barrier =
        find(warp, static_cast<int64_t>(at.addresses[lane]), lane);
    // If other blocks have arrived at this mbarrier, end the detection of races
    // between this block and the blocks of its cluster. Such an arrival orders
    // accesses of global memory by the block that arrives, but the detector
    // does not know which accesses.
    if (barrier.isTold && warp.block->touched)
      warp.block->touched->endClusterRaces();
    warp.cluster->shared.acquire(warp.inCluster, barrier.done);
  });
  storePredicate(warp, warp.predicate(op, 0), done);
}

void takeOrder(Decode &d) {
  d.takeOneOf({"release", "acquire", "relaxed"});
  d.takeOneOf({"cta", "cluster"});
}

/// Consumes the state space, the type, and the address in operand `index`.
/// Returns the space. A generic address must be in the block's own shared
/// memory.
Space takeAddress(Decode &d, size_t index, bool ofCluster = false) {
  takeOrder(d);
  Space space = takeSpace(d);
  if (!d.take("b64") || (space == Space::ClusterShared && !ofCluster))
    d.failUnknown();
  d.op.flags |= addressFlags(d, space, d.address(index));
  return space;
}

void decodeArrive(Decode &d, bool drops) {
  bool expects = d.take("expect_tx");
  if (d.take("noComplete"))
    d.op.flags |= StaysOpen;
  d.expectOperands(expects ? 3 : 2, 3);
  d.result(0, b64Type);
  if (takeAddress(d, 1, /*ofCluster=*/true) == Space::ClusterShared &&
      d.operand(0).kind != Operand::Sink)
    d.fail("'" + d.name() + "' gives no state");
  if (d.numOperands() == 3)
    d.use(2, u32Type);
  d.op.flags |= (drops ? Drops : 0) | (expects                ? ExpectsBytes
                                       : d.numOperands() == 3 ? HasCount
                                                              : 0);
  d.op.run = arrive;
}

void decodeWait(Decode &d, bool takesTime) {
  bool ofParity = d.take("parity");
  d.expectOperands(3, takesTime ? 4 : 3);
  d.result(0, predType);
  takeAddress(d, 1);
  d.use(2, ofParity ? u32Type : b64Type);
  if (d.numOperands() == 4)
    d.use(3, u32Type);
  d.op.flags |= ofParity ? OfParity : 0;
  d.op.run = wait;
}

void decodeBytes(Decode &d, bool expects) {
  d.expectOperands(2);
  takeAddress(d, 0, /*ofCluster=*/true);
  d.use(1, u32Type);
  d.op.flags |= expects ? ExpectsBytes : 0;
  d.op.run = countBytes;
}

void decodeMbarrier(Decode &d) {
  switch (d.takeOneOf({"init", "inval", "arrive", "arrive_drop", "test_wait",
                       "try_wait", "expect_tx", "complete_tx"})) {
  case 0:
    d.expectOperands(2);
    takeAddress(d, 0);
    d.use(1, u32Type);
    d.op.run = init;
    return;
  case 1:
    d.expectOperands(1);
    takeAddress(d, 0);
    d.op.run = invalidate;
    return;
  case 2:
    return decodeArrive(d, /*drops=*/false);
  case 3:
    return decodeArrive(d, /*drops=*/true);
  case 4:
    return decodeWait(d, /*takesTime=*/false);
  case 5:
    return decodeWait(d, /*takesTime=*/true);
  case 6:
    return decodeBytes(d, /*expects=*/true);
  case 7:
    return decodeBytes(d, /*expects=*/false);
  default:
    d.failUnknown();
  }
}

} // namespace

Mbarrier &useMbarrier(Warp &warp, int64_t offset, int lane) {
  Mbarrier &barrier = find(warp, offset, lane);
  check(warp,
        warp.cluster->shared.useBarrier(offset, warp.member(lane),
                                        warp.knownInits),
        lane);
  return barrier;
}

void expectArrival(Warp &warp, Mbarrier &barrier, int lane) {
  if (++barrier.pending > mostArrivals)
    warp.fail("an mbarrier of " + std::to_string(barrier.pending) + " arrivals",
              uint32_t(1) << lane);
}

const Opcode mbarrierOpcodes[] = {{"mbarrier", Class::Async, decodeMbarrier},
                                  {nullptr, Class::Async, nullptr}};

} // namespace heddle::emulator
