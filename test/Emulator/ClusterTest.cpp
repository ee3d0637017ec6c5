//===- ClusterTest.cpp - Clusters of blocks in the PTX machine ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "heddle/emulator/ptx/TensorMap.h"
#include "gtest/gtest.h"

#include <numeric>

using namespace heddle::test;
using heddle::emulator::TensorMap;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A kernel for sm_90a on a cluster of `blocks` blocks; %r1 is the block's
/// number, %r2 the address of its shared memory.
PtxRun clusterRun(const std::string &body, int64_t blocks, int64_t clusters = 2,
                  int64_t sharedBytes = 256, int parameters = 1) {
  PtxRun run;
  run.text = hopper(kernel(parameters,
                           "mov.u32 %r1, %cluster_ctarank;\n"
                           "mov.u32 %r2, memory;\n" +
                               body,
                           sharedBytes));
  run.grid = {blocks * clusters, 1, 1};
  run.cluster = Dim3{blocks, 1, 1};
  return run;
}

const std::string meet = "barrier.cluster.arrive; barrier.cluster.wait;\n";

//===----------------------------------------------------------------------===//
// Identity of a block
//===----------------------------------------------------------------------===//

TEST(PtxCluster, SpecialRegisters) {
  static const char *const names[] = {
      "%ctaid.x",          "%ctaid.y",          "%ctaid.z",
      "%clusterid.x",      "%clusterid.y",      "%clusterid.z",
      "%nclusterid.x",     "%nclusterid.y",     "%nclusterid.z",
      "%cluster_ctaid.x",  "%cluster_ctaid.y",  "%cluster_ctaid.z",
      "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z",
      "%cluster_ctarank",  "%cluster_nctarank"};
  constexpr int count = 17;
  std::string body = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y;\n"
                     "mov.u32 %r3, %ctaid.z; mad.lo.u32 %r2, %r3, 4, %r2;\n"
                     "mad.lo.u32 %r1, %r2, 6, %r1;\n"
                     "mad.wide.u32 %rd1, %r1, 72, %rd0;\n";
  for (int i = 0; i < count; ++i)
    body += "mov.u32 %r4, " + std::string(names[i]) + "; st.global.u32 [%rd1+" +
            std::to_string(4 * i) + "], %r4;\n";
  body += "mov.pred %p1, %is_explicit_cluster; selp.u32 %r4, 1, 0, %p1;\n"
          "st.global.u32 [%rd1+68], %r4;";
  PtxRun run;
  run.text = hopper(kernel(1, body));
  run.grid = {6, 4, 3};
  run.block = {1, 1, 1};
  run.cluster = Dim3{3, 2, 1};
  std::vector<uint32_t> out(6 * 4 * 3 * (count + 1));
  ASSERT_EQ(run.run(out), "");
  for (uint32_t z = 0; z < 3; ++z)
    for (uint32_t y = 0; y < 4; ++y)
      for (uint32_t x = 0; x < 6; ++x) {
        std::vector<uint32_t> expected = {
            x, y,     z,     x / 3, y / 2, z, 2, 2,
            3, x % 3, y % 2, 0,     3,     2, 1, x % 3 + y % 2 * 3,
            6, 1};
        auto first = out.begin() + (z * 24 + y * 6 + x) * (count + 1);
        EXPECT_EQ(std::vector<uint32_t>(first, first + count + 1), expected);
      }
}

