//===- BulkTest.cpp - Reductions and arrivals of asynchronous copies ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "heddle/emulator/ptx/TensorMap.h"
#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace heddle::test;
using heddle::emulator::TensorMap;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

//===----------------------------------------------------------------------===//
// cp.reduce.async.bulk to global memory
//===----------------------------------------------------------------------===//

/// Three blocks combine 512 bytes of buffer 1 with those of buffer 0.
std::string reduction(const std::string &operation) {
  return hopper(kernel(2,
                       R"(
    mov.u32 %r1, memory; mad.lo.u32 %r2, %r0, 16, %r1;
    mad.wide.u32 %rd2, %r0, 16, %rd1;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];
    st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 0; @%p1 ret;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.)" +
                           operation + R"( [%rd0], [%r1], 512;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
)",
                       512));
}

/// The expected bits after three blocks; the values are those of `given`,
/// repeated.
template <class T>
void expectReduction(const std::string &operation, const std::vector<T> &old,
                     const std::vector<T> &given, T (*combine)(T, T)) {
  size_t count = 512 / sizeof(T);
  std::vector<T> to(count), from(count);
  for (size_t i = 0; i < count; ++i) {
    to[i] = old[i / given.size() % old.size()];
    from[i] = given[i % given.size()];
  }
  std::vector<T> before = to;
  PtxRun run;
  run.text = reduction(operation);
  run.grid = {3, 1, 1};
  ASSERT_EQ(run.run(to, from), "") << operation;
  for (size_t i = 0; i < count; ++i) {
    T expected = before[i];
    for (int block = 0; block < 3; ++block)
      expected = combine(expected, from[i]);
    EXPECT_EQ(0, std::memcmp(&to[i], &expected, sizeof(T)))
        << operation << " of " << +before[i] << ", " << +from[i] << ": "
        << +to[i];
  }
}

template <class T> std::vector<T> wholeEdges() {
  using Limits = std::numeric_limits<T>;
  return {0, 1, T(-1), 7, Limits::min(), Limits::max(), 1000};
}

template <class T> T add(T a, T b) { return T(a + b); }
template <class T> T least(T a, T b) { return std::min(a, b); }
template <class T> T most(T a, T b) { return std::max(a, b); }

TEST(PtxBulkReduction, WholeNumbers) {
  auto u32 = wholeEdges<uint32_t>();
  auto s32 = wholeEdges<int32_t>();
  auto u64 = wholeEdges<uint64_t>();
  auto s64 = wholeEdges<int64_t>();
  expectReduction<uint32_t>("add.u32", u32, u32, add);
  expectReduction<uint32_t>("add.s32", u32, u32, add); // Equal bits.
  expectReduction<uint64_t>("add.u64", u64, u64, add);
  expectReduction<uint32_t>("min.u32", u32, u32, least);
  expectReduction<uint32_t>("max.u32", u32, u32, most);
  expectReduction<int32_t>("min.s32", s32, s32, least);
  expectReduction<int32_t>("max.s32", s32, s32, most);
  expectReduction<uint64_t>("min.u64", u64, u64, least);
  expectReduction<uint64_t>("max.u64", u64, u64, most);
  expectReduction<int64_t>("min.s64", s64, s64, least);
  expectReduction<int64_t>("max.s64", s64, s64, most);
  expectReduction<uint32_t>("inc.u32", u32, u32, [](uint32_t a, uint32_t b) {
    return a >= b ? 0 : a + 1;
  });
  expectReduction<uint32_t>("dec.u32", u32, u32, [](uint32_t a, uint32_t b) {
    return a == 0 || a > b ? b : a - 1;
  });
  expectReduction<uint32_t>("and.b32", u32, u32,
                            [](uint32_t a, uint32_t b) { return a & b; });
  expectReduction<uint64_t>("or.b64", u64, u64,
                            [](uint64_t a, uint64_t b) { return a | b; });
  expectReduction<uint64_t>("xor.b64", u64, u64,
                            [](uint64_t a, uint64_t b) { return a ^ b; });
}

float widen(uint16_t bits) { return asFloat(uint64_t(bits) << 16); }

