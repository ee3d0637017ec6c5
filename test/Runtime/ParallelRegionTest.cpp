//===- ParallelRegionTest.cpp - Tests of parallel regions -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ParallelRegion.h"

#include <atomic>
#include <gtest/gtest.h>
#include <numeric>

using namespace heddle;
using namespace heddle::rt;

namespace {

constexpr int64_t mostThreads = 4;

/// What the kernels of these tests see and do.
struct Seen {
  std::atomic<int64_t> calls[mostThreads] = {};
  std::atomic<int64_t> wrong{0}; ///< Something was not as it should be.
  std::atomic<int64_t> pieces{0};
};

/// Is called as the `scalars[0]`th, by `scalars[1]` threads: all calls of those
/// before have returned, and nobody has taken anything yet.
void count(void *const *refs, const int64_t *scalars, int64_t thread,
           int64_t threads, void *scratch, int64_t *taken) {
  auto &seen = *static_cast<Seen *>(refs[0]);
  int64_t before = scalars[2];
  int64_t calls = 0;
  for (std::atomic<int64_t> &of : seen.calls)
    calls += of;
  seen.wrong += threads != scalars[1];
  seen.wrong += calls < before || calls >= before + threads;
  seen.wrong += scratch != static_cast<char *>(refs[1]) + 8 * thread;
  // Each thread takes one of as many pieces, and sees that there are no more.
  seen.wrong += __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED) >= threads;
  ++seen.pieces;
  ++seen.calls[thread];
}

} // namespace

/// Large kernels, small ones alone and side by side, first and last.
TEST(ParallelRegion, ThreadsWaitForEachOtherBetweenPieces) {
  for (int64_t threads : {1, 2, 3, 4})
    for (const char *kinds : {"lsllsslsl", "sls", "llll", "ss", "l", "s", ""}) {
      ThreadPool pool(threads);
      Seen seen;
      char scratch[8 * mostThreads];
      void *refs[] = {&seen, scratch};
      std::vector<std::array<int64_t, 3>> scalars;
      std::vector<CpuWork> works;
      int64_t calls = 0;
      for (const char *kind = kinds; *kind; ++kind) {
        int64_t callers = *kind == 's' ? 1 : threads;
        scalars.push_back({int64_t(works.size()), callers, calls});
        works.push_back({});
        calls += callers;
      }
      for (size_t i = 0; i < works.size(); ++i)
        works[i] = KernelWork{count, kinds[i] == 's', refs, scalars[i].data(),
                              Scratch{scratch, 8}};
      for (int run = 0; run < 200; ++run) {
        for (std::atomic<int64_t> &of : seen.calls)
          of = 0;
        runRegion(pool, works.data(), works.size());
      }
      EXPECT_EQ(seen.pieces, 200 * calls) << threads << " " << kinds;
      EXPECT_EQ(seen.wrong, 0) << threads << " " << kinds;
    }
}

/// What one piece has moved the next one reads.
TEST(ParallelRegion, MovesBytes) {
  for (int64_t bytes : {1, 63, 64, 1000, 4096}) {
    ThreadPool pool(3);
    std::vector<char> first(bytes + 1), second(bytes + 1), third(bytes + 1);
    std::iota(first.begin(), first.end(), char(1));
    char guard = third[bytes] = second[bytes] = 77;
    int32_t ids[] = {1, 0};
    std::vector<char> rows(2);
    std::vector<CpuWork> works = {
        MoveWork{second.data(), first.data(), 0, bytes},
        MoveWork{third.data(), nullptr, 5, bytes},
        MoveWork{third.data(), second.data(), 0, bytes},
        MoveWork{first.data(), nullptr, 9, bytes},
        RowsWork{rows.data(), third.data(), {1, bytes, ids, 2}}};
    runRegion(pool, works.data(), works.size());
    for (int64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(first[i], 9) << bytes;
      ASSERT_EQ(second[i], char(i + 1)) << bytes;
      ASSERT_EQ(third[i], char(i + 1)) << bytes;
    }
    EXPECT_EQ(second[bytes], guard);
    EXPECT_EQ(third[bytes], guard);
    EXPECT_EQ(rows[0], bytes > 1 ? 2 : char(io::RowChoice::noRow));
    EXPECT_EQ(rows[1], 1);
  }
}