TEST(PtxCluster, LaunchesThatCannotBe) {
  std::string text = hopper(kernel(1, "ret;"));
  auto wrong = [&](int64_t grid, std::optional<Dim3> cluster,
                   const std::string &directive = "") {
    PtxRun run;
    run.text = text;
    run.text.insert(run.text.find(")\n") + 1, " " + directive);
    run.grid = {grid, 1, 1};
    run.cluster = cluster;
    std::vector<uint32_t> out(1);
    return run.run(out);
  };
  EXPECT_EQ(wrong(32, Dim3{16, 1, 1}), "");
  EXPECT_TRUE(has(wrong(32, Dim3{32, 1, 1}), "at most 16 can be"));
  EXPECT_TRUE(has(wrong(7, Dim3{2, 1, 1}),
                  "a grid of 7x1x1 blocks is no multiple of a cluster of "
                  "2x1x1"));
  EXPECT_TRUE(has(wrong(4, Dim3{0, 1, 1}), "a cluster without blocks"));
  const char *stated = ".reqnctapercluster 2, 1, 1";
  EXPECT_EQ(wrong(4, std::nullopt, stated), "");
  EXPECT_EQ(wrong(4, Dim3{2, 1, 1}, stated), "");
  EXPECT_TRUE(has(wrong(3, std::nullopt, stated), "no multiple"));
  EXPECT_TRUE(has(wrong(4, Dim3{4, 1, 1}, stated), "not that of the kernel"));
  EXPECT_TRUE(
      has(wrong(4, Dim3{4, 1, 1}, ".maxclusterrank 2"), "at most 2 can be"));
  EXPECT_TRUE(has(wrong(4, std::nullopt, ".explicitcluster"),
                  "has to state the blocks of a cluster"));
  EXPECT_TRUE(
      has(wrong(4, std::nullopt, ".maxclusterrank 2 .reqnctapercluster 2"),
          "both .reqnctapercluster and .maxclusterrank"));
  text = kernel(1, "ret;");
  EXPECT_TRUE(has(wrong(4, Dim3{2, 1, 1}), "at most 1 can be")); // sm_80
}

//===----------------------------------------------------------------------===//
// Shared memory of other blocks
//===----------------------------------------------------------------------===//

/// Each thread writes to the memory of the next block, and reads what the
/// previous block wrote: 16 bytes by a generic address, atomically, or by plain
/// stores.
std::string ring(const std::string &write, int blocks) {
  std::string next = std::to_string(blocks);
  return "add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, " + next +
         ";\n"
         "mad.lo.u32 %r4, %r0, 4, %r2; mov.u32 %r5, %ctaid.x;\n"
         "mad.lo.u32 %r6, %r5, 1000, %r0;\n"
         "mov.u32 %r7, 0; st.shared.u32 [%r4], %r7;\n" +
         meet + write + meet +
         "ld.shared.u32 %r8, [%r4]; mad.lo.u32 %r9, %r5, 32, %r0;\n"
         "mad.wide.u32 %rd1, %r9, 4, %rd0; st.global.u32 [%rd1], %r8;\n";
}

const std::string plainWrite = "mapa.shared::cluster.u32 %r10, %r4, %r3;\n"
                               "st.shared::cluster.u32 [%r10], %r6;\n";

void expectRing(PtxRun run, int64_t blocks, const std::string &what) {
  std::vector<uint32_t> out(static_cast<size_t>(run.grid.x) * 32);
  ASSERT_EQ(run.run(out), "") << what;
  for (int64_t block = 0; block < run.grid.x; ++block)
    for (int64_t thread = 0; thread < 32; ++thread) {
      int64_t first = block / blocks * blocks;
      int64_t from = first + (block - first + blocks - 1) % blocks;
      EXPECT_EQ(out[size_t(block * 32 + thread)], from * 1000 + thread) << what;
    }
}

TEST(PtxCluster, WritesReachTheOtherBlock) {
  const std::string writes[] = {
      plainWrite,
      "cvt.u64.u32 %rd2, %r4; cvta.shared.u64 %rd2, %rd2;\n"
      "mapa.u64 %rd2, %rd2, %r3; st.u32 [%rd2], %r6;\n",
      "cvt.u64.u32 %rd2, %r4; mapa.shared::cluster.u64 %rd2, %rd2, %r3;\n"
      "atom.relaxed.cluster.shared::cluster.add.u32 %r11, [%rd2], %r6;\n",
      "mapa.shared::cluster.u32 %r10, %r4, %r3;\n"
      "red.shared::cluster.max.u32 [%r10], %r6;\n"};
  for (int64_t blocks : {1, 2, 3, 8, 16})
    for (const std::string &write : writes)
      for (uint64_t order = 0; order < 3; ++order) {
        PtxRun run = clusterRun(ring(write, int(blocks)), blocks);
        if (order)
          run.options.order = order;
        expectRing(run, blocks, std::to_string(blocks) + ": " + write);
      }
}

