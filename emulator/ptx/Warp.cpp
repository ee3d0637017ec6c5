//===- Warp.cpp - Divergent paths of a warp -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes the instructions of a warp. Lanes that diverge at a branch run one
// path after the other, and converge at the branch's immediate post-dominator.
// Before that point a path may reach an instruction that all lanes must execute
// together. Then the other paths run until they reach this instruction too.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Warp.h"

namespace heddle::emulator {

/// Ends the current path, and continues with the previous path on the stack.
void Warp::resumePath() {
  Path path = paths.back();
  paths.pop_back();
  pc = path.pc;
  reconverge = path.reconverge;
  active = path.mask & live;
}

void Warp::run(const Program &program, uint64_t most) {
  const Op *ops = program.ops.data();
  uint64_t *executed = worker->executed.data();
  for (; state == Running && most > 0; --most) {
    while (!active || pc == reconverge) {
      if (paths.empty()) {
        state = Done;
        return;
      }
      resumePath();
    }
    current = pc++;
    const Op &op = ops[current];
    mask = active;
    if (op.guard != noRow) {
      uint32_t values = *reinterpret_cast<uint32_t *>(registers + op.guard);
      mask &= op.guardNegated ? ~values : values;
      if (!mask)
        continue;
    }
    ++executed[current];
    op.run(*this, op);
  }
}

void Warp::branch(int32_t target, int32_t meet) {
  uint32_t taken = mask, others = active & ~mask;
  if (!others) {
    pc = target;
    return;
  }
  if (meet != noPc && meet != reconverge)
    paths.push_back({meet, reconverge, active});
  if (meet != noPc)
    reconverge = meet;
  // Lanes that branch to the convergence point need no path of their own,
  // because they only wait there.
  if (target == meet) {
    active = others;
    return;
  }
  if (pc == meet) {
    active = taken;
    pc = target;
    return;
  }
  paths.push_back({target, reconverge, taken});
  active = others;
}

void Warp::branchTo(const std::map<int32_t, uint32_t> &lanesTo, int32_t meet) {
  uint32_t others = active & ~mask;
  if (lanesTo.size() == 1 && !others) {
    pc = lanesTo.begin()->first;
    return;
  }
  if (meet != noPc && meet != reconverge)
    paths.push_back({meet, reconverge, active});
  if (meet != noPc)
    reconverge = meet;
  // Lanes that continue at the convergence point need no path of their own,
  // because they only wait there.
  if (others && pc != meet)
    paths.push_back({pc, reconverge, others});
  for (auto [target, lanes] : lanesTo)
    if (target != meet)
      paths.push_back({target, reconverge, lanes});
  resumePath();
}

void Warp::exitLanes() {
  live &= ~mask;
  active &= ~mask;
}

bool Warp::converge(uint32_t wanted) {
  uint32_t missing = wanted & live & ~mask;
  if (!missing || (missing & active))
    return true;
  auto isSibling = [&](const Path &path) {
    return path.reconverge == reconverge && (path.mask & live);
  };
  for (auto path = paths.rbegin(); path != paths.rend() && isSibling(*path);
       ++path) {
    if (path->isParked)
      continue;
    std::swap(*path, paths.back());
    Path other = paths.back();
    paths.back() = {current, reconverge, active, /*isParked=*/true};
    pc = other.pc;
    active = other.mask & live;
    return false;
  }
  bool merged = false;
  while (!paths.empty() && isSibling(paths.back()) && paths.back().isParked &&
         paths.back().pc == current) {
    active |= paths.back().mask & live;
    paths.pop_back();
    merged = true;
  }
  if (merged)
    pc = current;
  return !merged;
}

bool Warp::letSiblingRun() {
  if (rotatedAt != cluster->events)
    rotations = 0;
  rotatedAt = cluster->events;
  for (auto path = paths.rbegin();
       path != paths.rend() && path->reconverge == reconverge; ++path) {
    if (path->isParked || !(path->mask & live) || rotations > paths.size())
      continue;
    ++rotations;
    std::swap(*path, paths.back());
    Path other = paths.back();
    paths.back() = {pc, reconverge, active};
    pc = other.pc;
    active = other.mask & live;
    return true;
  }
  return false;
}

bool Warp::retryLater() {
  pc = current;
  // The event that the warp waits for may depend on lanes on another path, so
  // let these run.
  if (letSiblingRun())
    return true;
  state = Waiting;
  seen = cluster->events;
  return false;
}

std::string describeThreads(const Warp &warp, uint32_t lanes) {
  std::string result;
  for (int lane = 0; lane < warpSize; ++lane) {
    if (!(lanes >> lane & 1))
      continue;
    int last = lane;
    while (last + 1 < warpSize && (lanes >> (last + 1) & 1))
      ++last;
    result += (result.empty() ? "" : ", ") + std::to_string(warp.thread(lane));
    if (last > lane)
      result += "-" + std::to_string(warp.thread(last));
    lane = last;
  }
  bool isOne = __builtin_popcount(lanes) == 1;
  return (isOne ? "thread " : "threads ") + result;
}

} // namespace heddle::emulator
