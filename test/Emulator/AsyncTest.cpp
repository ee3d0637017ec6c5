//===- AsyncTest.cpp - mbarrier, bulk copies and wgmma --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "heddle/emulator/ptx/TensorMap.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace heddle::test;
using heddle::emulator::TensorMap;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

//===----------------------------------------------------------------------===//
// mbarrier
//===----------------------------------------------------------------------===//

/// Three warps: the second writes, and tells the first, which waits.
const std::string handOver = R"(
    mov.u32 %r1, memory; shr.u32 %r2, %r0, 5; and.b32 %r3, %r0, 31;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r1+512], 33;
    bar.sync 0;
    mad.lo.u32 %r4, %r3, 4, %r1;
    setp.eq.u32 %p2, %r2, 1; @%p2 bra second;
    setp.eq.u32 %p2, %r2, 2; @%p2 bra third;
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1+512], 0;
    @!%p3 bra wait;
    ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %rd1, %r3, 4, %rd0; st.global.u32 [%rd1], %r5;
    bra end;
  second:
    mul.lo.u32 %r6, %r3, 7; st.shared.u32 [%r4], %r6;
    mbarrier.arrive.shared::cta.b64 %rd2, [%r1+512];
  again:
    mbarrier.test_wait.shared::cta.b64 %p4, [%r1+512], %rd2;
    @!%p4 bra again;
    bra end;
  third:
    setp.eq.u32 %p5, %r3, 5;
    @%p5 mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1+512], 1;
  end:
    bar.sync 0;
    @%p1 mbarrier.inval.shared::cta.b64 [%r1+512];
)";

std::string runHandOver(const std::string &body) {
  PtxRun run;
  run.text = hopper(kernel(1, body, 520));
  run.block = {96, 1, 1};
  std::vector<uint32_t> out(32);
  std::string wrong = run.run(out);
  if (wrong.empty())
    for (uint32_t i = 0; i < 32; ++i)
      EXPECT_EQ(out[i], 7 * i);
  return wrong;
}

TEST(PtxMbarrier, HandsOverWhatWasWritten) {
  EXPECT_EQ(runHandOver(handOver), "");
  EXPECT_EQ(runHandOver(changed(handOver,
                                "try_wait.parity.shared::cta.b64 "
                                "%p3, [%r1+512], 0",
                                "try_wait.parity.acquire.cta.shared::cta.b64 "
                                "%p3, [%r1+512], 0, 100")),
            "");
}

TEST(PtxMbarrier, MutantsAreFound) {
  auto expect = [](const std::string &from, const std::string &to,
                   const std::string &message) {
    std::string wrong = runHandOver(changed(handOver, from, to));
    EXPECT_TRUE(has(wrong, message)) << from << " -> " << to << ": " << wrong;
  };
  expect("@%p1 mbarrier.init.shared::cta.b64 [%r1+512], 33;", "",
         "there is no mbarrier at byte 512");
  expect("bar.sync 0;", "", "races with its initialization by thread 0");
  expect(", 33", ", 34",
         "waits for ever for the mbarrier at byte 512 of shared memory, phase "
         "0: 1 of 34 arrivals and 0 bytes are missing");
  expect(", 33", ", 32", "waits for ever");
  expect("[%r1+512], 0;", "[%r1+512], 1;",
         "read of byte 0 of shared memory, which nobody has written");
  expect("@!%p3 bra wait;", "", "read by thread 0 races with a write");
  expect("mbarrier.arrive.shared::cta.b64 %rd2, [%r1+512];", "mov.u64 %rd2, 0;",
         "32 of 33 arrivals");
  expect("_, [%r1+512], 1;", "_, [%r1+512], 2;", "waits for ever");
  expect("end:\n    bar.sync 0;", "end:", "races with");
  expect("mbarrier.arrive.shared::cta.b64 %rd2, [%r1+512];",
         "mbarrier.arrive.noComplete.shared::cta.b64 %rd2, [%r1+512], 1; "
         "mbarrier.arrive.shared::cta.b64 %rd2, [%r1+512];",
         "must not be noComplete");
  expect("[%r1+512], 33", "[%r1+508], 33", "not aligned to 8");
  expect("st.shared.u32 [%r4], %r6;",
         "st.shared.u32 [%r4], %r6; st.shared.u32 [%r1+512], %r6;",
         "which is an mbarrier's");
}