TEST(PtxBulkReduction, Floats) {
  std::vector<float> f32 = {0, 1, -2.5, 1e30f, 3e-40f, 0.1f, -0.0f};
  expectReduction<float>("add.f32", f32, f32, add);
  std::vector<double> f64 = {0, 1, -2.5, 1e300, 3e-310, 0.1};
  expectReduction<double>("add.f64", f64, f64, add);
  // 1, -1, 256, 0.5, -0, 3.39e38.
  std::vector<uint16_t> bf16 = {0x3f80, 0xbf80, 0x4380, 0x3f00, 0x8000, 0x7f7f};
  expectReduction<uint16_t>(
      "add.noftz.bf16", bf16, bf16, [](uint16_t a, uint16_t b) {
        // To nearest even.
        uint64_t bits = bitsOf(widen(a) + widen(b));
        return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      });
  expectReduction<uint16_t>("min.bf16", bf16, bf16, [](uint16_t a, uint16_t b) {
    return widen(b) < widen(a) ? b : a;
  });
  expectReduction<uint16_t>("max.bf16", bf16, bf16, [](uint16_t a, uint16_t b) {
    return widen(b) > widen(a) ? b : a;
  });
  // f16: 1 + 2^-11 is a tie, a NaN loses against a number, +0 is larger than
  // -0.
  std::vector<uint16_t> one = {0x3c00}, tie = {0x1000};
  expectReduction<uint16_t>("add.noftz.f16", one, tie,
                            [](uint16_t a, uint16_t) { return a; });
  std::vector<uint16_t> quiet = {0x7e00}, zero = {0}, minus = {0x8000};
  expectReduction<uint16_t>("min.f16", quiet, one,
                            [](uint16_t, uint16_t b) { return b; });
  expectReduction<uint16_t>("min.f16", one, quiet,
                            [](uint16_t a, uint16_t) { return a; });
  expectReduction<uint16_t>("min.f16", zero, minus,
                            [](uint16_t, uint16_t b) { return b; });
  expectReduction<uint16_t>("max.f16", minus, zero,
                            [](uint16_t, uint16_t b) { return b; });
}

TEST(PtxBulkReduction, WhatIsRefused) {
  // ptxas refuses these operations.
  for (const char *operation :
       {"add.f16", "add.bf16", "add.s64", "add.b32", "min.f32", "inc.u64",
        "and.u32", "or.s64", "max.noftz.f16", "add.noftz.f32", "min.b64"})
    EXPECT_TRUE(has(parseError(reduction(operation)), "unknown form"))
        << operation;
  std::vector<uint32_t> to(128), from(128);
  auto wrong = [&](const std::string &before, const std::string &after) {
    PtxRun run;
    run.text = changed(reduction("add.u32"), before, after);
    run.grid = {3, 1, 1};
    return run.run(to, from);
  };
  EXPECT_TRUE(has(wrong("fence.proxy.async.shared::cta;", ""),
                  "without fence.proxy.async"));
  EXPECT_TRUE(has(wrong("cp.async.bulk.wait_group.read 0;", ""),
                  "ends before this copy was waited for"));
  EXPECT_TRUE(has(wrong(", 512;", ", 520;"), "multiples of 16"));
  EXPECT_TRUE(
      has(wrong("[%r1], 512;", "[%r1+16], 512;"), "outside of shared memory"));
  EXPECT_TRUE(has(wrong("[%rd0], [%r1]", "[%rd0+16], [%r1]"), "buffer 0"));
  // Plain copies are no reductions: blocks that write the same bytes race.
  EXPECT_TRUE(has(wrong("cp.reduce.async.bulk.global.shared::cta.bulk_group."
                        "add.u32",
                        "cp.async.bulk.global.shared::cta.bulk_group"),
                  "race between blocks"));
}

/// A box of 8 x 3 elements of a tensor of 7 x 5, in two blocks.
TEST(PtxBulkReduction, BoxesOfTensors) {
  auto run = [&](const std::string &operation, uint8_t type, auto &tensor,
                 auto &values) {
    std::vector<TensorMap> maps(1);
    TensorMap &map = maps[0];
    map.address = reinterpret_cast<uint64_t>(tensor.data());
    map.rank = 2;
    map.type = type;
    map.strides[0] = 32;
    map.sizes[0] = 7;
    map.sizes[1] = 5;
    map.box[0] = 8;
    map.box[1] = 3;
    map.steps[0] = map.steps[1] = 1;
    EXPECT_EQ(map.check(), "");
    PtxRun run;
    run.text = hopper(kernel(3,
                             R"(
      mov.u32 %r1, memory; mad.lo.u32 %r2, %r0, 4, %r1;
      mad.wide.u32 %rd4, %r0, 4, %rd1; setp.gt.u32 %p2, %r0, 23;
      @!%p2 ld.global.u32 %r3, [%rd4]; @!%p2 st.shared.u32 [%r2], %r3;
      fence.proxy.async; bar.sync 0;
      setp.ne.u32 %p1, %r0, 0; @%p1 ret;
      mov.u32 %r4, 2; mov.u32 %r5, 3;
      cp.reduce.async.bulk.tensor.2d.global.shared::cta.)" +
                                 operation +
                                 R"(.tile.bulk_group [%rd0, {%r4, %r5}], [%r1];
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
)",
                             128));
    run.text = changed(run.text, "align 16", "align 128");
    run.grid = {2, 1, 1};
    return run.run(maps, values, tensor);
  };
  std::vector<float> tensor(40, 1), values(24);
  for (size_t i = 0; i < 24; ++i)
    values[i] = float(i + 1);
  ASSERT_EQ(run("add", 7, tensor, values), "");
  // Rows 3 and 4, and columns 2 to 6, are inside the tensor.
  for (size_t row = 0; row < 5; ++row)
    for (size_t column = 0; column < 8; ++column) {
      bool isIn = row >= 3 && column >= 2 && column < 7;
      float sum = isIn ? 2 * values[(row - 3) * 8 + column - 2] : 0;
      EXPECT_EQ(tensor[row * 8 + column], 1 + sum);
    }
  EXPECT_TRUE(has(run("min", 7, tensor, values), "know no such operation"));
  std::vector<int32_t> whole(40, 9), least(24, -3);
  ASSERT_EQ(run("min", 3, whole, least), "");
  EXPECT_EQ(whole[3 * 8 + 2], -3);
  EXPECT_EQ(whole[3 * 8 + 7], 9);
}

