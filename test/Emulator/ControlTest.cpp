//===- ControlTest.cpp - Paths and barriers of the PTX machine ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <algorithm>

using namespace heddle::test;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Every thread writes %r1 to its element.
const std::string writeOut = "mad.wide.u32 %rd10, %r0, 4, %rd0;\n"
                             "st.global.u32 [%rd10], %r1;\n";

std::vector<uint32_t> results(const std::string &body, int64_t threads = 32) {
  PtxRun run;
  run.text = kernel(1, body + writeOut);
  run.block = {threads, 1, 1};
  std::vector<uint32_t> out(threads);
  EXPECT_EQ(run.run(out), "");
  return out;
}

TEST(PtxControl, LoopsOfDifferentLengths) {
  // The sum of 1..tid, with a nested branch in each iteration.
  auto out = results(R"(
    mov.u32 %r1, 0; mov.u32 %r2, 0;
  loop:
    setp.ge.u32 %p1, %r2, %r0;
    @%p1 bra done;
    add.u32 %r2, %r2, 1;
    and.b32 %r3, %r2, 1;
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra even;
    add.u32 %r1, %r1, %r2;
    bra.uni loop;
  even:
    add.u32 %r1, %r1, %r2;
    bra.uni loop;
  done:
)");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], i * (i + 1) / 2);
}

/// A shuffle needs all lanes, so it shows that they have converged.
TEST(PtxControl, PathsMeetAtThePostDominator) {
  auto out = results(R"(
    setp.lt.u32 %p1, %r0, 7;
    @%p1 bra small;
    mul.lo.u32 %r1, %r0, 3;
    setp.lt.u32 %p2, %r0, 20;
    @%p2 bra join;
    add.u32 %r1, %r1, 1000;
    bra.uni join;
  small:
    mov.u32 %r1, %r0;
  join:
    shfl.sync.bfly.b32 %r1, %r1, 16, 31, -1;
)");
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t from = i ^ 16;
    EXPECT_EQ(out[i], from < 7 ? from : from < 20 ? 3 * from : 3 * from + 1000);
  }
}

TEST(PtxControl, PredicatedOpsKeepOtherLanes) {
  auto out = results(R"(
    mov.u32 %r1, 5;
    setp.gt.u32 %p1, %r0, 10;
    @%p1 mov.u32 %r1, 7;
    @!%p1 add.u32 %r1, %r1, 1;
)");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], i > 10 ? 7u : 6u);
}

/// Some lanes leave before a barrier that the others reach; the last warp of a
/// block may be partial.
/// Lanes that wait on another path keep their numbers, though a predicate that
/// this path sets may have their register's memory.
TEST(PtxControl, PredicatesKeepNumbersOfOtherPaths) {
  PtxRun run;
  run.text = kernel(1, R"(
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd1, %rd0, %rd1;
  bra START;
LOW:
  cvt.u32.u16 %r1, %h0;
  st.global.u32 [%rd1], %r1;
  bra END;
START:
  cvt.u16.u32 %h0, %r0;
  setp.lt.u32 %p0, %r0, 16;
  @%p0 bra LOW;
  mov.u32 %r3, 99;
  setp.ne.u32 %p1, %r0, %r3;
  setp.lt.u32 %p2, %r0, %r3;
  selp.u32 %r2, 60, 200, %p1;
  selp.u32 %r4, 40, 200, %p2;
  add.u32 %r2, %r2, %r4;
  st.global.u32 [%rd1], %r2;
END:
  ret;
)");
  std::vector<uint32_t> found(32);
  ASSERT_EQ(run.run(found), "");
  for (uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(found[lane], lane < 16 ? lane : 100) << lane;
}

TEST(PtxControl, EarlyExit) {
  PtxRun run;
  run.text = kernel(1, R"(
    setp.eq.u32 %p1, %r0, 3;
    @%p1 bra out;
    bar.sync 0;
    mov.u32 %r1, 9;
)" + writeOut + "out:\n");
  run.block = {48, 1, 1};
  std::vector<uint32_t> out(48);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 48; ++i)
    EXPECT_EQ(out[i], i == 3 ? 0u : 9u);
}

TEST(PtxControl, BarrierOrdersAccesses) {
  PtxRun run;
  run.text = kernel(1, R"(
    mov.u32 %r5, memory;
    mad.lo.u32 %r6, %r0, 4, %r5;
    st.shared.u32 [%r6], %r0;
    bar.sync 0;
    sub.u32 %r7, 63, %r0;
    mad.lo.u32 %r8, %r7, 4, %r5;
    ld.shared.u32 %r1, [%r8];
)" + writeOut,
                    256);
  run.block = {64, 1, 1};
  std::vector<uint32_t> out(64);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(out[i], 63 - i);
  // Without the barrier, the machine reports which threads race, and where.
  run.text.replace(run.text.find("bar.sync 0;"), 11, "");
  std::string fault = run.run(out);
  EXPECT_TRUE(has(fault, "which nobody has written")) << fault;
}

