//===- MemoryTest.cpp - Memory of the PTX machine -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <numeric>

using namespace heddle::test;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Describes ranges relative to an address, as "[0, 4) [8, 12)".
std::string describe(const std::vector<heddle::emulator::ByteRange> &ranges,
                     const void *start) {
  std::string text;
  auto base = reinterpret_cast<uint64_t>(start);
  for (const auto &range : ranges)
    text += "[" + std::to_string(range.first - base) + ", " +
            std::to_string(range.end - base) + ") ";
  return text;
}

TEST(PtxMemory, TellsWhatIsTouched) {
  PtxRun run;
  run.grid = {2, 1, 1};
  // Each thread reads 4 of 8 bytes; thread 5 of each block adds to its word.
  // Shared memory, and accesses of inactive lanes, do not count.
  run.text = kernel(2, R"(
    mov.u32 %r1, %ctaid.x; shl.b32 %r2, %r1, 5; add.u32 %r2, %r2, %r0;
    mad.wide.u32 %rd2, %r2, 4, %rd0; mad.wide.u32 %rd3, %r2, 8, %rd0;
    ld.global.u32 %r3, [%rd2];
    setp.lt.u32 %p1, %r0, 3; @%p1 ld.global.u16 %h1, [%rd3+1024];
    setp.eq.u32 %p2, %r0, 99; @%p2 st.global.u32 [%rd1], %r3;
    mul.wide.u32 %rd4, %r1, 64; add.u64 %rd4, %rd4, %rd1;
    setp.eq.u32 %p3, %r0, 5;
    @%p3 atom.global.add.u32 %r4, [%rd4+512], 1;
    st.global.u8 [%rd4+1024], %r3;
    mov.u32 %r5, memory; st.shared.u32 [%r5], 1;
    cp.async.ca.shared.global [%r5], [%rd0+2048], 8; cp.async.wait_all;
)",
                    16);
  std::vector<uint8_t> in(4096), out(4096);
  run.options.checks = heddle::emulator::Checks::Light;
  ASSERT_EQ(run.run(in, out), "");
  EXPECT_EQ(describe(run.touched.reads, in.data()),
            "[0, 256) [1024, 1026) [1032, 1034) [1040, 1042) [1280, 1282) "
            "[1288, 1290) [1296, 1298) [2048, 2056) ");
  EXPECT_EQ(describe(run.touched.writes, out.data()),
            "[512, 516) [576, 580) [1024, 1025) [1088, 1089) ");
}

TEST(PtxMemory, VectorsAndWidths) {
  PtxRun run;
  run.text = kernel(2, R"(
    mad.wide.u32 %rd2, %r0, 16, %rd0; mad.wide.u32 %rd3, %r0, 64, %rd1;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2];
    st.global.v2.u32 [%rd3], {%r2, %r1};
    ld.global.nc.L1::evict_last.v2.u64 {%rd4, %rd5}, [%rd2];
    st.global.u64 [%rd3+8], %rd5;
    ld.global.s8 %r5, [%rd2+3]; st.global.u32 [%rd3+16], %r5;
    ld.global.u8 %r5, [%rd2+3]; st.global.u32 [%rd3+20], %r5;
    ld.global.s16 %r5, [%rd2+6]; st.global.u32 [%rd3+24], %r5;
    ld.global.b16 %h1, [%rd2+6]; st.global.b16 [%rd3+28], %h1;
    st.global.u8 [%rd3+30], %r5;
    ld.global.s32 %rd6, [%rd2+8]; st.global.u64 [%rd3+32], %rd6;
    ld.volatile.global.v4.b16 {%h1, %h2, %h3, %h4}, [%rd2];
    st.global.v2.b16 [%rd3+40], {%h4, %h1};
    cvta.global.u64 %rd7, %rd2; ld.u32 %r6, [%rd7+12]; st.u32 [%rd3+44], %r6;
)");
  std::vector<uint8_t> in(16 * 32);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<uint8_t>(i * 151 + 77);
  std::vector<uint8_t> out(64 * 32);
  ASSERT_EQ(run.run(in, out), "");
  for (int i = 0; i < 32; ++i) {
    const uint8_t *a = &in[16 * i], *b = &out[64 * i];
    auto same = [&](int to, int from, int bytes) {
      EXPECT_EQ(std::memcmp(b + to, a + from, bytes), 0) << i << " " << to;
    };
    auto word = [&](int at) {
      int32_t value;
      std::memcpy(&value, b + at, 4);
      return value;
    };
    same(0, 4, 4);
    same(4, 0, 4);
    same(8, 8, 8);
    EXPECT_EQ(word(16), static_cast<int8_t>(a[3]));
    EXPECT_EQ(word(20), a[3]);
    EXPECT_EQ(word(24), static_cast<int16_t>(a[6] | a[7] << 8));
    same(28, 6, 2);
    EXPECT_EQ(b[30], a[6]);
    same(32, 8, 4);
    EXPECT_EQ(word(36), a[11] & 128 ? -1 : 0);
    same(40, 6, 2);
    same(42, 0, 2);
    same(44, 12, 4);
  }
}