TEST(PtxCluster, ReadsOfTheOtherBlock) {
  // A block must not end while another one reads its memory.
  std::string body =
      "mad.lo.u32 %r3, %r0, 4, %r2;\n"
      "mad.lo.u32 %r4, %r1, 100, %r0; st.shared.u32 [%r3], %r4;\n" +
      meet +
      "xor.b32 %r5, %r1, 1;\n"
      "mapa.shared::cluster.u32 %r6, %r3, %r5;\n"
      "ld.shared::cluster.u32 %r7, [%r6];\n"
      "getctarank.shared::cluster.u32 %r8, %r6;\n"
      "mad.lo.u32 %r7, %r8, 10000, %r7;\n" +
      meet +
      "mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 32, %r0;\n"
      "mad.wide.u32 %rd1, %r9, 4, %rd0;\n"
      "st.global.u32 [%rd1], %r7;\n";
  std::vector<uint32_t> out(4 * 32);
  ASSERT_EQ(clusterRun(body, 2).run(out), "");
  for (uint32_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(out[i], (i / 32 % 2 ^ 1) * 10100 + i % 32);
  auto wrong = [&](const std::string &from, const std::string &to,
                   uint64_t order) {
    PtxRun run = clusterRun(changed(body, from, to), 2);
    run.options.order = order;
    return run.run(out);
  };
  // In some orders the other block still runs, in some it has ended.
  for (uint64_t order = 0; order < 8; ++order) {
    std::string last = "%r7;\n" + meet;
    EXPECT_TRUE(
        has(wrong(last, "%r7;\n", order), "has ended") ||
        has(wrong(last, "%r7;\n", order), "is done with its shared memory"))
        << wrong(last, "%r7;\n", order);
    EXPECT_TRUE(has(wrong(meet, "", order), "may not have started"));
    EXPECT_TRUE(has(wrong(meet,
                          "barrier.cluster.arrive.relaxed;"
                          "barrier.cluster.wait;\n",
                          order),
                    "races with a write by thread"));
    EXPECT_EQ(wrong(meet,
                    "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed;"
                    "barrier.cluster.wait.acquire;\n",
                    order),
              "");
  }
}

TEST(PtxCluster, RacesNameTheBlocks) {
  std::vector<uint32_t> out(4 * 32);
  std::string body = ring(plainWrite, 2);
  std::string wrong =
      clusterRun(changed(body, "st.shared::cluster.u32 [%r10], %r6;\n" + meet,
                         "st.shared::cluster.u32 [%r10], %r6;\n"
                         "barrier.cluster.arrive;\n"),
                 2)
          .run(out);
  EXPECT_TRUE(has(wrong, "races with a write by thread 0 of block") ||
              has(wrong, "ends, and does not know") ||
              has(wrong, "of the cluster, which has ended"))
      << wrong;
  wrong = clusterRun(changed(body, meet, "bar.sync 0;\n"), 2).run(out);
  EXPECT_TRUE(has(wrong, "access of shared memory of block 1 of the cluster, "
                         "which may not have started"))
      << wrong;
  wrong =
      clusterRun(changed(body, "st.shared::cluster", "st.shared"), 2).run(out);
  EXPECT_TRUE(has(wrong, "shared::cta is memory of the block itself, not of "
                         "block"))
      << wrong;
  wrong =
      clusterRun(changed(body, "%r10, %r4, %r3", "%r10, %r4, 2"), 2).run(out);
  EXPECT_TRUE(has(wrong, "block 2 of a cluster that has 2")) << wrong;
  wrong = clusterRun(changed(body, "mapa.shared::cluster.u32 %r10, %r4, %r3;",
                             "mapa.shared::cluster.u32 %r10, %r4, %r3;\n"
                             "add.u32 %r10, %r10, 256;"),
                     2)
              .run(out);
  EXPECT_TRUE(has(wrong, "outside of shared memory: byte 256 of 256")) << wrong;
}

TEST(PtxCluster, BarrierOfTheCluster) {
  std::vector<uint32_t> out(4 * 32);
  auto wrong = [&](const std::string &body) {
    return clusterRun(body, 2).run(out);
  };
  EXPECT_TRUE(has(wrong("barrier.cluster.arrive; barrier.cluster.arrive;"),
                  "arrives twice at the cluster's barrier"));
  EXPECT_TRUE(has(wrong("barrier.cluster.wait;"), "without an arrival"));
  // Threads that have exited do not count for the barrier; threads that do not
  // arrive do.
  EXPECT_EQ(wrong("setp.eq.u32 %p1, %r1, 0; @%p1 ret;\n" + meet), "");
  std::string late = "setp.eq.u32 %p1, %r1, 0; @%p1 bra end;\n" + meet +
                     "ret;\nend: bar.sync 1, 64;";
  EXPECT_TRUE(has(wrong(late), "waits for ever for the cluster"))
      << wrong(late);
  // Many phases: no block can be two phases ahead.
  std::string body = "mov.u32 %r3, 0; mov.u32 %r4, 0;\n"
                     "mad.lo.u32 %r5, %r0, 4, %r2; st.shared.u32 [%r5], %r4;\n"
                     "xor.b32 %r6, %r1, 1;\n"
                     "mapa.shared::cluster.u32 %r7, %r5, %r6;\n"
                     "again:\n" +
                     meet + "ld.shared::cluster.u32 %r8, [%r7];\n" + meet +
                     "add.u32 %r8, %r8, %r1; add.u32 %r8, %r8, 1;\n"
                     "st.shared.u32 [%r5], %r8; add.u32 %r3, %r3, 1;\n"
                     "setp.lt.u32 %p1, %r3, 5; @%p1 bra again;\n" +
                     "mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 32, %r0;\n"
                     "mad.wide.u32 %rd1, %r9, 4, %rd0;\n"
                     "st.global.u32 [%rd1], %r8;\n";
  for (uint64_t order = 0; order < 5; ++order) {
    PtxRun run = clusterRun(body, 2);
    run.options.order = order;
    ASSERT_EQ(run.run(out), "");
    uint32_t a = 0, b = 0;
    for (int i = 0; i < 5; ++i) {
      uint32_t next = b + 1;
      b = a + 2;
      a = next;
    }
    EXPECT_EQ(out[0], a);
    EXPECT_EQ(out[32], b);
  }
}

/// Data that blocks of a cluster exchange in global memory.
TEST(PtxCluster, GlobalMemoryHasRacesToo) {
  std::string body = "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, 32, %r0;\n"
                     "mad.wide.u32 %rd1, %r4, 4, %rd0;\n"
                     "st.global.u32 [%rd1], %r4;\n" +
                     meet +
                     "xor.b32 %r5, %r3, 1; mad.lo.u32 %r5, %r5, 32, %r0;\n"
                     "mad.wide.u32 %rd2, %r5, 4, %rd0;\n"
                     "ld.global.u32 %r6, [%rd2];\n";
  std::vector<uint32_t> out(6 * 32);
  EXPECT_EQ(clusterRun(body, 2, 3).run(out), "");
  std::string wrong = clusterRun(changed(body, meet), 2, 3).run(out);
  EXPECT_TRUE(has(wrong, "race between blocks")) << wrong;
  // The cluster's barrier does not order another cluster.
  wrong = clusterRun(changed(body, "xor.b32 %r5, %r3, 1",
                             "add.u32 %r5, %r3, 2; rem.u32 %r5, %r5, 6"),
                     2, 3)
              .run(out);
  EXPECT_TRUE(has(wrong, "race between blocks")) << wrong;
}

//===----------------------------------------------------------------------===//
// mbarrier of another block
//===----------------------------------------------------------------------===//

/// Block 1 writes to block 0, and tells it by an arrival.
const std::string tell = R"(
    mad.lo.u32 %r3, %r0, 4, %r2;
    setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r1, 1;
    @%p1 mbarrier.init.shared::cta.b64 [%r2+128], 32;
    barrier.cluster.arrive; barrier.cluster.wait;
    @%p2 bra second;
  wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r2+128], 0;
    @!%p3 bra wait;
    ld.shared.u32 %r4, [%r3];
    mov.u32 %r5, %ctaid.x; mad.lo.u32 %r5, %r5, 16, %r0;
    mad.wide.u32 %rd1, %r5, 4, %rd0; st.global.u32 [%rd1], %r4;
    bra end;
  second:
    mapa.shared::cluster.u32 %r6, %r3, 0; mapa.shared::cluster.u32 %r7, %r2, 0;
    mul.lo.u32 %r8, %r0, 7; st.shared::cluster.u32 [%r6], %r8;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7+128];
  end:
)";