std::string barrierFault(const std::string &body, int64_t threads = 64) {
  PtxRun run;
  run.text = kernel(0, body, 256);
  run.block = {threads, 1, 1};
  return run.run();
}

TEST(PtxControl, BarriersThatNotAllReach) {
  std::string fault = barrierFault(R"(
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bar.sync 0;
)");
  EXPECT_TRUE(has(fault, "divergent barrier: 32 of 64 threads wait at barrier "
                         "0, thread 32 has returned"))
      << fault;
  fault = barrierFault(R"(
    setp.lt.u32 %p1, %r0, 5;
    @%p1 bra join;
    bar.sync 0;
  join:
    add.u32 %r1, %r0, 1;
)");
  EXPECT_TRUE(has(fault, "divergent barrier: only 27 lanes of the warp"))
      << fault;
  EXPECT_TRUE(has(fault, "threads 5-31")) << fault;
  // Two barriers of one number in two branches are one barrier of two warps.
  EXPECT_EQ(barrierFault(R"(
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra first;
    bar.sync 0;
    ret;
  first:
    bar.sync 0;
)"),
            "");
  fault = barrierFault("setp.lt.u32 %p1, %r0, 32; selp.u32 %r1, 1, 2, %p1;\n"
                       "bar.sync %r1;");
  EXPECT_TRUE(has(fault, "32 of 64 threads wait at barrier 1")) << fault;
  EXPECT_EQ(barrierFault("bar.sync 16;"),
            "kernel k, line 10, bar.sync: there are 16 barriers, no number 16; "
            "block (0, 0, 0), threads 0-31");
}

/// A producer that arrives, and a consumer that waits, at a named barrier.
TEST(PtxControl, NamedBarriers) {
  std::string body = R"(
    mov.u32 %r5, memory;
    and.b32 %r3, %r0, 31;
    mad.lo.u32 %r6, %r3, 4, %r5;
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra produce;
    bar.sync 3, 64;
    ld.shared.u32 %r1, [%r6];
    bra.uni join;
  produce:
    st.shared.u32 [%r6], %r0;
    bar.arrive 3, 64;
    mov.u32 %r1, 77;
  join:
)" + writeOut;
  PtxRun run;
  run.text = kernel(1, body, 128);
  run.block = {64, 1, 1};
  std::vector<uint32_t> out(64);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(out[i], i < 32 ? 77 : i - 32);
  // A barrier of fewer threads does not order the warps.
  size_t at = run.text.find("bar.sync 3, 64");
  run.text.replace(at, 14, "bar.sync 3, 32");
  run.text.replace(run.text.find("bar.arrive 3, 64"), 16, "bar.arrive 3, 32");
  std::string fault = run.run(out);
  EXPECT_TRUE(has(fault, "races with a write")) << fault;
}

TEST(PtxControl, RacesOfSharedMemory) {
  const std::string base = "mov.u32 %r5, memory;\n"
                           "mad.lo.u32 %r6, %r0, 4, %r5;\n"
                           "st.shared.u32 [%r6], %r0;\nbar.sync 0;\n";
  EXPECT_EQ(barrierFault(base + "ld.shared.u32 %r1, [%r5];"), "");
  std::string fault = barrierFault(base + "st.shared.u32 [%r5], %r0;");
  EXPECT_TRUE(has(fault, "st.shared.u32: write by thread 33 races with a write "
                         "by thread 32 at byte 0 of shared memory"))
      << fault;
  // Writes of the same value are no race.
  EXPECT_EQ(barrierFault(base + "st.shared.u32 [%r5], 4;"), "");
  // A write after reads of other threads.
  std::string reads = base + "ld.shared.u32 %r1, [%r5];\n";
  std::string writes = "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r5], 9;";
  fault = barrierFault(reads + writes, 32);
  EXPECT_TRUE(has(fault, "races with reads of several threads")) << fault;
  EXPECT_EQ(barrierFault(reads + "bar.sync 0;\n" + writes), "");
  // bar.warp.sync alone orders the lanes of a warp.
  std::string neighbour = "xor.b32 %r7, %r0, 1;\nmad.lo.u32 %r7, %r7, 4, %r5;\n"
                          "ld.shared.u32 %r1, [%r7];";
  std::string start = "mov.u32 %r5, memory;\nmad.lo.u32 %r6, %r0, 4, %r5;\n"
                      "st.shared.u32 [%r6], %r0;\n";
  fault = barrierFault(start + neighbour);
  EXPECT_TRUE(has(fault, "nobody has written") || has(fault, "races")) << fault;
  EXPECT_EQ(barrierFault(start + "bar.warp.sync -1;\n" + neighbour), "");
}