//===----------------------------------------------------------------------===//
// cp.async.mbarrier.arrive
//===----------------------------------------------------------------------===//

/// The first warp copies; the second waits and reads.
const std::string producer = R"(
    mov.u32 %r1, memory; and.b32 %r2, %r0, 31; setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r1+128], 32;
    bar.sync 0;
    mad.lo.u32 %r3, %r2, 4, %r1; mad.wide.u32 %rd2, %r2, 4, %rd0;
    setp.gt.u32 %p2, %r0, 31; @%p2 bra wait;
    cp.async.ca.shared.global [%r3], [%rd2], 4;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1+128];
    bra end;
  wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1+128], 0;
    @!%p3 bra wait;
    ld.shared.u32 %r4, [%r3];
    mad.wide.u32 %rd3, %r2, 4, %rd1; st.global.u32 [%rd3], %r4;
  end:
    bar.sync 0;
)";

std::string produce(const std::string &body, std::optional<uint64_t> order) {
  PtxRun run;
  run.text = hopper(kernel(2, body, 136));
  run.block = {64, 1, 1};
  run.options.order = order;
  std::vector<uint32_t> in(32), out(32);
  for (uint32_t i = 0; i < 32; ++i)
    in[i] = 3 * i + 1;
  std::string wrong = run.run(in, out);
  if (wrong.empty())
    EXPECT_EQ(in, out);
  return wrong;
}

TEST(PtxAsyncArrival, TellsThatCopiesHaveCome) {
  const std::string noinc = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 "
                            "[%r1+128];";
  for (std::optional<uint64_t> order :
       {std::optional<uint64_t>(), {1}, {2}, {3}, {4}}) {
    auto wrong = [&](const std::string &from, const std::string &to) {
      return produce(changed(producer, from, to), order);
    };
    EXPECT_EQ(produce(producer, order), "");
    // Without noinc, the copies' arrival does not count as the thread's own: it
    // must also arrive.
    std::string both = "cp.async.mbarrier.arrive.shared.b64 [%r1+128];\n"
                       "mbarrier.arrive.shared::cta.b64 _, [%r1+128];";
    EXPECT_EQ(wrong(noinc, both), "");
    EXPECT_TRUE(
        has(wrong(noinc, both.substr(0, both.find('\n'))), "waits for ever"));
    EXPECT_EQ(wrong(noinc, "cvt.u64.u32 %rd5, %r1; cvta.shared.u64 %rd5, %rd5;"
                           "cp.async.mbarrier.arrive.noinc.b64 [%rd5+128];"),
              "");
    EXPECT_TRUE(has(wrong(noinc, "mbarrier.arrive.shared::cta.b64 _, "
                                 "[%r1+128];"),
                    "before the wait for the asynchronous copy"));
    EXPECT_FALSE(wrong("@!%p3 bra wait;", "").empty());
    // The phase completes before the last copy does.
    EXPECT_FALSE(wrong("[%r1+128], 32;", "[%r1+128], 31;").empty());
    EXPECT_TRUE(has(wrong("[%r1+128], 32;\n",
                          "[%r1+128], 31;\n@%p1 mbarrier.expect_tx.relaxed.cta."
                          "shared::cta.b64 [%r1+128], 4;\n"),
                    "which expects none in this phase"));
    EXPECT_TRUE(
        has(wrong("[%r1+128], 32;", "[%r1+128], 33;"), "waits for ever"));
    // A copy that is issued after the arrival is not covered by it.
    EXPECT_TRUE(
        has(wrong("cp.async.ca.shared.global [%r3], [%rd2], 4;\n    " + noinc,
                  noinc + "\ncp.async.ca.shared.global [%r3], [%rd2], 4;"),
            "before the wait for the asynchronous copy"));
    // The warp that copies also has to wait before it reads.
    EXPECT_TRUE(has(wrong("bra end;", "ld.shared.u32 %r4, [%r3];\nbra end;"),
                    "before the wait for the asynchronous copy"));
    EXPECT_EQ(wrong("bra end;", "cp.async.wait_all; ld.shared.u32 %r4, [%r3];\n"
                                "bra end;"),
              "");
  }
}

} // namespace