TEST(PtxCluster, ArrivalsReachTheOtherBlock) {
  std::vector<uint32_t> out(64);
  auto wrong = [&](const std::string &body, uint64_t order) {
    PtxRun run = clusterRun(body, 2);
    run.options.order = order;
    return run.run(out);
  };
  for (uint64_t order = 0; order < 4; ++order) {
    ASSERT_EQ(wrong(tell, order), "");
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(out[i], 7 * (i % 32));
    EXPECT_TRUE(
        has(wrong(changed(tell, "[%r2+128], 32", "[%r2+128], 33"), order),
            "waits for ever"));
    EXPECT_TRUE(
        has(wrong(changed(tell, "@!%p3 bra wait;"), order),
            "races with a write by thread") ||
        has(wrong(changed(tell, "@!%p3 bra wait;"), order),
            "which nobody has written") ||
        has(wrong(changed(tell, "@!%p3 bra wait;"), order), "which has ended"));
    EXPECT_TRUE(has(wrong(changed(tell, "_, [%r7+128]", "_, [%r7+136]"), order),
                    "there is no mbarrier at byte 136 of shared memory of "
                    "block 0 of the cluster"));
    std::string own = changed(tell, "shared::cta.b64 %p3", "b64 %p3");
    EXPECT_TRUE(has(wrong(changed(tell,
                                  "arrive.release.cluster.shared::cluster"
                                  ".b64 _, [%r7+128]",
                                  "arrive.shared::cta.b64 _, [%r7+128]"),
                          order),
                    "not of block 0 of the cluster"));
  }
  EXPECT_TRUE(has(wrong(changed(tell, "b64 _, [%r7", "b64 %rd5, [%r7"), 0),
                  "gives no state"));
  EXPECT_TRUE(
      has(wrong(changed(tell, "init.shared::cta", "init.shared::cluster"), 0),
          "unknown form"));
}

