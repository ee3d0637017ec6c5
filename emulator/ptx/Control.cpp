//===- Control.cpp - Branches, exits and barriers -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements bra, brx, ret, exit, bar, bar.warp.sync, membar, fence and
// griddepcontrol.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
void branch(Warp &warp, const Op &op) {
  warp.branch(static_cast<int32_t>(op.imm), op.reconverge);
}

void decodeBranch(Decode &d) {
  d.take("uni");
  d.expectOperands(1);
  d.op.imm = d.label(0);
  d.op.endsBlock = true;
  d.op.run = branch;
}

/// brx.idx index, targets
void branchByIndex(Warp &warp, const Op &op) {
  const std::vector<int32_t> &targets =
      warp.worker->program->targets[op.targets];
  const uint32_t *indices = warp.row<uint32_t>(op, 0);
  std::map<int32_t, uint32_t> lanesTo;
  forLanes(warp.mask, [&](int lane) {
    if (indices[lane] >= targets.size())
      warp.fail("index " + std::to_string(indices[lane]) + " of " +
                    std::to_string(targets.size()) + " targets",
                uint32_t(1) << lane);
    lanesTo[targets[indices[lane]]] |= uint32_t(1) << lane;
  });
  warp.branchTo(lanesTo, op.reconverge);
}

void decodeIndexedBranch(Decode &d) {
  if (!d.take("idx"))
    d.failUnknown();
  d.take("uni");
  d.expectOperands(2);
  d.use(0, u32Type);
  d.op.targets = d.branchTargets(1);
  d.op.imm = noPc;
  d.op.endsBlock = true;
  d.op.run = branchByIndex;
}

void decodeExit(Decode &d) {
  d.take("uni");
  d.expectOperands(0);
  d.op.imm = noPc;
  d.op.endsBlock = true;
  d.op.run = [](Warp &warp, const Op &) { warp.exitLanes(); };
}

enum BarrierFlags { HasThreads = 1, Arrives = 2, Reduces = 4, Negated = 8 };

/// Returns the value of the op's operand number `row`. Fails if it differs
/// between lanes.
int64_t uniform(Warp &warp, const Op &op, int row) {
  const uint32_t *values = warp.row<uint32_t>(op, row);
  uint32_t value = values[__builtin_ctz(warp.mask)];
  forLanes(warp.mask, [&](int lane) {
    if (values[lane] != value)
      warp.fail("lanes of a warp differ in the operand of a barrier",
                uint32_t(1) << lane);
  });
  return value;
}

void barrier(Warp &warp, const Op &op) {
  if (!warp.converge(warp.live))
    return;
  if (warp.mask != warp.live)
    warp.fail("divergent barrier: only " +
                  std::to_string(__builtin_popcount(warp.mask)) +
                  " lanes of the warp are here",
              warp.mask);
  int first = op.results;
  warp.barrier = uniform(warp, op, first);
  if (warp.barrier > 15)
    warp.fail("there are 16 barriers, no number " +
                  std::to_string(warp.barrier),
              warp.mask);
  warp.barrierThreads =
      op.flags & HasThreads ? uniform(warp, op, first + 1) : 0;
  if (warp.barrierThreads % warpSize)
    warp.fail("a barrier of " + std::to_string(warp.barrierThreads) +
                  " threads, no whole warps",
              warp.mask);
  warp.countsOnly = op.flags & Arrives;
  warp.reduction = op.flags & Reduces ? &op : nullptr;
  if (warp.reduction) {
    uint32_t values = warp.predicate(op, first + op.operands - 1);
    warp.votes = (op.flags & Negated ? ~values : values) & warp.mask;
  }
  warp.state = Warp::AtBarrier;
}

/// bar.warp.sync mask
void meetLanes(Warp &warp, const Op &op) {
  uint32_t wanted = warp.row<uint32_t>(op, 0)[__builtin_ctz(warp.mask)];
  if (!warp.converge(wanted))
    return;
  if (uint32_t missing = wanted & warp.live & ~warp.mask)
    warp.fail("divergent barrier: " + describeThreads(warp, missing) +
                  " have not come",
              warp.mask);
  warp.cluster->shared.joinLanes(warp.inCluster);
}

/// Decodes bar.red.popc.u32 d, barrier, [threads,] [!]p and
/// bar.red.and|or.pred.
void decodeReduction(Decode &d) {
  d.op.imm = d.takeOneOf({"popc", "and", "or"});
  Type type = d.op.imm == CountVotes ? u32Type : predType;
  if (d.op.imm < 0 || !(d.type() == type))
    d.failUnknown();
  d.expectOperands(3, 4);
  size_t last = d.numOperands() - 1;
  d.result(0, type);
  for (size_t i = 1; i < last; ++i)
    d.use(i, u32Type);
  d.use(last, predType);
  d.op.flags |= Reduces | (last == 3 ? HasThreads : 0) |
                (d.operand(last).negated ? Negated : 0);
}