std::string fault(const std::string &body, int64_t shared = 0) {
  PtxRun run;
  run.text = kernel(1, body, shared);
  std::vector<uint32_t> buffer(40);
  return run.run(buffer);
}

TEST(PtxMemory, AddressesAreChecked) {
  std::string wide = "mad.wide.u32 %rd1, %r0, 4, %rd0;\n";
  EXPECT_EQ(fault(wide + "ld.global.u32 %r1, [%rd1+32];"), "");
  std::string text = fault(wide + "ld.global.u32 %r1, [%rd1+36];");
  EXPECT_TRUE(has(text,
                  "kernel k, line 11, ld.global.u32: access of 4 bytes at "
                  "0x"))
      << text;
  EXPECT_TRUE(has(text, "byte 160 from the start of 'buffer 0', which has 160; "
                        "block (0, 0, 0), thread 31"))
      << text;
  text = fault(wide + "st.global.v2.u32 [%rd1], {%r0, %r0};");
  EXPECT_TRUE(has(text, "which is not aligned to 8")) << text;
  EXPECT_TRUE(has(text, "thread 1")) << text;
  EXPECT_TRUE(has(fault("ld.global.u32 %r1, [8];"), "in no allocation"));
  // Addresses of inactive lanes are not checked.
  EXPECT_EQ(fault(wide + "setp.lt.u32 %p1, %r0, 31;\n"
                         "@%p1 ld.global.u32 %r1, [%rd1+36];"),
            "");
  text = fault("ld.shared.u32 %r1, [memory+64];", 64);
  EXPECT_TRUE(has(text, "outside of shared memory: byte 64 of 64")) << text;
  text = fault("ld.shared.u32 %r1, [0];", 64);
  EXPECT_TRUE(has(text, "outside of shared memory")) << text;
  text = fault("ld.shared.u32 %r1, [memory];", 64);
  EXPECT_TRUE(has(text, "byte 0 of shared memory, which nobody has written"))
      << text;
}

/// Light checks omit races, but not addresses.
TEST(PtxMemory, LightChecks) {
  PtxRun run;
  run.options.checks = heddle::emulator::Checks::Light;
  run.text = kernel(0, "ld.shared.u32 %r1, [memory];", 64);
  EXPECT_EQ(run.run(), "");
  run.text = kernel(0, "ld.shared.u32 %r1, [memory+64];", 64);
  EXPECT_TRUE(has(run.run(), "outside of shared memory"));
}

TEST(PtxMemory, GenericSharedAndLocal) {
  PtxRun run;
  run.text = kernel(1, R"(
    .local .align 8 .b8 own[8];
    .reg .pred %isShared;
    mov.u64 %rd1, memory; cvta.shared.u64 %rd2, %rd1;
    mad.wide.u32 %rd3, %r0, 4, %rd2;
    st.u32 [%rd3], %r0;
    ld.u32 %r1, [%rd3];
    mov.u64 %rd4, own; cvta.local.u64 %rd5, %rd4;
    mul.lo.u32 %r2, %r0, 3;
    st.local.u32 [own+4], %r2;
    ld.u32 %r3, [%rd5+4];
    add.u32 %r1, %r1, %r3;
    isspacep.shared %isShared, %rd2;
    @%isShared add.u32 %r1, %r1, 1;
    cvta.to.shared.u64 %rd6, %rd2;
    setp.ne.u64 %p1, %rd6, %rd1;
    @%p1 trap;
    mad.wide.u32 %rd7, %r0, 4, %rd0;
    st.global.u32 [%rd7], %r1;
)",
                    128);
  std::vector<uint32_t> out(32);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], 4 * i + 1);
}