/// An arrival does not order a write after it.
TEST(PtxMbarrier, OrdersOnlyWhatWasBefore) {
  std::string late = changed(
      changed(handOver, "mul.lo.u32 %r6, %r3, 7; st.shared.u32 [%r4], %r6;"),
      "  again:",
      "mul.lo.u32 %r6, %r3, 7; st.shared.u32 [%r4], %r6;\n  again:");
  // The third warp arrives last, so the second has written by then.
  std::string wrong = runHandOver(late);
  EXPECT_TRUE(has(wrong, "read by thread 0 races with a write by thread 32"))
      << wrong;
}

//===----------------------------------------------------------------------===//
// Bulk copies and products
//===----------------------------------------------------------------------===//

constexpr int rowsA = 53, depth = 40, columnsB = 56;

/// C = A * B by one warpgroup. Tiles are copied by tensor maps. They extend
/// outside of the tensors by three rows at the top, and at the right and the
/// bottom.
std::string productText() {
  std::string sums = "{", stores;
  for (int i = 0; i < 32; ++i)
    sums += (i ? ", %f" : "%f") + std::to_string(i);
  sums += "}";
  for (int j = 0; j < 8; ++j)
    for (int half = 0; half < 2; ++half)
      stores += "st.shared.v2.f32 [%r12+" +
                std::to_string(half * 8 * 256 + j * 32) + "], {%f" +
                std::to_string(4 * j + 2 * half) + ", %f" +
                std::to_string(4 * j + 2 * half + 1) + "};\n";
  std::string products;
  for (int k = 0; k < 4; ++k)
    products += "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " + sums +
                ", %rd5, %rd6, " + (k ? "1" : "0") +
                ", 1, 1, 0, 1;\nadd.u64 %rd5, %rd5, 2; "
                "add.u64 %rd6, %rd6, 128;\n";
  return hopper(kernel(4,
                       R"(
    mov.u32 %r1, memory; add.u32 %r2, %r1, 8192; add.u32 %r3, %r1, 16384;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    add.u64 %rd10, %rd0, 128; add.u64 %rd11, %rd0, 256;
    mov.u32 %r4, 0; mov.u32 %r5, -3;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16384;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0, {%r4, %r5}], [%r3];
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd10, {%r4, %r4}], [%r3];
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra wait;
    shr.u32 %r6, %r1, 4; cvt.u64.u32 %rd5, %r6;
    or.b64 %rd5, %rd5, 0x4000004000010000;
    shr.u32 %r6, %r2, 4; cvt.u64.u32 %rd6, %r6;
    or.b64 %rd6, %rd6, 0x4000004000010000;
    wgmma.fence.sync.aligned;
)" + products + R"(
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    bar.sync 1;
    shr.u32 %r7, %r0, 5; and.b32 %r8, %r0, 31; shr.u32 %r9, %r8, 2;
    and.b32 %r10, %r0, 3; mad.lo.u32 %r11, %r7, 16, %r9;
    shl.b32 %r11, %r11, 8; shl.b32 %r10, %r10, 3;
    add.u32 %r12, %r11, %r10; add.u32 %r12, %r12, %r1;
)" + stores + R"(
    fence.proxy.async.shared::cta;
    bar.sync 2;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd11, {%r4, %r5}], [%r1];
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group.read 0;
    @%p1 mbarrier.inval.shared::cta.b64 [%r3];
)",
                       16392));
}

struct ProductRun {
  std::vector<uint16_t> a, b;
  std::vector<float> c;
  std::vector<TensorMap> maps;
  PtxRun run;

  ProductRun()
      : a(rowsA * depth), b(depth * columnsB), c(rowsA * columnsB, -1.f),
        maps(3) {
    std::mt19937 random(1);
    auto draw = [&] { return toBf16(float(int(random() % 17) - 8)); };
    std::generate(a.begin(), a.end(), draw);
    std::generate(b.begin(), b.end(), draw);
    set(maps[0], a.data(), 9, depth, rowsA, 3);
    set(maps[1], b.data(), 9, columnsB, depth, 3);
    set(maps[2], c.data(), 7, columnsB, rowsA, 0);
    run.block = {128, 1, 1};
  }

  static void set(TensorMap &map, void *data, uint8_t type, uint64_t inner,
                  uint64_t outer, uint8_t swizzle) {
    map.address = reinterpret_cast<uint64_t>(data);
    map.type = type;
    map.rank = 2;
    map.sizes[0] = inner;
    map.sizes[1] = outer;
    map.strides[0] = inner * static_cast<uint64_t>(map.typeBytes());
    map.box[0] = map.box[1] = 64;
    map.steps[0] = map.steps[1] = 1;
    map.swizzle = swizzle;
  }

