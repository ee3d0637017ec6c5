//===- GlobalWritesTest.cpp - Proxy fences for global memory --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/GlobalWrites.h"
#include "PtxRun.h"
#include "gtest/gtest.h"

#include <random>

using namespace heddle::test;
using heddle::emulator::Checks;
using heddle::emulator::GlobalWrites;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Two warps store to buffer 1, and a bulk copy loads that to shared memory.
const std::string storeAndLoad = R"(
    mov.u32 %r1, memory; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p3, %r0, 32;
    @%p1 mbarrier.init.shared::cta.b64 [%r1+256], 1;
    fence.mbarrier_init.release.cluster;
    mad.wide.u32 %rd2, %r0, 4, %rd1; mul.lo.u32 %r2, %r0, 5;
    st.global.u32 [%rd2], %r2;
    fence.proxy.async.global;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+256], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r1+256];
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1+256], 0;
    @!%p2 bra wait;
    mad.lo.u32 %r3, %r0, 4, %r1; ld.shared.u32 %r4, [%r3];
    mad.wide.u32 %rd3, %r0, 4, %rd0; st.global.u32 [%rd3], %r4;
)";

/// Two warps store to buffer 1, and a bulk copy stores 5 times the thread's
/// number there.
const std::string storeTwice = R"(
    mov.u32 %r1, memory; setp.eq.u32 %p1, %r0, 0; mul.lo.u32 %r2, %r0, 5;
    mad.lo.u32 %r3, %r0, 4, %r1; st.shared.u32 [%r3], %r2;
    mad.wide.u32 %rd2, %r0, 4, %rd0; st.global.u32 [%rd2], %r0;
    fence.proxy.async;
    bar.sync 0;
    @!%p1 bra end;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  end:
)";

std::string runOn(const std::string &body, Checks checks = Checks::Full) {
  PtxRun run;
  run.text = hopper(kernel(2, body, 264));
  run.block = {64, 1, 1};
  run.options.checks = checks;
  std::vector<uint32_t> out(64), between(65);
  std::string wrong = run.run(out, between);
  if (wrong.empty())
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(out[i], 5 * i);
  return wrong;
}

TEST(PtxGlobalFence, StoresPassOneBeforeBulkLoads) {
  const std::string fence = "fence.proxy.async.global;", meet = "bar.sync 0;";
  auto wrong = [&](const std::string &from, const std::string &to) {
    return runOn(changed(storeAndLoad, from, to));
  };
  EXPECT_EQ(runOn(storeAndLoad), "");
  EXPECT_EQ(wrong(fence, "fence.proxy.async;"), "");
  // The warp that copies is ordered after all stores, and fences them.
  EXPECT_EQ(wrong(fence + "\n    " + meet, meet + fence), "");
  const std::string missing =
      "a bulk copy meets what warp 0 stored in global memory, without "
      "fence.proxy.async in between: byte 0 from the start of 'buffer 1'";
  for (const char *instead : {"", "fence.proxy.async.shared::cta;",
                              "fence.proxy.async.shared::cluster;"})
    EXPECT_TRUE(has(wrong(fence, instead), missing)) << instead;
  // Otherwise each warp has to execute a fence after its store.
  std::string found = wrong(fence, "@%p3 " + fence);
  EXPECT_TRUE(has(found, "what warp 1 stored") && has(found, ": byte 128 "))
      << found;
  std::string late = changed(storeAndLoad, "st.global.u32 [%rd2], %r2;");
  late = changed(late, fence, fence + "st.global.u32 [%rd2], %r2;");
  EXPECT_TRUE(has(runOn(late), missing));
  // Atomic operations count as stores.
  std::string atomic = changed(storeAndLoad, "st.global.u32 [%rd2], %r2;",
                               "red.global.add.u32 [%rd2], %r2;");
  EXPECT_EQ(runOn(atomic), "");
  EXPECT_TRUE(has(runOn(changed(atomic, fence)), missing));
  // Loads do not, not even volatile ones.
  EXPECT_EQ(wrong(meet, meet + "ld.volatile.global.u32 %r7, [%rd2];"), "");
  // The byte before and the byte after the end of the copied range.
  EXPECT_TRUE(has(wrong("bar.sync 0;", "bar.sync 0;\n@%p1 st.global.u8 "
                                       "[%rd1+255], %r0;"),
                  ": byte 255 from"));
  EXPECT_EQ(
      wrong("bar.sync 0;", "bar.sync 0;\n@%p1 st.global.u8 [%rd1+256], %r0;"),
      "");
}

TEST(PtxGlobalFence, LightChecksLeaveItOut) {
  EXPECT_EQ(
      runOn(changed(storeAndLoad, "fence.proxy.async.global;"), Checks::Light),
      "");
}

TEST(PtxGlobalFence, StoresPassOneBeforeBulkStores) {
  EXPECT_EQ(runOn(storeTwice), "");
  EXPECT_TRUE(has(runOn(changed(storeTwice, "fence.proxy.async;",
                                "fence.proxy.async.shared::cta;")),
                  "a bulk copy meets what warp 0 stored in global memory"));
  EXPECT_TRUE(has(runOn(changed(storeTwice, "fence.proxy.async;",
                                "fence.proxy.async.global;")),
                  "asynchronous read of byte 0 of shared memory"));
}

/// Compares with an array of bytes, for overlapping ranges.
TEST(PtxGlobalFence, TheLastWriteOfAByteCounts) {
  constexpr uint64_t size = 61;
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    GlobalWrites writes;
    int writers[size] = {}; // 1 + the warp; 0: no writer.
    for (int i = 0; i < 40; ++i) {
      uint64_t first = random() % size;
      uint64_t end = first + 1 + random() % (size - first);
      int warp = int(random() % 3);
      writes.add(first, {end, warp, /*time=*/1});
      std::fill(writers + first, writers + end, warp + 1);
      for (uint64_t at = 0; at < size; ++at)
        for (int refused = 0; refused < 3; ++refused) {
          const auto *found = writes.findRefused(
              at, at + 1, [&](const GlobalWrites::Write &made) {
                return made.warp != refused;
              });
          ASSERT_EQ(found != nullptr, writers[at] == refused + 1)
              << "byte " << at << ", write " << i << " of round " << round;
        }
    }
  }
}

} // namespace