TEST(PtxMemory, Atomics) {
  PtxRun run;
  run.text = kernel(1, R"(
    atom.global.add.u32 %r1, [%rd0], 3;
    red.global.add.f32 [%rd0+4], 0f3F000000;
    atom.global.gpu.acq_rel.max.s32 %r2, [%rd0+8], %r0;
    atom.global.cas.b32 %r3, [%rd0+12], 0, 99;
    red.global.inc.u32 [%rd0+16], 9;
    red.global.or.b32 [%rd0+20], %r0;
    red.global.add.u64 [%rd0+24], 4294967297;
    red.global.add.noftz.bf16x2 [%rd0+32], 1065353216;
    mov.u32 %r9, memory; mov.u32 %r10, 0;
    st.shared.u32 [%r9], %r10;
    bar.sync 0;
    atom.shared.exch.b32 %r4, [%r9], %r0;
)",
                    16);
  run.block = {64, 1, 1};
  run.grid = {5, 1, 1};
  std::vector<uint32_t> out(9);
  ASSERT_EQ(run.run(out), "");
  EXPECT_EQ(out[0], 3 * 320u);
  EXPECT_EQ(asFloat(out[1]), 160);
  EXPECT_EQ(out[2], 63u);
  EXPECT_EQ(out[3], 99u);
  EXPECT_EQ(out[4], 0u);
  EXPECT_EQ(out[5], 63u);
  EXPECT_EQ(out[6], 320u);
  EXPECT_EQ(out[7], 320u);
  EXPECT_EQ(out[8] & 0xffff, 0u);
  EXPECT_EQ(out[8] >> 16, 0x4380u); // 256, to which bf16 cannot add 1.
}

/// Atomic operations race with others, but not with each other.
TEST(PtxMemory, AtomicsOfSharedMemory) {
  std::string start = "setp.eq.u32 %p1, %r0, 0;\n"
                      "@%p1 st.shared.u32 [memory], 5;\n";
  std::string add = "mov.u32 %r5, memory;\n"
                    "red.shared.add.u32 [%r5], 2;\n";
  std::string read = "ld.shared.u32 %r1, [memory];\n"
                     "st.global.u32 [%rd0], %r1;\n";
  std::string sync = "bar.sync 0;\n";
  PtxRun run;
  run.block = {64, 1, 1};
  auto with = [&](const std::string &body) {
    run.text = kernel(1, body, 16);
    std::vector<uint32_t> out(1);
    std::string text = run.run(out);
    return text.empty() ? std::to_string(out[0]) : text;
  };
  EXPECT_EQ(with(start + sync + add + sync + read), "133");
  EXPECT_TRUE(has(with(add), "which nobody has written"));
  EXPECT_TRUE(has(with(start + add), "races with a write by thread 0"));
  EXPECT_TRUE(
      has(with(start + sync + add + read), "races with an atomic operation"));
  EXPECT_TRUE(has(with(start + sync + read + add), "races with a read"));
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

std::string copyKernel(const std::string &wait, const std::string &bytes = "") {
  return kernel(2,
                R"(
    mov.u32 %r5, memory;
    mad.lo.u32 %r6, %r0, 16, %r5; mad.wide.u32 %rd2, %r0, 16, %rd0;
    cp.async.cg.shared.global [%r6], [%rd2], 16)" +
                    bytes + R"(;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r6+512], [%rd2], 4;
    cp.async.commit_group;
)" + wait + R"(
    bar.sync 0;
    xor.b32 %r7, %r0, 1; mad.lo.u32 %r7, %r7, 16, %r5;
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r7];
    mad.wide.u32 %rd3, %r0, 16, %rd1;
    st.global.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};
)",
                1024);
}

TEST(PtxAsync, CopiesComeWithTheWait) {
  PtxRun run;
  run.text = copyKernel("cp.async.wait_group 1;");
  std::vector<uint32_t> in(128), out(128);
  std::iota(in.begin(), in.end(), 5);
  ASSERT_EQ(run.run(in, out), "");
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(out[i], in[i ^ 4]);
  run.text = copyKernel("cp.async.wait_all;", ", 8");
  ASSERT_EQ(run.run(in, out), "");
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(out[i], i % 4 < 2 ? in[i ^ 4] : 0);
  // Waits that leave one group too many in flight.
  for (const char *wait : {"", "cp.async.wait_group 2;"}) {
    run.text = copyKernel(wait);
    std::string text = run.run(in, out);
    EXPECT_TRUE(has(text, "before the wait for the asynchronous copy of thread "
                          "1"))
        << text;
  }
  // With light checks, the bytes are NaN.
  run.options.checks = heddle::emulator::Checks::Light;
  ASSERT_EQ(run.run(in, out), "");
  EXPECT_EQ(out[0], 0xffffffffu);
}

TEST(PtxAsync, TheSourceIsReadLate) {
  PtxRun run;
  run.text = copyKernel("st.global.u32 [%rd2], 7777;\ncp.async.wait_group 0;");
  std::vector<uint32_t> in(128), out(128);
  ASSERT_EQ(run.run(in, out), "");
  EXPECT_EQ(out[4], 7777u);
}