/// With a fence of mbarrier initializations, a relaxed arrival orders these,
/// and nothing else. Other arrivals need no fence.
TEST(PtxCluster, RelaxedArrivalsNeedAFenceOfInits) {
  std::vector<uint32_t> out(64);
  auto wrong = [&](const std::string &body, uint64_t order) {
    PtxRun run = clusterRun(body, 2);
    run.options.order = order;
    return run.run(out);
  };
  std::string fence = "fence.mbarrier_init.release.cluster;";
  std::string relaxed = changed(tell, "barrier.cluster.arrive;",
                                "barrier.cluster.arrive.relaxed;");
  std::string fenced = changed(relaxed, "barrier.cluster.arrive.relaxed;",
                               fence + "barrier.cluster.arrive.relaxed;");
  std::string late = changed(relaxed, "barrier.cluster.wait;",
                             "barrier.cluster.wait;" + fence);
  std::string stored =
      changed(fenced, fence, "st.shared.u32 [%r3], %r0;" + fence);
  for (uint64_t order = 0; order < 4; ++order) {
    ASSERT_EQ(wrong(fenced, order), "");
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(out[i], 7 * (i % 32));
    for (const std::string &text : {relaxed, late}) {
      std::string found = wrong(text, order);
      EXPECT_TRUE(has(found, "use of an mbarrier by thread") &&
                  has(found, "races with its initialization"))
          << found;
    }
    std::string found = wrong(stored, order);
    EXPECT_TRUE(has(found, "write by thread") &&
                has(found, "races with a write by thread"))
        << found;
  }
  std::string old = changed(fenced, fence, "fence.mbarrier_init.release.cta;");
  EXPECT_TRUE(has(wrong(old, 0), "unknown form"));
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// Two blocks share the box of a tensor: block 0 requests it for both.
std::string multicast(const std::string &copy) {
  return R"(
    setp.eq.u32 %p1, %r0, 0; setp.eq.and.u32 %p2, %r1, 0, %p1;
    @%p1 mbarrier.init.shared::cta.b64 [%r2+2048], 1;
    fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+2048], 512;
    barrier.cluster.arrive; barrier.cluster.wait;
    add.u32 %r3, %r2, 2048; mov.u32 %r4, 0; mov.u32 %r5, 4; mov.b16 %h1, 11;
)" + copy +
         R"(
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+2048], 0;
    setp.eq.u32 %p4, %r1, 2; @%p4 bra leave; @!%p3 bra wait;
    mad.lo.u32 %r6, %r0, 16, %r2; ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r6];
    mov.u32 %r11, %ctaid.x; mad.lo.u32 %r11, %r11, 32, %r0;
    mad.wide.u32 %rd3, %r11, 16, %rd1;
    st.global.v4.u32 [%rd3], {%r7, %r8, %r9, %r10};
  leave:
    barrier.cluster.arrive; barrier.cluster.wait;
)";
}