  std::string operator()(const std::string &text) {
    run.text = text;
    return run.run(maps, a, b, c);
  }

  /// The largest difference from C; infinite for a NaN.
  float error() const {
    float worst = 0;
    for (int i = 0; i < rowsA; ++i)
      for (int j = 0; j < columnsB; ++j) {
        float sum = 0;
        for (int k = 0; k < depth; ++k)
          sum += asFloat(uint64_t(a[i * depth + k]) << 16) *
                 asFloat(uint64_t(b[k * columnsB + j]) << 16);
        float difference = std::abs(sum - c[i * columnsB + j]);
        worst =
            difference == difference ? std::max(worst, difference) : INFINITY;
      }
    return worst;
  }
};

TEST(PtxHopper, ProductByTensorMaps) {
  ProductRun run;
  for (const TensorMap &map : run.maps)
    EXPECT_EQ(map.check(), "");
  ASSERT_EQ(run(productText()), "");
  EXPECT_EQ(run.error(), 0);
  EXPECT_EQ(run.run.counters.tensorOperations, 2u * 64 * 64 * 64);
}

TEST(PtxHopper, MutantsAreFound) {
  std::string text = productText();
  auto expect = [&](const std::string &from, const std::string &to,
                    const std::string &message) {
    ProductRun run;
    std::string wrong = run(changed(text, from, to));
    EXPECT_TRUE(has(wrong, message) && !wrong.empty())
        << from << " -> " << to << ": " << wrong;
  };
  expect("], 16384;", "], 16383;", "-1 bytes are missing");
  expect("], 16384;", "], 24576;", "8192 bytes are missing");
  expect("[%r3], 1;", "[%r3], 2;", "1 of 2 arrivals");
  expect("bar.sync 0;", "", "races with its initialization");
  expect("@!%p2 bra wait;", "", "read of byte");
  expect("[%r3], 0;\n", "[%r3], 1;\n", "read of byte");
  expect("wgmma.fence.sync.aligned;", "", "needs a wgmma.fence");
  expect("wgmma.commit_group.sync.aligned;", "", "asynchronous read under way");
  expect("wgmma.wait_group.sync.aligned 0;", "", "asynchronous read under way");
  expect("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;",
         "asynchronous read under way");
  expect("bar.sync 1;", "", "races with");
  expect("bar.sync 2;", "", "races with");
  expect("fence.proxy.async.shared::cta;", "", "without fence.proxy.async");
  expect("@%p1 cp.async.bulk.commit_group;", "", "before this copy");
  expect("@%p1 cp.async.bulk.wait_group.read 0;", "", "before this copy");
  expect("[%r1], [%rd0, {", "[%r1+64], [%rd0, {", "not aligned to 128");
  expect("[%rd0, {", "[%rd1, {", "tensor map");
  expect("{%r4, %r5}], [%r3]", "{%r4}], [%r3]", "takes 2 coordinates");
  expect("%rd5, 0x4000004000010000", "%rd5, 0x4002004000010000", "base offset");
  expect("0x4000004000010000", "0x4000104000010000",
         "outside of shared memory");
}

/// Within a block, its barrier orders the initialization of mbarriers; their
/// fence is for other blocks of a cluster. Triton emits no fence here, and its
/// kernels are correct on GPUs.
TEST(PtxHopper, ABlockNeedsNoFenceOfInits) {
  ProductRun run;
  ASSERT_EQ(
      run(changed(productText(), "fence.mbarrier_init.release.cluster;", "")),
      "");
  EXPECT_EQ(run.error(), 0);
}

/// Only wrong sums show this mutant: accumulators are NaN until the wait.
TEST(PtxHopper, AccumulatorsComeWithTheWait) {
  ProductRun run;
  std::string text = changed(productText(), "wgmma.wait_group.sync.aligned 0;",
                             "mov.f32 %f35, %f3;\n"
                             "wgmma.wait_group.sync.aligned 0;\n"
                             "mov.f32 %f3, %f35;");
  ASSERT_EQ(run(text), "");
  EXPECT_EQ(run.error(), INFINITY);
  // Writes an operand while the product is in flight.
  text = changed(productText(), "wgmma.wait_group.sync.aligned 0;",
                 "mov.f32 %f3, 0f00000000;\nwgmma.wait_group.sync.aligned 0;");
  EXPECT_TRUE(has(run(text), "an accumulator was written before"));
}

