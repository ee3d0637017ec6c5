//===- Async.cpp - Asynchronous copies to shared memory -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements cp.async. A copy is executed as late as PTX allows, which is when
// its thread waits for it. Until then the target bytes are NaN, so that a
// missing wait changes the results of the kernel.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Bulk.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
enum CopyFlags {
  IsNarrowTarget = 256,
  HasSourceBytes = 512,
  CountsNoArrival = 1024
};

/// The constant offsets in the address operands of the copy's target and
/// source. Both are packed into `imm`, 32 bits each.
int64_t targetOffset(const Op &op) { return op.imm >> 32; }
int64_t sourceOffset(const Op &op) { return static_cast<int32_t>(op.imm); }

/// Checks one side of a copy (its target or its source), and returns the
/// address of each lane's bytes there. `row` is the register with the
/// addresses, `offset` the constant that is added to them.
Access resolveSide(Warp &warp, const Op &op, int row, int64_t offset,
                   bool isNarrow, Space space, int64_t bytes) {
  Op side = op;
  side.imm = offset;
  side.flags = isNarrow ? IsNarrowAddress : 0;
  Access access(warp, side, row);
  access.resolveAll(warp, space, bytes);
  return access;
}

void copy(Warp &warp, const Op &op) {
  int64_t bytes = op.flags >> 16;
  Access target = resolveSide(warp, op, 0, targetOffset(op),
                              op.flags & IsNarrowTarget, Space::Shared, bytes);
  countRequest(warp, target, bytes);
  uint32_t sizes[warpSize];
  const uint32_t *given =
      op.flags & HasSourceBytes ? warp.row<uint32_t>(op, 2) : nullptr;
  uint32_t reading = 0;
  for (int i = 0; i < warpSize; ++i) {
    sizes[i] = given ? given[i] : static_cast<uint32_t>(bytes);
    reading |= uint32_t(sizes[i] != 0) << i;
  }
  forLanes(warp.mask, [&](int lane) {
    if (sizes[lane] > bytes)
      warp.fail("cp.async of " + std::to_string(bytes) + " bytes from " +
                    std::to_string(sizes[lane]),
                uint32_t(1) << lane);
    std::string wrong = warp.cluster->shared.beginCopy(
        target.offset(warp, lane), bytes, warp.member(lane));
    if (!wrong.empty())
      warp.fail(wrong, uint32_t(1) << lane);
  });
  // The copy of a lane whose source size is 0 reads nothing and writes zeros,
  // so its source address may be invalid. Resolve only the source addresses of
  // the other lanes.
  uint32_t mask = warp.mask;
  const char *sources[warpSize] = {};
  warp.mask &= reading;
  if (warp.mask) {
    Access source =
        resolveSide(warp, op, 1, sourceOffset(op), false, Space::Global, bytes);
    noteAccess(warp, source, bytes, AccessKind::Read);
    countRequest(warp, source, bytes);
    std::copy_n(source.host, warpSize, sources);
  }
  warp.mask = mask;
  forLanes(mask, [&](int lane) {
    warp.open.push_back({target.offset(warp, lane), sources[lane],
                         static_cast<uint32_t>(bytes), sizes[lane], lane,
                         ++warp.numCopies});
  });
}

/// Returns the time in the warp's vector clock at which a copy counts as done.
/// If a cp.async.mbarrier.arrive waits for the copy, this is the time of that
/// instruction. Otherwise it is the current time.
uint32_t timeOf(const Warp &warp, const AsyncCopy &copy) {
  for (const AsyncArrival &arrival : warp.cluster->arrivals)
    if (arrival.warp == warp.inCluster && arrival.lane == copy.lane &&
        copy.number <= arrival.last)
      return arrival.time;
  return warp.cluster->shared.now(warp.inCluster);
}