TEST(PtxControl, SpecialRegisters) {
  PtxRun run;
  run.text = kernel(1, R"(
    mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r0;
    mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; mov.u32 %r7, %nctaid.x;
    mad.lo.u32 %r8, %r6, %r7, %r5;
    mov.u32 %r9, %laneid; mov.u32 %r10, %warpid; mov.u32 %r11, %lanemask_lt;
    mad.lo.u32 %r12, %r8, 64, %r4;
    mad.wide.u32 %rd1, %r12, 16, %rd0;
    st.global.v4.u32 [%rd1], {%r8, %r9, %r10, %r11};
)");
  run.block = {16, 4, 1};
  run.grid = {3, 2, 1};
  std::vector<uint32_t> out(4 * 64 * 6);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 64 * 6; ++i) {
    EXPECT_EQ(out[4 * i], i / 64);
    EXPECT_EQ(out[4 * i + 1], i % 32);
    EXPECT_EQ(out[4 * i + 2], i % 64 / 32);
    EXPECT_EQ(out[4 * i + 3], (1u << i % 32) - 1);
  }
}

/// Votes of three warps, of which the last has 5 threads.
/// Time goes on, and is the same in every run.
TEST(PtxControl, Clocks) {
  const std::string body = "mov.u64 %rd1, %globaltimer; mov.u32 %r2, %clock;\n"
                           "mov.u64 %rd2, %clock64; cvt.u32.u64 %r3, %rd2;\n"
                           "cvt.u32.u64 %r4, %rd1; sub.u32 %r2, %r2, %r4;\n"
                           "setp.lt.u32 %p1, %r4, %r3;\n"
                           "selp.u32 %r1, %r2, 0, %p1;\n";
  std::vector<uint32_t> out = results(body, 64);
  EXPECT_GT(*std::min_element(out.begin(), out.end()), 0u);
  EXPECT_EQ(results(body, 64), out);
  EXPECT_FALSE(parseError(kernel(0, "mov.u32 %r1, %clock64;")).empty());
}

TEST(PtxControl, BarriersCountVotes) {
  auto vote = [](const std::string &lines) { return results(lines, 69); };
  for (uint32_t value : vote("setp.lt.u32 %p1, %r0, 40;\n"
                             "bar.red.popc.u32 %r1, 1, %p1;"))
    EXPECT_EQ(value, 40u);
  for (uint32_t value : vote("setp.lt.u32 %p1, %r0, 40;\n"
                             "barrier.cta.red.popc.aligned.u32 %r1, 1, 96, "
                             "!%p1;"))
    EXPECT_EQ(value, 29u);
  auto holds = [&](const std::string &kind, int bound) {
    auto out =
        vote("setp.lt.u32 %p1, %r0, " + std::to_string(bound) + ";\nbar.red." +
             kind + ".pred %p2, 0, %p1;\nselp.u32 %r1, 1, 0, %p2;");
    EXPECT_EQ(std::count(out.begin(), out.end(), out[0]), 69);
    return out[0];
  };
  EXPECT_EQ(holds("and", 69), 1u);
  EXPECT_EQ(holds("and", 68), 0u);
  EXPECT_EQ(holds("or", 1), 1u);
  EXPECT_EQ(holds("or", 0), 0u);
}

/// A function with a loop and two ends, called in one that lanes call with
/// different operands, and not all of them.
/// A branch by an index: each lane its own way, two lists, one in a function.
TEST(PtxControl, BranchesByIndex) {
  PtxRun run;
  run.text = kernel(1, R"(
    mov.u32 %r1, 0; mov.u32 %r5, 0;
    targets: .branchtargets zero, one, two, one, end;
  again:
    add.u32 %r2, %r0, %r5; rem.u32 %r2, %r2, 5;
    brx.idx %r2, targets;
  zero: add.u32 %r1, %r1, 1;
  one: add.u32 %r1, %r1, 10; bra.uni end;
  two: mad.lo.u32 %r1, %r1, 3, 100;
  end:
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 3; @%p1 bra again;
    setp.gt.u32 %p2, %r0, 15; mov.u32 %r6, 1;
    others: .branchtargets three, four;
    @%p2 brx.idx.uni %r6, others;
  three: add.u32 %r1, %r1, 1000; bra done;
  four: add.u32 %r1, %r1, 2000;
  done:)" + writeOut);
  std::vector<uint32_t> out(32);
  for (uint64_t order = 0; order < 3; ++order) {
    run.options.order = order;
    ASSERT_EQ(run.run(out), "");
    for (uint32_t i = 0; i < 32; ++i) {
      uint32_t expected = 0;
      for (uint32_t turn = 0; turn < 3; ++turn)
        switch ((i + turn) % 5) {
        case 0:
          expected += 11;
          break;
        case 1:
        case 3:
          expected += 10;
          break;
        case 2:
          expected = 3 * expected + 100;
        }
      EXPECT_EQ(out[i], expected + (i > 15 ? 2000 : 1000)) << i;
    }
  }
  std::string text = run.text;
  run.text = changed(text, "rem.u32 %r2, %r2, 5", "rem.u32 %r2, %r2, 6");
  EXPECT_TRUE(has(run.run(out), "index 5 of 5 targets; block (0, 0, 0), "
                                "thread 5"))
      << run.run(out);
  run.text = changed(text, "%r2, targets", "%r2, target");
  EXPECT_TRUE(has(run.run(out), "unknown list of labels 'target'"));
  run.text = changed(text, "targets zero", "targets nil");
  EXPECT_TRUE(has(run.run(out), "unknown label 'nil'"));
}