TEST(PtxAsync, OverwritingWhatOthersRead) {
  std::string body = R"(
    mov.u32 %r5, memory; mad.lo.u32 %r6, %r0, 4, %r5;
    st.shared.u32 [%r6], %r0;
    bar.sync 0;
    ld.shared.u32 %r1, [%r5+4];
    SYNC
    setp.eq.u32 %p1, %r0, 0;
    @%p1 cp.async.ca.shared.global [%r5+4], [%rd0], 4;
)";
  auto with = [&](const std::string &sync) {
    std::string text = body;
    return fault(text.replace(text.find("SYNC"), 4, sync), 128);
  };
  EXPECT_TRUE(has(with(""), "races with")) << with("");
  EXPECT_EQ(with("bar.sync 0;"), "");
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

TEST(PtxCounters, SectorsBytesAndWavefronts) {
  PtxRun run;
  run.options.counts = true;
  auto count = [&](const std::string &body) {
    run.text = kernel(1, body, 16384);
    std::vector<uint32_t> buffer(32 * 32 + 8);
    EXPECT_EQ(run.run(buffer), "");
    return run.counters;
  };
  Counters dense = count("mad.wide.u32 %rd1, %r0, 4, %rd0;\n"
                         "and.b64 %rd1, %rd1, -4;\nld.global.u32 %r1, [%rd1];");
  EXPECT_EQ(dense.globalRequests, 1u);
  EXPECT_EQ(dense.globalBytes, 128u);
  EXPECT_GE(dense.globalSectors, 4u);
  EXPECT_LE(dense.globalSectors, 5u);
  Counters sparse = count("mad.wide.u32 %rd1, %r0, 128, %rd0;\n"
                          "ld.global.u32 %r1, [%rd1];");
  EXPECT_EQ(sparse.globalSectors, 32u);
  EXPECT_EQ(sparse.globalBytes, 128u);
  Counters same = count("ld.global.u32 %r1, [%rd0];");
  EXPECT_EQ(same.globalSectors, 1u);
  EXPECT_EQ(same.globalBytes, 4u);
  auto shared = [&](int stride, const std::string &store) {
    Counters c = count("mov.u32 %r5, memory;\nmad.lo.u32 %r6, %r0, " +
                       std::to_string(stride) + ", %r5;\n" + store);
    return std::pair(c.sharedWavefronts, c.idealWavefronts);
  };
  using Pair = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(shared(4, "st.shared.u32 [%r6], %r0;"), Pair(1, 1));
  EXPECT_EQ(shared(8, "st.shared.u32 [%r6], %r0;"), Pair(2, 1));
  EXPECT_EQ(shared(128, "st.shared.u32 [%r6], %r0;"), Pair(32, 1));
  EXPECT_EQ(shared(0, "st.shared.u32 [%r6], 5;"), Pair(1, 1));
  EXPECT_EQ(shared(16, "st.shared.v4.u32 [%r6], {%r0, %r0, %r0, %r0};"),
            Pair(4, 4));
  EXPECT_EQ(shared(128, "st.shared.v4.u32 [%r6], {%r0, %r0, %r0, %r0};"),
            Pair(32, 4));
}

TEST(PtxCounters, InstructionsByClass) {
  using heddle::emulator::Class;
  PtxRun run;
  run.text = kernel(0, R"(
    add.f32 %f1, %f1, %f1; add.f32 %f2, %f1, %f1;
    add.u32 %r1, %r0, 1; cvt.u64.u32 %rd1, %r1;
    setp.eq.u32 %p1, %r0, 99;
    @%p1 add.f32 %f3, %f1, %f1;
    bar.sync 0;
)");
  run.block = {64, 1, 1};
  run.grid = {3, 1, 1};
  ASSERT_EQ(run.run(), "");
  auto of = [&](Class kind) {
    return run.counters.instructions[static_cast<int>(kind)] / 6;
  };
  EXPECT_EQ(of(Class::Float), 2u);
  EXPECT_EQ(of(Class::Integer), 2u);
  EXPECT_EQ(of(Class::Move), 2u);
  EXPECT_EQ(of(Class::Control), 2u);
}

/// The result does not depend on the number of host threads.
TEST(PtxMemory, BlocksOnSeveralThreads) {
  PtxRun run;
  run.text = kernel(1, R"(
    mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 32, %r0;
    mad.wide.u32 %rd1, %r2, 4, %rd0; st.global.u32 [%rd1], %r2;
)");
  run.grid = {100, 1, 1};
  for (unsigned threads : {1, 3}) {
    run.options.threads = threads;
    std::vector<uint32_t> out(3200);
    ASSERT_EQ(run.run(out), "");
    for (uint32_t i = 0; i < 3200; ++i)
      ASSERT_EQ(out[i], i);
  }
  // Every run reports the error of the first block that has one.
  std::vector<uint32_t> small(32 * 57 + 3);
  EXPECT_TRUE(has(run.run(small), "block (57, 0, 0), thread 3"));
}

} // namespace
