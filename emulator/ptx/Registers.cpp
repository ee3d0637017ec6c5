//===- Registers.cpp - setmaxnreg: registers moved between warpgroups -----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements setmaxnreg. A warp returns registers to its block's pool, or waits
// until the pool has enough registers. The emulator only counts registers; it
// does not invalidate the values that a warp gives up. As ptxas does, it
// ignores setmaxnreg if the PTX does not state how many registers a thread
// starts with.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Fragments.h"

namespace heddle::emulator {

namespace {
enum RegisterFlags { Increases = 1 };
constexpr int warpsOfGroup = 4;

/// Fails unless all warps of the warpgroup are known to have executed the
/// previous setmaxnreg. The four warps must synchronize between two setmaxnreg,
/// for example at a barrier.
void checkMeeting(Warp &warp) {
  if (!warp.registerChanges)
    return;
  for (int i = 0; i < warpsOfGroup; ++i) {
    const Warp &other =
        warp.block->warps[warp.index / warpsOfGroup * warpsOfGroup + i];
    bool isLate = other.registerChanges < warp.registerChanges;
    bool isEven = other.registerChanges == warp.registerChanges;
    if (isLate ||
        (isEven && !warp.cluster->shared.knows(warp.inCluster, other.inCluster,
                                               other.registerTime)))
      warp.fail("a second setmaxnreg, though warp " +
                    std::to_string(other.index) +
                    " of the warpgroup may not have done the first",
                allLanes);
  }
}

/// Sets the number of registers of a thread to `op.imm`.
void setRegisters(Warp &warp, const Op &op) {
  if (!warp.maxRegisters || !meetAll(warp))
    return;
  Block &block = *warp.block;
  bool increases = op.flags & Increases;
  auto number = [](int64_t value) { return std::to_string(value); };
  if (block.warps.size() < size_t(warp.index / warpsOfGroup + 1) * warpsOfGroup)
    warp.fail("a warpgroup needs four warps", allLanes);
  checkMeeting(warp);
  if (increases ? op.imm < warp.maxRegisters : op.imm > warp.maxRegisters)
    warp.fail(std::string(increases ? "an increase" : "a decrease") + " from " +
                  number(warp.maxRegisters) + " to " + number(op.imm) +
                  " registers",
              allLanes);
  int64_t more = (op.imm - warp.maxRegisters) * warpSize;
  if (more > block.freeRegisters) {
    warp.awaits = Warp::RegistersOfBlock;
    warp.polls = false;
    warp.retryLater();
    return;
  }
  block.freeRegisters -= more;
  warp.maxRegisters = op.imm;
  ++warp.registerChanges;
  warp.registerTime = warp.cluster->shared.now(warp.inCluster);
  warp.mixTrace(static_cast<uint64_t>(warp.current) + 1);
  ++warp.cluster->events;
}
} // namespace

void decodeRegisters(Decode &d) {
  d.requireTarget({"sm_90a"});
  int kind = d.takeOneOf({"inc", "dec"});
  if (kind < 0 || !d.take("sync") || !d.take("aligned") || !d.take("u32"))
    d.failUnknown();
  d.expectOperands(1);
  d.op.imm = d.number(0);
  if (d.op.imm < 24 || d.op.imm > 256 || d.op.imm % 8)
    d.fail("setmaxnreg of " + std::to_string(d.op.imm) + " registers");
  d.op.flags = kind == 0 ? Increases : 0;
  d.changeRegisters();
  d.op.run = setRegisters;
}

} // namespace heddle::emulator