TEST(PtxControl, BranchesByIndexInFunctions) {
  PtxRun run;
  run.text = kernel(1, R"(
    { .param .b32 n; .param .b32 value; st.param.b32 [n], %r0;
      call (value), choose, (n); ld.param.b32 %r1, [value]; }
    { .param .b32 n; .param .b32 value; st.param.b32 [n], %r1;
      call (value), choose, (n); ld.param.b32 %r1, [value]; })" +
                           writeOut);
  run.text.insert(run.text.find(".visible"), R"(
.func (.param .b32 result) choose(.param .b32 n) {
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [n]; and.b32 %r2, %r1, 1;
  ways: .branchtargets even, odd;
  brx.idx %r2, ways;
even: shr.u32 %r1, %r1, 1; bra end;
odd: mad.lo.u32 %r1, %r1, 3, 1;
end: st.param.b32 [result], %r1; ret;
}
)");
  std::vector<uint32_t> out(32);
  ASSERT_EQ(run.run(out), "");
  auto collatz = [](uint32_t n) { return n % 2 ? 3 * n + 1 : n / 2; };
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], collatz(collatz(i)));
}

TEST(PtxControl, Calls) {
  std::string functions = R"(
.func (.param .b32 result) sum(.param .b32 n) {
  .reg .b32 %r<4>; .reg .pred %p1;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, 0;
again:
  setp.eq.u32 %p1, %r1, 0;
  @%p1 st.param.b32 [result], %r2;
  @%p1 ret;
  add.u32 %r2, %r2, %r1;
  sub.u32 %r1, %r1, 1;
  bra again;
}
.func (.param .align 4 .b8 result[8]) both(.param .align 4 .b8 pair[8]) {
  .reg .b32 %r<8>;
  ld.param.v2.u32 {%r1, %r2}, [pair];
  { .param .b32 n; .param .b32 value;
    st.param.b32 [n], %r1;
    call.uni (value), sum, (n);
    ld.param.b32 %r3, [value]; }
  { .param .b32 n; .param .b32 value;
    st.param.b32 [n], %r2;
    call (value), sum, (n);
    ld.param.b32 %r4, [value]; }
  st.param.b32 [result], %r4;
  st.param.b32 [result+4], %r3;
  ret;
}
)";
  PtxRun run;
  run.text = kernel(1, R"(
    setp.ne.u32 %p1, %r0, 9;
    mov.u32 %r5, 77; mov.u32 %r6, 7;
    { .param .align 4 .b8 pair[8]; .param .align 4 .b8 value[8];
      add.u32 %r7, %r0, 3;
      st.param.b32 [pair], %r0;
      st.param.b32 [pair+4], %r7;
      @%p1 call (value), both, (pair);
      @%p1 ld.param.v2.b32 {%r5, %r6}, [value]; }
    mad.lo.u32 %r1, %r5, 1000, %r6;)" +
                           writeOut);
  run.text.insert(run.text.find(".visible"), functions);
  std::vector<uint32_t> out(32);
  ASSERT_EQ(run.run(out), "");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i],
              i == 9 ? 77007 : (i + 3) * (i + 4) / 2 * 1000 + i * (i + 1) / 2);
  run.text.replace(run.text.find("call.uni (value), sum, (n)"), 26,
                   "call.uni sum, (n)");
  EXPECT_TRUE(has(run.run(out), "a call of 'sum' with 1 results and operands"))
      << run.run(out);
  EXPECT_TRUE(has(parseError(ptx(".func f() { call f; ret; }\n"
                                 ".entry k() { call f; ret; }")),
                  "line 4: 'f' calls itself"));
  EXPECT_TRUE(has(parseError(ptx(".extern .func g();\n"
                                 ".entry k() { call g; ret; }")),
                  "'g', which has no body here"));
}

} // namespace