TEST(PtxCluster, MulticastComesToAllOfTheMask) {
  const char *const plain =
      "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
      "multicast::cluster [%r2], [%rd0+64], 512, [%r3], %h1;";
  const char *const box =
      "@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
      "complete_tx::bytes.multicast::cluster.L2::cache_hint [%r2], [%rd2, "
      "{%r4, %r5}], [%r3], %h1, %rd5;";
  std::vector<uint32_t> in(256), out(4 * 32 * 4);
  std::iota(in.begin(), in.end(), 5);
  std::vector<TensorMap> maps(1);
  TensorMap &map = maps[0];
  map.address = reinterpret_cast<uint64_t>(in.data());
  map.strides[0] = 16;
  map.rank = 2;
  map.type = 2;
  map.sizes[0] = map.box[0] = 4;
  map.sizes[1] = 64;
  map.box[1] = 32;
  map.steps[0] = map.steps[1] = 1;
  ASSERT_EQ(map.check(), "");
  for (const std::string copy : {plain, box})
    for (uint64_t order = 0; order < 4; ++order) {
      auto wrong = [&](const std::string &body) {
        PtxRun run = clusterRun(body, 4, 1, 2064, 3);
        run.text = changed(run.text, "align 16", "align 128");
        run.options.order = order;
        std::fill(out.begin(), out.end(), 0);
        return run.run(in, out, maps);
      };
      std::string body = multicast(copy);
      // Block 2 is not in the mask: it gets no data, and its mbarrier no bytes.
      ASSERT_EQ(wrong(body), "");
      for (size_t block = 0; block < 4; ++block)
        for (size_t i = 0; i < 128; ++i)
          EXPECT_EQ(out[block * 128 + i], block == 2 ? 0 : 21 + i) << copy;
      EXPECT_TRUE(has(wrong(changed(body, "%h1, 11", "%h1, 16")),
                      "a mask of blocks 16 in a cluster of 4"));
      EXPECT_TRUE(has(wrong(changed(body, "%h1, 11", "%h1, 0")), "a mask of"));
      EXPECT_TRUE(
          has(wrong(changed(body, "%h1, 11", "%h1, 3")), "waits for ever"));
      EXPECT_TRUE(has(wrong(changed(body, "setp.eq.u32 %p4, %r1, 2;",
                                    "setp.eq.u32 %p4, %r1, 1;")),
                      "waits for ever"));
      // A block must not end before it has waited for the copy.
      EXPECT_TRUE(has(wrong(changed(body, "%p4, %r1, 2; @%p4 bra leave;",
                                    "%p4, %r1, 3; @%p4 ret; setp.eq.u32 %p4, "
                                    "%r1, 2; @%p4 bra leave;")),
                      "the block ends before this copy was waited for"));
      EXPECT_TRUE(has(wrong(changed(body, meet.substr(0, meet.size() - 1))),
                      "may not have started"));
    }
}

