//===- ParallelRegion.cpp - Work of all threads together ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a list of kernels and copies. All threads share the work of each item,
// and meet at a barrier after it.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ParallelRegion.h"
#include "heddle/PlanFormat/Plan.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// The index of a thread, and the counter by which threads share the work of a
/// kernel. A thread increments the counter to claim the next chunk of the work
/// (see KernelFunction).
struct WorkingThread {
  int64_t thread, threads;
  int64_t *taken;
};

/// The number of chunks of a kernel's work that threads have claimed. The
/// counter has its own cache line, since all threads write it.
struct alignas(64) TakenCount {
  int64_t count = 0;
};

struct RunningRegion {
  ThreadPool &pool;
  const CpuWork *works;
  size_t count;
  /// Consecutive items of `works` alternate between these two counters. While
  /// the threads use one counter, thread 0 resets the other one for the next
  /// item.
  mutable TakenCount taken[2];
};

} // namespace

static bool isSmall(const CpuWork &work) {
  if (const auto *kernel = std::get_if<KernelWork>(&work))
    return kernel->isSmall;
  return std::holds_alternative<RowsWork>(work);
}

/// Copies or fills the bytes that this thread handles, which are whole cache
/// lines.
static void move(const MoveWork &work, const WorkingThread &self) {
  constexpr int64_t line = 64;
  int64_t share = (work.bytes + self.threads - 1) / self.threads;
  share = (share + line - 1) / line * line;
  int64_t begin = std::min(work.bytes, self.thread * share);
  int64_t bytes = std::min(work.bytes, begin + share) - begin;
  if (work.source)
    memmove(work.target + begin, work.source + begin, bytes);
  else
    memset(work.target + begin, work.value, bytes);
}

static void perform(const CpuWork &work, const WorkingThread &self) {
  std::visit(plan::Overloads{[&](const KernelWork &kernel) {
                               const Scratch &scratch = kernel.scratch;
                               kernel.function(kernel.refs, kernel.scalars,
                                               self.thread, self.threads,
                                               scratch.base +
                                                   self.thread * scratch.stride,
                                               self.taken);
                             },
                             [&](const MoveWork &bytes) { move(bytes, self); },
                             [](const RowsWork &rows) {
                               rows.rows.gather(rows.target, rows.source);
                             }},
             work);
}

/// Runs on each thread: performs the thread's share of each item of a region.
/// Thread 0 performs small items alone. This changes no results, because they
/// do not depend on the number of threads.
static void work(const void *context, int64_t thread, int64_t threads) {
  const auto &region = *static_cast<const RunningRegion *>(context);
  int turn = 0;
  for (size_t i = 0; i < region.count; ++i) {
    const CpuWork &piece = region.works[i];
    bool alone = isSmall(piece);
    if (thread == 0)
      region.taken[1 - turn].count = 0;
    int64_t none = 0;
    if (!alone)
      perform(piece, {thread, threads, &region.taken[turn].count});
    else if (thread == 0)
      perform(piece, {0, 1, &none});
    bool isLast = i + 1 == region.count;
    if (isLast || (alone && isSmall(region.works[i + 1])))
      continue;
    region.pool.barrier();
    turn = 1 - turn;
  }
}

void heddle::rt::runRegion(ThreadPool &pool, const CpuWork *works,
                           size_t count) {
  RunningRegion region = {pool, works, count, {}};
  if (std::all_of(works, works + count, isSmall))
    return work(&region, 0, 1);
  pool.run(work, &region);
}