TEST(PtxHopper, MapsAreChecked) {
  ProductRun run;
  auto expect = [&](auto change, const char *message) {
    TensorMap map = run.maps[0];
    change(map);
    EXPECT_TRUE(has(map.check(), message)) << map.check();
  };
  expect([](TensorMap &map) { map.address += 8; }, "no multiple of 16");
  expect([](TensorMap &map) { map.strides[0] += 8; }, "a stride of 88 bytes");
  expect([](TensorMap &map) { map.strides[0] = uint64_t(1) << 40; },
         "a stride of");
  expect([](TensorMap &map) { map.box[1] = 257; }, "a box of 257");
  expect([](TensorMap &map) { map.box[0] = 63; }, "126 bytes in dimension 0");
  expect([](TensorMap &map) { map.box[0] = 72; }, "more than 128");
  expect([](TensorMap &map) { map.sizes[1] = 0; }, "a size of 0");
  expect([](TensorMap &map) { map.steps[1] = 9; }, "an element stride of 9");
  expect([](TensorMap &map) { map.rank = 6; }, "rank 6");
  expect([](TensorMap &map) { map.type = 13; }, "data type 13");
  expect(
      [](TensorMap &map) {
        map.type = 1;
        map.fillsNaN = true;
      },
      "not filled with NaN");
}

/// Unknown forms are refused, and not taken for other ones.
TEST(PtxHopper, UnknownFormsNameTheLine) {
  const char *const lines[] = {
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes."
      "multicast::cluster [%r1], [%rd0], 16, [%r3], %h1;",
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.f32.bulk_group "
      "[%rd0, {%r2, %r2}], [%r1];",
      "cp.async.mbarrier.arrive.shared::cluster.b64 [%r1];",
      "barrier.cluster.wait.release;",
      "cp.async.bulk.tensor.2d.im2col.shared::cluster.global.mbarrier::"
      "complete_tx::bytes [%r1], [%rd0, {%r2, %r2}], [%r3];",
      "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd0, {%r2, %r2}];",
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], "
      "%r2, [%r3];",
      "red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes."
      "shared::cluster.add.u32 [%r1], %r2, [%r3];",
      "multimem.ld_reduce.global.add.f32 %f1, [%rd0];",
      "brx.idx %r1, table;",
      "tensormap.replace.tile.rank.global.b1024.b32 [%rd0], 1;",
      "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {%f0, %f1, %f2, "
      "%f3}, %rd5, %rd6, %r1, 0, 1, 1, 1, 0, 0;",
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, "
      "%f3}, %rd5, %rd6, 1, 1, 1;"};
  for (const std::string line : lines) {
    std::string text = hopper(kernel(1, "add.s32 %r1, %r0, 1;\n" + line));
    std::string error = parseError(text);
    auto at = text.begin() + long(text.find(line));
    auto number = 1 + std::count(text.begin(), at, '\n');
    EXPECT_TRUE(has(error, "line " + std::to_string(number) + ": "))
        << line << ": " << error;
  }
}

TEST(PtxHopper, OtherTexts) {
  auto error = [](const std::string &body) {
    return parseError(hopper(kernel(1, body, 16)));
  };
  EXPECT_EQ(error("setmaxnreg.dec.sync.aligned.u32 40;\n"
                  "griddepcontrol.wait; griddepcontrol.launch_dependents;\n"
                  "mapa.shared::cluster.u32 %r2, %r1, 0;\n"
                  "mov.u32 %r3, %cluster_nctarank;"),
            "");
  EXPECT_TRUE(has(error("setmaxnreg.dec.sync.aligned.u32 41;"), "41"));
  EXPECT_TRUE(has(parseError(kernel(0, "wgmma.fence.sync.aligned;")),
                  "needs another target than sm_80"));
  EXPECT_TRUE(has(error("cp.async.bulk.wait_group.write 0;"), "unknown form"));
}

TEST(PtxHopper, ClustersOfOneBlock) {
  PtxRun run;
  run.block = {96, 1, 1};
  std::string text = hopper(kernel(1, R"(
    mov.u32 %r1, memory; mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.u32 [%r2], %r0;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    xor.b32 %r3, %r0, 64; setp.gt.u32 %p1, %r3, 95; @%p1 mov.u32 %r3, %r0;
    mad.lo.u32 %r4, %r3, 4, %r1; ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r5;
)",
                                   384));
  run.text = text;
  std::vector<uint32_t> out(96);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 96; ++i)
    EXPECT_EQ(out[i], (i ^ 64) > 95 ? i : i ^ 64);
  run.text = changed(text, "barrier.cluster.wait.acquire.aligned;");
  EXPECT_FALSE(run.run(out).empty());
}

} // namespace