/// Block 0 copies or adds its data to block 1's memory.
std::string send(const std::string &copy) {
  return R"(
    setp.eq.u32 %p1, %r0, 0; setp.eq.and.u32 %p2, %r1, 0, %p1;
    setp.eq.u32 %p4, %r1, 1;
    @%p1 mbarrier.init.shared::cta.b64 [%r2+256], 1;
    mad.lo.u32 %r3, %r0, 4, %r2; mad.lo.u32 %r4, %r1, 1000, %r0;
    st.shared.u32 [%r3], %r4; st.shared.u32 [%r3+128], %r4;
    fence.proxy.async;
    barrier.cluster.arrive; barrier.cluster.wait;
    mapa.shared::cluster.u32 %r5, %r2, 1; add.u32 %r6, %r5, 256;
    add.u32 %r7, %r2, 128;
)" + copy +
         R"(
    @!%p4 bra end;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+256], 128;
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+256], 0;
    @!%p3 bra wait;
    ld.shared.u32 %r8, [%r3];
    mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r8;
  end:
    barrier.cluster.arrive; barrier.cluster.wait;
)";
}

TEST(PtxCluster, CopiesToAnotherBlock) {
  std::string form = "[%r5], [%r7], 128, [%r6];";
  std::string copy = "@%p2 cp.async.bulk.shared::cluster.shared::cta.mbarrier::"
                     "complete_tx::bytes " +
                     form;
  auto reduce = [&](const std::string &operation) {
    return "@%p2 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::"
           "complete_tx::bytes." +
           operation + " " + form;
  };
  std::vector<uint32_t> out(32);
  auto wrong = [&](const std::string &body, uint64_t order) {
    PtxRun run = clusterRun(body, 2, 1, 264);
    run.options.order = order;
    return run.run(out);
  };
  for (uint64_t order = 0; order < 4; ++order) {
    ASSERT_EQ(wrong(send(copy), order), "");
    for (uint32_t i = 0; i < 32; ++i)
      EXPECT_EQ(out[i], i);
    struct Case {
      const char *name;
      uint32_t (*combine)(uint32_t, uint32_t);
    };
    const Case cases[] = {
        {"add.u32", [](uint32_t a, uint32_t b) { return a + b; }},
        {"add.s32", [](uint32_t a, uint32_t b) { return a + b; }},
        {"min.s32", [](uint32_t a, uint32_t b) { return std::min(a, b); }},
        {"max.u32", [](uint32_t a, uint32_t b) { return std::max(a, b); }},
        {"inc.u32", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
        {"dec.u32",
         [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
        {"and.b32", [](uint32_t a, uint32_t b) { return a & b; }},
        {"or.b32", [](uint32_t a, uint32_t b) { return a | b; }},
        {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }}};
    for (const Case &of : cases) {
      ASSERT_EQ(wrong(send(reduce(of.name)), order), "") << of.name;
      for (uint32_t i = 0; i < 32; ++i)
        EXPECT_EQ(out[i], of.combine(1000 + i, i)) << of.name;
    }
    for (const std::string &body : {send(copy), send(reduce("add.u32"))}) {
      EXPECT_TRUE(has(wrong(changed(body, "fence.proxy.async;"), order),
                      "without fence.proxy.async"));
      EXPECT_TRUE(
          has(wrong(changed(body, "[%r2+256], 128", "[%r2+256], 64"), order),
              "waits for ever"));
      EXPECT_TRUE(has(wrong(changed(body, "[%r6];", "[%r2+256];"), order),
                      "target and mbarrier are in different blocks"));
      EXPECT_FALSE(wrong(changed(body, "@!%p3 bra wait;"), order).empty());
      EXPECT_TRUE(has(wrong(changed(body, form,
                                    form + "\n@%p2 st.shared.u32 "
                                           "[%r7], %r4;"),
                            order),
                      "races with an asynchronous read"));
    }
  }
  for (const char *operation : {"add.f32", "add.s64", "min.u64", "and.u32",
                                "xor.b64", "inc.s32", "add.f16"})
    EXPECT_TRUE(has(wrong(send(reduce(operation)), 0), "unknown form"))
        << operation;
}

} // namespace
