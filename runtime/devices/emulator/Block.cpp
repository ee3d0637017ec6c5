//===- Block.cpp - The scheduler of a block's fibers ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Block.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

namespace heddle::rt::emulator {

namespace {
thread_local BlockRunner *active = nullptr;

std::string text(Dim3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " +
         std::to_string(at.z) + ")";
}
} // namespace

BlockRunner &BlockRunner::current() { return *active; }

BlockRunner::BlockRunner(const Launch &launch, void *const *refs,
                         const int64_t *scalars)
    : source(launch), refs(refs), scalars(scalars),
      workgroup(launch.workgroupBytes), fibers(launch.block.count()) {
  int64_t page = sysconf(_SC_PAGESIZE);
  // A guard page below each stack turns an overflow into a fault.
  stackStride = (launch.stackBytes + page - 1) / page * page + page;
  void *mapped =
      mmap(nullptr, stackStride * fibers.size(), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    error = "no memory for the stacks of " + std::to_string(fibers.size()) +
            " threads";
    return;
  }
  stacks = static_cast<char *>(mapped);
  for (size_t i = 0; i < fibers.size(); ++i)
    mprotect(stacks + i * stackStride, page, PROT_NONE);
}

BlockRunner::~BlockRunner() {
  if (stacks)
    munmap(stacks, stackStride * fibers.size());
}

void BlockRunner::enter() {
  BlockRunner &self = *active;
  self.source.kernel(self.refs, self.scalars);
  self.running->state = Fiber::Done;
  // The end of this function goes on at `uc_link`, the scheduler.
}

void BlockRunner::start(Fiber &fiber) {
  fiber.index = &fiber - fibers.data();
  fiber.state = Fiber::Ready;
  fiber.groups.clear();
  fiber.open.clear();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stacks + fiber.index * stackStride;
  fiber.context.uc_stack.ss_size = stackStride;
  fiber.context.uc_link = &scheduler;
  makecontext(&fiber.context, &BlockRunner::enter, 0);
}

void BlockRunner::resume(Fiber &fiber) {
  running = &fiber;
  swapcontext(&scheduler, &fiber.context);
  running = nullptr;
}

void BlockRunner::park(Fiber::State state, int64_t site) {
  running->state = state;
  running->site = site;
  swapcontext(&running->context, &scheduler);
}

void BlockRunner::fault(int64_t site, std::string message) {
  error = std::move(message);
  if (site >= 0 && site < static_cast<int64_t>(source.sites.size()))
    error += " at " + source.sites[site];
  // The stack of this fiber, like those of the others, is never entered again.
  setcontext(&scheduler);
}

std::string BlockRunner::describe(const Fiber &fiber) const {
  if (fiber.state == Fiber::Done)
    return "has returned";
  std::string at = fiber.site < static_cast<int64_t>(source.sites.size())
                       ? source.sites[fiber.site]
                       : "site " + std::to_string(fiber.site);
  return "waits at " + at;
}

/// Executes what whole warps have met at; false when none moved.
bool BlockRunner::releaseWarps() {
  bool moved = false;
  for (size_t first = 0; first + warpSize <= fibers.size(); first += warpSize) {
    Fiber *warp = &fibers[first];
    Fiber *end = warp + warpSize;
    if (!std::all_of(warp, end, [](const Fiber &lane) {
          return lane.state == Fiber::AtWarpOp;
        }))
      continue;
    Fiber *other = std::find_if(
        warp, end, [&](const Fiber &lane) { return lane.site != warp->site; });
    if (other != end) {
      error = "the lanes of a warp diverge: thread " +
              std::to_string(warp->index) + " " + describe(*warp) +
              ", thread " + std::to_string(other->index) + " " +
              describe(*other);
      return false;
    }
    error = executeWarpOp(warp, workgroup);
    if (!error.empty()) {
      error += " (" + describe(*warp) + ")";
      return false;
    }
    for (Fiber *lane = warp; lane != end; ++lane)
      lane->state = Fiber::Ready;
    moved = true;
  }
  return moved;
}

/// Lets the block pass a barrier that all its threads have reached.
bool BlockRunner::releaseBarrier() {
  if (!std::all_of(fibers.begin(), fibers.end(), [](const Fiber &fiber) {
        return fiber.state == Fiber::AtBarrier;
      }))
    return false;
  auto other =
      std::find_if(fibers.begin(), fibers.end(), [&](const Fiber &fiber) {
        return fiber.site != fibers.front().site;
      });
  if (other != fibers.end()) {
    error = "divergent barrier: thread 0 " + describe(fibers.front()) +
            ", thread " + std::to_string(other->index) + " " + describe(*other);
    return false;
  }
  workgroup.nextEpoch();
  for (Fiber &fiber : fibers)
    fiber.state = Fiber::Ready;
  return true;
}

std::string BlockRunner::describeDeadlock() const {
  auto waiting =
      std::find_if(fibers.begin(), fibers.end(), [](const Fiber &fiber) {
        return fiber.state != Fiber::Done;
      });
  auto together =
      std::count_if(fibers.begin(), fibers.end(), [&](const Fiber &fiber) {
        return fiber.state == waiting->state && fiber.site == waiting->site;
      });
  auto other =
      std::find_if(fibers.begin(), fibers.end(), [&](const Fiber &fiber) {
        return fiber.state != waiting->state || fiber.site != waiting->site;
      });
  std::string kind = waiting->state == Fiber::AtBarrier
                         ? "divergent barrier: "
                         : "incomplete operation of a warp: ";
  std::string result = kind + std::to_string(together) + " of " +
                       std::to_string(fibers.size()) + " threads (first " +
                       std::to_string(waiting->index) + ") " +
                       describe(*waiting).replace(0, 5, "wait");
  if (other != fibers.end())
    result +=
        ", thread " + std::to_string(other->index) + " " + describe(*other);
  return result;
}

std::string BlockRunner::run(Dim3 at) {
  if (!error.empty())
    return error;
  active = this;
  block = at;
  workgroup.reset();
  for (Fiber &fiber : fibers)
    start(fiber);
  for (bool moved = true; moved && error.empty();) {
    moved = false;
    for (Fiber &fiber : fibers) {
      if (fiber.state != Fiber::Ready)
        continue;
      resume(fiber);
      moved = true;
      if (!error.empty())
        break;
    }
    if (error.empty())
      moved |= releaseWarps();
    if (error.empty())
      moved |= releaseBarrier();
  }
  bool done = std::all_of(fibers.begin(), fibers.end(), [](const Fiber &f) {
    return f.state == Fiber::Done;
  });
  if (error.empty() && !done)
    error = describeDeadlock();
  active = nullptr;
  return error.empty() ? error : "block " + text(block) + ": " + error;
}

std::string run(const Launch &launch, void *const *refs,
                const int64_t *scalars) {
  BlockRunner runner(launch, refs, scalars);
  for (int64_t z = 0; z < launch.grid.z; ++z)
    for (int64_t y = 0; y < launch.grid.y; ++y)
      for (int64_t x = 0; x < launch.grid.x; ++x) {
        std::string fault = runner.run({x, y, z});
        if (!fault.empty())
          return fault;
      }
  return {};
}

} // namespace heddle::rt::emulator