void finishCopies(Warp &warp, const std::vector<AsyncCopy> &copies) {
  SharedMemory &shared = warp.cluster->shared;
  for (const AsyncCopy &copy : copies) {
    char *to = shared.data() + copy.target;
    if (copy.sourceBytes)
      std::memcpy(to, copy.source, copy.sourceBytes);
    std::memset(to + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
    shared.endCopy(copy.target, copy.bytes, warp.member(copy.lane),
                   timeOf(warp, copy));
  }
}

/// Returns those of `copies` for which `isTaken` returns true, and removes them
/// from `copies`.
template <class F>
std::vector<AsyncCopy> takeCopies(std::vector<AsyncCopy> &copies, F isTaken) {
  std::vector<AsyncCopy> taken, kept;
  for (const AsyncCopy &copy : copies)
    (isTaken(copy) ? taken : kept).push_back(copy);
  copies = std::move(kept);
  return taken;
}
std::vector<AsyncCopy> takeCopies(std::vector<AsyncCopy> &copies,
                                  uint32_t lanes) {
  return takeCopies(
      copies, [&](const AsyncCopy &copy) { return lanes >> copy.lane & 1; });
}

/// Closes a group of copies. In PTX each thread has its own list of groups.
/// Lanes that never diverge have equal lists, so the emulator keeps one list
/// for the warp. If only some lanes wait, only their copies are completed.
void commit(Warp &warp, const Op &) {
  warp.groups.push_back(takeCopies(warp.open, warp.mask));
}

void wait(Warp &warp, const Op &op) {
  auto pending = static_cast<size_t>(op.imm);
  if (warp.groups.size() <= pending)
    return;
  size_t done = warp.groups.size() - pending;
  for (size_t i = 0; i < done; ++i)
    finishCopies(warp, takeCopies(warp.groups[i], warp.mask));
  while (!warp.groups.empty() && warp.groups.size() > pending &&
         warp.groups.front().empty())
    warp.groups.erase(warp.groups.begin());
}

void waitAll(Warp &warp, const Op &op) {
  commit(warp, op);
  wait(warp, op); // op.imm is 0: all groups.
}

/// cp.async.mbarrier.arrive: arrives at the mbarrier when the copies that the
/// thread has issued so far have completed. The only operand is the mbarrier's
/// address.
void arriveAfterCopies(Warp &warp, const Op &op) {
  Access at(warp, op, 0);
  at.resolve(warp, static_cast<Space>(op.flags & SpaceMask), sizeof(uint64_t));
  Cluster &cluster = *warp.cluster;
  VectorClock known = cluster.shared.knownBy(warp.inCluster);
  uint32_t time = cluster.shared.now(warp.inCluster);
  // The arrival orders the warp's earlier accesses, but not its later ones.
  // Advance the warp's vector clock, so that later accesses have a later time
  // than the arrival.
  cluster.shared.joinLanes(warp.inCluster);
  forLanes(warp.mask, [&](int lane) {
    int64_t offset = at.offset(warp, lane);
    Mbarrier &barrier = useMbarrier(warp, offset, lane);
    if (!(op.flags & CountsNoArrival))
      expectArrival(warp, barrier, lane);
    cluster.arrivals.push_back({offset, warp.inCluster, lane, warp.numCopies,
                                known, time, warp.current});
  });
}

void decodeArrive(Decode &d) {
  d.op.flags = d.take("noinc") ? CountsNoArrival : 0;
  Space space = takeSpace(d);
  if ((space != Space::Shared && space != Space::Generic) || !d.take("b64"))
    d.failUnknown();
  d.expectOperands(1);
  d.op.flags |= addressFlags(d, space, d.address(0));
  d.op.run = arriveAfterCopies;
}

void decodeCopy(Decode &d) {
  bool bypasses = d.take("cg");
  if ((!bypasses && !d.take("ca")) ||
      (!d.take("shared") && !d.take("shared::cta")) || !d.take("global"))
    d.failUnknown();
  while (!d.takePrefix("L2::").empty()) {
  }
  d.expectOperands(3, 4);
  int bits = d.address(0);
  int64_t target = d.op.imm;
  addressFlags(d, Space::Shared, bits);
  addressFlags(d, Space::Global, d.address(1));
  int64_t source = d.op.imm, bytes = d.number(2);
  if (bytes != 16 && (bypasses || (bytes != 4 && bytes != 8)))
    d.fail("'" + d.name() + "' cannot copy " + std::to_string(bytes) +
           " bytes");
  d.op.imm = target << 32 | static_cast<uint32_t>(source);
  d.op.flags =
      static_cast<uint32_t>(bytes) << 16 | (bits == 32 ? IsNarrowTarget : 0);
  if (d.numOperands() == 4) {
    d.use(3, u32Type);
    d.op.flags |= HasSourceBytes;
  }
  d.op.run = copy;
}

void decodeAsync(Decode &d) {
  bool reduces = d.take("reduce");
  if (!d.take("async") || (reduces && !d.take("bulk")))
    d.failUnknown();
  if (reduces || d.take("bulk")) {
    decodeBulk(d, reduces);
  } else if (d.take("mbarrier")) {
    if (!d.take("arrive"))
      d.failUnknown();
    decodeArrive(d);
  } else if (d.take("commit_group")) {
    d.expectOperands(0);
    d.op.run = commit;
  } else if (d.take("wait_group")) {
    d.expectOperands(1);
    d.op.imm = d.number(0);
    d.op.run = wait;
  } else if (d.take("wait_all")) {
    d.expectOperands(0);
    d.op.run = waitAll;
  } else {
    decodeCopy(d);
  }
}
} // namespace

void landArrival(Cluster &cluster, const AsyncArrival &arrival) {
  int ofBlock = static_cast<int>(cluster.blocks.front().warps.size());
  Warp &warp =
      cluster.blocks[arrival.warp / ofBlock].warps[arrival.warp % ofBlock];
  auto isBefore = [&](const AsyncCopy &copy) {
    return copy.lane == arrival.lane && copy.number <= arrival.last;
  };
  for (std::vector<AsyncCopy> &group : warp.groups)
    finishCopies(warp, takeCopies(group, isBefore));
  finishCopies(warp, takeCopies(warp.open, isBefore));
  Mbarrier &barrier = cluster.barriersInMemory[arrival.barrier];
  if (barrier.pending < 1) {
    cluster.current = &warp;
    warp.current = arrival.op;
    warp.fail("an arrival at the mbarrier at " +
                  cluster.shared.describeByte(arrival.barrier) +
                  ", which expects none in this phase",
              uint32_t(1) << arrival.lane);
  }
  barrier.next.add(arrival.known);
  --barrier.pending;
  cluster.checkPhase(barrier);
}

const Opcode asyncOpcodes[] = {{"cp", Class::Async, decodeAsync},
                               {nullptr, Class::Async, nullptr}};

} // namespace heddle::emulator
