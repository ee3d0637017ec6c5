//===- ParallelRegion.cpp - What threads do one after another -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ParallelRegion.h"
#include "heddle/PlanFormat/Plan.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// One of the threads that work, with the count of what all have taken of a
/// piece: see KernelFunction.
struct WorkingThread {
  int64_t thread, threads;
  int64_t *taken;
};

/// In a line of its own, which all threads write.
struct alignas(64) TakenCount {
  int64_t count = 0;
};

struct RunningRegion {
  ThreadPool &pool;
  const CpuWork *works;
  size_t count;
  /// Of pieces by turns: while one is done, that of the next is set to 0.
  mutable TakenCount taken[2];
};

} // namespace

static bool isSmall(const CpuWork &work) {
  if (const auto *kernel = std::get_if<KernelWork>(&work))
    return kernel->isSmall;
  return std::holds_alternative<RowsWork>(work);
}

/// Moves the part of one thread: whole cache lines.
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

/// What one thread does. The results of small pieces do not depend on the
/// threads.
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
