//===- Mbarrier.cpp - Barriers in shared memory ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Access.h"
#include "runtime/devices/emulator/Lanes.h"

namespace heddle::rt::emulator {

namespace {
enum MbarrierFlags {
  HasCount = 256,
  ExpectsBytes = 512,
  Drops = 1024,
  StaysOpen = 2048,
  OfParity = 4096
};

/// The offset in shared memory of each lane's mbarrier.
Access resolveBarrier(Warp &warp, const Op &op, int row) {
  constexpr int64_t bytes = 8;
  Access access(warp, op, row);
  access.resolve(warp, static_cast<Space>(op.flags & SpaceMask), bytes);
  if (!access.isShared)
    warp.fail("an mbarrier has to be in shared memory", warp.mask);
  for (uint64_t &address : access.addresses)
    address -= sharedBase;
  return access;
}

Mbarrier &find(Warp &warp, int64_t offset, int lane) {
  auto found = warp.block->barriersInMemory.find(offset);
  if (found == warp.block->barriersInMemory.end())
    warp.fail("there is no mbarrier at byte " + std::to_string(offset) +
                  " of shared memory",
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
    constexpr uint32_t most = (1 << 20) - 1;
    if (counts[lane] < 1 || counts[lane] > most)
      warp.fail("an mbarrier of " + std::to_string(counts[lane]) + " arrivals",
                uint32_t(1) << lane);
    if (warp.block->barriersInMemory.count(offset))
      warp.fail("byte " + std::to_string(offset) +
                    " of shared memory is an mbarrier already",
                uint32_t(1) << lane);
    check(warp, warp.block->shared.beginBarrier(offset, warp.thread(lane)),
          lane);
    Mbarrier &made = warp.block->barriersInMemory[offset];
    made.expected = made.pending = counts[lane];
  });
}

void invalidate(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 0);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    find(warp, offset, lane);
    check(warp, warp.block->shared.endBarrier(offset, warp.thread(lane)), lane);
    for (const BulkCopy &copy : warp.block->copies)
      if (copy.barrier == offset)
        warp.fail("a bulk copy is under way that tells this mbarrier",
                  uint32_t(1) << lane);
    warp.block->barriersInMemory.erase(offset);
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

/// Rows: state, address, [count or bytes].
void arrive(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 1);
  const uint32_t *given = op.operands > 1 ? warp.row<uint32_t>(op, 2) : nullptr;
  uint64_t *states = warp.row<uint64_t>(op, 0);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    Mbarrier &barrier = find(warp, offset, lane);
    check(warp, warp.block->shared.useBarrier(offset, warp.thread(lane)), lane);
    int64_t count = op.flags & HasCount ? given[lane] : 1;
    if (op.flags & ExpectsBytes)
      changeBytes(warp, barrier, given[lane], lane);
    if (count < 1 || count > barrier.pending)
      warp.fail(std::to_string(count) + " arrivals at the mbarrier at byte " +
                    std::to_string(offset) + " of shared memory; it expects " +
                    std::to_string(barrier.pending) + " more in this phase",
                uint32_t(1) << lane);
    if (op.flags & StaysOpen && count == barrier.pending)
      warp.fail("the last arrival of a phase must not be noComplete",
                uint32_t(1) << lane);
    states[lane] = barrier.phase;
    warp.block->shared.release(warp.index, barrier.next);
    barrier.pending -= count;
    if (op.flags & Drops)
      barrier.expected -= count;
    warp.block->checkPhase(barrier);
  });
}

/// expect_tx and complete_tx. Rows: address, bytes.
void countBytes(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 0);
  const uint32_t *bytes = warp.row<uint32_t>(op, 1);
  forLanes(warp.mask, [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    Mbarrier &barrier = find(warp, offset, lane);
    check(warp, warp.block->shared.useBarrier(offset, warp.thread(lane)), lane);
    int64_t by = bytes[lane];
    changeBytes(warp, barrier, op.flags & ExpectsBytes ? by : -by, lane);
    warp.block->checkPhase(barrier);
  });
}

/// Rows: predicate, address, state or parity.
void wait(Warp &warp, const Op &op) {
  Access at = resolveBarrier(warp, op, 1);
  auto isDone = [&](int lane) {
    auto offset = static_cast<int64_t>(at.addresses[lane]);
    const Mbarrier &barrier = find(warp, offset, lane);
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
  forLanes(warp.mask, [&](int lane) {
    check(warp,
          warp.block->shared.useBarrier(
              static_cast<int64_t>(at.addresses[lane]), warp.thread(lane)),
          lane);
    done |= uint32_t(isDone(lane)) << lane;
  });
  if (done != warp.mask) {
    // The answer is no, also that of try_wait, which may wait for a while: the
    // warp goes on with it when others have run.
    int missing = __builtin_ctz(warp.mask & ~done);
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
    warp.block->shared.acquire(warp.index, barrier.done);
  });
  storePredicate(warp, warp.predicate(op, 0), done);
}

void takeOrder(Decode &d) {
  d.takeOneOf({"release", "acquire", "relaxed"});
  d.takeOneOf({"cta", "cluster"});
}

/// Takes space and type, and the address at `index`.
void takeAddress(Decode &d, size_t index) {
  takeOrder(d);
  Space space = takeSpace(d);
  if (!d.take("b64"))
    d.failUnknown();
  d.op.flags |= addressFlags(d, space, d.address(index));
}

void decodeArrive(Decode &d, bool drops) {
  bool expects = d.take("expect_tx");
  if (d.take("noComplete"))
    d.op.flags |= StaysOpen;
  d.expectOperands(expects ? 3 : 2, 3);
  d.result(0, b64Type);
  takeAddress(d, 1);
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
  takeAddress(d, 0);
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

/// mapa: the address of what stands there in another block of the cluster.
template <class T> void mapAddress(Warp &warp, const Op &op) {
  const uint32_t *ranks = warp.row<uint32_t>(op, 2);
  forLanes(warp.mask, [&](int lane) {
    if (ranks[lane])
      warp.fail("block " + std::to_string(ranks[lane]) +
                    " of a cluster that has one",
                uint32_t(1) << lane);
  });
  const T *from = warp.row<T>(op, 1);
  eachLane(warp, warp.row<T>(op, 0), [&](int i) { return from[i]; });
}

void decodeMap(Decode &d) {
  bool isShared = d.take("shared::cluster");
  Type type = d.type();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, u32Type);
  if (type.kind != Type::Unsigned || (type.width == 32 && !isShared))
    d.failUnknown();
  d.op.run = type.width == 32 ? mapAddress<uint32_t> : mapAddress<uint64_t>;
}
} // namespace

const Opcode mbarrierOpcodes[] = {{"mbarrier", Class::Async, decodeMbarrier},
                                  {"mapa", Class::Move, decodeMap},
                                  {nullptr, Class::Async, nullptr}};

} // namespace heddle::rt::emulator
