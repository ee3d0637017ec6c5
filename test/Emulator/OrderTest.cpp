//===- OrderTest.cpp - Orders of blocks and warps -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace heddle::test;

namespace {

using Numbers = std::vector<uint32_t>;

/// The tickets that `body` takes from the counter at %rd1 and stores in buffer
/// 0.
Numbers tickets(const std::string &body, int64_t blocks, int64_t threads,
                size_t count, std::optional<uint64_t> order) {
  PtxRun run;
  run.grid = {blocks, 1, 1};
  run.block = {threads, 1, 1};
  run.options.order = order;
  run.options.threads = 1;
  run.text = kernel(2, body);
  Numbers a(count), b(1);
  EXPECT_EQ(run.run(a, b), "");
  return a;
}

Numbers inOrder(size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(PtxOrder, OfBlocks) {
  const char *body = "mov.u32 %r1, %ctaid.x;\n"
                     "mad.wide.u32 %rd2, %r1, 4, %rd0;\n"
                     "atom.global.add.u32 %r2, [%rd1], 1;\n"
                     "st.global.u32 [%rd2], %r2;\n";
  auto drawn = [&](std::optional<uint64_t> order) {
    return tickets(body, 37, 1, 37, order);
  };
  EXPECT_EQ(drawn(std::nullopt), inOrder(37));
  std::set<Numbers> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(sorted(drawn(seed)), inOrder(37));
    EXPECT_EQ(drawn(seed), drawn(seed));
    orders.insert(drawn(seed));
  }
  EXPECT_EQ(orders.size(), 10u);
}

TEST(PtxOrder, OfWarps) {
  // The first thread of each warp takes five tickets, one after the other.
  const char *body = "mov.u32 %r1, %tid.x;\n"
                     "and.b32 %r2, %r1, 31;\n"
                     "setp.ne.u32 %p1, %r2, 0;\n"
                     "@%p1 bra END;\n"
                     "shr.u32 %r2, %r1, 5;\n"
                     "mad.wide.u32 %rd2, %r2, 20, %rd0;\n"
                     "mov.u32 %r4, 0;\n"
                     "NEXT: atom.global.add.u32 %r3, [%rd1], 1;\n"
                     "st.global.u32 [%rd2], %r3;\n"
                     "add.u64 %rd2, %rd2, 4;\n"
                     "add.u32 %r4, %r4, 1;\n"
                     "setp.lt.u32 %p1, %r4, 5;\n"
                     "@%p1 bra NEXT;\n"
                     "END: ret;\n";
  auto drawn = [&](std::optional<uint64_t> order) {
    return tickets(body, 1, 7 * 32, 35, order);
  };
  EXPECT_EQ(drawn(std::nullopt), inOrder(35));
  std::set<Numbers> orders;
  bool isInterleaved = false;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Numbers numbers = drawn(seed);
    EXPECT_EQ(sorted(numbers), inOrder(35));
    EXPECT_EQ(numbers, drawn(seed));
    orders.insert(numbers);
    for (size_t warp = 0; warp < 7; ++warp)
      isInterleaved |= numbers[5 * warp + 4] != numbers[5 * warp] + 4;
  }
  EXPECT_EQ(orders.size(), 10u);
  EXPECT_TRUE(isInterleaved);
}

TEST(PtxOrder, BarriersHoldInEvery) {
  // Each thread reads what a thread of another warp wrote before the barrier.
  const char *body = "mov.u32 %r1, %tid.x;\n"
                     "mad.wide.u32 %rd2, %r1, 4, %rd0;\n"
                     "add.u32 %r2, %r1, 7;\n"
                     "st.volatile.global.u32 [%rd2], %r2;\n"
                     "bar.sync 0;\n"
                     "add.u32 %r3, %r1, 65;\n"
                     "rem.u32 %r3, %r3, 160;\n"
                     "mad.wide.u32 %rd3, %r3, 4, %rd0;\n"
                     "ld.volatile.global.u32 %r4, [%rd3];\n"
                     "st.global.u32 [%rd2+640], %r4;\n";
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Numbers numbers = tickets(body, 1, 160, 320, seed);
    for (uint32_t i = 0; i < 160; ++i)
      EXPECT_EQ(numbers[160 + i], (i + 65) % 160 + 7);
  }
}

} // namespace