void decodeBarrier(Decode &d) {
  if (d.take("cluster"))
    return decodeClusterBarrier(d);
  if (d.take("warp")) {
    if (!d.take("sync"))
      d.failUnknown();
    d.expectOperands(1);
    d.use(0, b32Type);
    d.op.run = meetLanes;
    return;
  }
  d.take("cta");
  int kind = d.takeOneOf({"sync", "arrive", "red"});
  d.take("aligned");
  if (kind < 0)
    d.failUnknown();
  d.op.run = barrier;
  if (kind == 2)
    return decodeReduction(d);
  d.expectOperands(1 + kind, 2);
  d.use(0, u32Type);
  if (d.numOperands() == 2) {
    d.use(1, u32Type);
    d.op.flags |= HasThreads;
  }
  if (kind == 1)
    d.op.flags |= Arrives;
}

template <bool ofShared, bool ofGlobal>
void fenceProxy(Warp &warp, const Op &) {
  SharedMemory &shared = warp.cluster->shared;
  if (ofShared)
    shared.fenceProxy(warp.inCluster, FenceOf::Shared);
  if (ofGlobal)
    shared.fenceProxy(warp.inCluster, FenceOf::Global);
}

/// Decodes a proxy fence. Such a fence orders writes of threads before later
/// reads by asynchronous operations.
void decodeProxyFence(Decode &d) {
  if (!d.take("async"))
    d.failUnknown();
  int where = d.takeOneOf({"global", "shared::cta", "shared::cluster"});
  d.expectOperands(0);
  d.op.run = where < 0    ? fenceProxy<true, true>
             : where == 0 ? fenceProxy<false, true>
                          : fenceProxy<true, false>;
}

/// fence.mbarrier_init.release.cluster: orders the initialization of mbarriers
/// before a relaxed arrival at the cluster's barrier. Arrivals of other kinds
/// order it without this fence.
void decodeInitFence(Decode &d) {
  d.requireTarget({"sm_90", "sm_90a"});
  if (!d.take("release") || !d.take("cluster"))
    d.failUnknown();
  d.expectOperands(0);
  d.op.run = [](Warp &warp, const Op &) {
    warp.fencedInits = warp.cluster->shared.knownBy(warp.inCluster);
  };
}

/// Decodes a fence. The emulator executes memory accesses in order anyway. A
/// fence matters only before a relaxed arrival at the cluster's barrier, which
/// orders nothing but accesses before the fence.
void decodeFence(Decode &d) {
  if (d.take("proxy"))
    return decodeProxyFence(d);
  if (d.take("mbarrier_init"))
    return decodeInitFence(d);
  d.takeOneOf({"sc", "acq_rel"});
  int scope = d.takeOneOf({"cta", "gl", "sys", "gpu", "cluster"});
  if (scope < 0)
    d.failUnknown();
  d.expectOperands(0);
  if (scope == 0)
    d.op.run = [](Warp &, const Op &) {};
  else
    d.op.run = [](Warp &warp, const Op &) {
      warp.fenced = warp.cluster->shared.knownBy(warp.inCluster);
    };
}

/// Decodes griddepcontrol. Launches run one after the other, so the instruction
/// only changes what is checked.
void decodeDependents(Decode &d) {
  d.requireTarget({"sm_90", "sm_90a"});
  int form = d.takeOneOf({"launch_dependents", "wait"});
  if (form < 0)
    d.failUnknown();
  d.expectOperands(0);
  if (form == 0)
    d.op.run = [](Warp &warp, const Op &) {
      NextBegins begins =
          warp.isEarly ? NextBegins::BeforeWait : NextBegins::AfterWait;
      warp.block->nextBegins = std::max(warp.block->nextBegins, begins);
    };
  else
    d.op.run = [](Warp &warp, const Op &) { warp.isEarly = false; };
}

void decodeTrap(Decode &d) {
  d.expectOperands(0);
  d.op.run = [](Warp &warp, const Op &) {
    warp.fail("the kernel stops itself", warp.mask);
  };
}

void decodeSleep(Decode &d) {
  d.type();
  d.expectOperands(1);
  d.use(0, u32Type);
  d.op.run = [](Warp &, const Op &) {};
}
} // namespace

const Opcode controlOpcodes[] = {
    {"bra", Class::Control, decodeBranch},
    {"brx", Class::Control, decodeIndexedBranch},
    {"ret", Class::Control, decodeExit},
    {"exit", Class::Control, decodeExit},
    {"bar", Class::Control, decodeBarrier},
    {"barrier", Class::Control, decodeBarrier},
    {"membar", Class::Control, decodeFence},
    {"fence", Class::Control, decodeFence},
    {"setmaxnreg", Class::Control, decodeRegisters},
    {"griddepcontrol", Class::Control, decodeDependents},
    {"trap", Class::Control, decodeTrap},
    {"nanosleep", Class::Control, decodeSleep},
    {nullptr, Class::Control, nullptr}};

} // namespace heddle::emulator
