//===- GlobalRaceTest.cpp - Races between blocks in the PTX machine -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

using namespace heddle::test;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// The error when seven blocks of 32 threads run `body`. %r1 is the block, %r2
/// the thread of the grid, %rd2 the address of its word.
std::string
race(const std::string &body,
     heddle::emulator::Checks checks = heddle::emulator::Checks::Full) {
  PtxRun run;
  run.grid = {7, 1, 1};
  run.options.checks = checks;
  run.text = kernel(2, "mov.u32 %r1, %ctaid.x;\n"
                       "mad.lo.u32 %r2, %r1, 32, %r0;\n"
                       "mad.wide.u32 %rd2, %r2, 4, %rd0;\n" +
                           body);
  std::vector<uint32_t> a(7 * 32 + 8), b(64);
  return run.run(a, b);
}

TEST(PtxGlobalRace, BlocksThatTouchTheirOwn) {
  EXPECT_EQ(race("st.global.u32 [%rd2], %r0; ld.global.u32 %r3, [%rd2];"), "");
  EXPECT_EQ(race("ld.global.u32 %r3, [%rd0];"), ""); // All threads read.
  // Adjacent halves of a word.
  EXPECT_EQ(race("setp.eq.u32 %p1, %r0, 0; mul.wide.u32 %rd3, %r1, 2;\n"
                 "add.u64 %rd3, %rd3, %rd1; cvt.u16.u32 %h1, %r1;\n"
                 "@%p1 st.global.b16 [%rd3], %h1;"),
            "");
}

TEST(PtxGlobalRace, NamesBothBlocks) {
  std::string text = race("st.global.u32 [%rd2], %r0;\n"
                          "ld.global.u32 %r3, [%rd2+4];");
  EXPECT_TRUE(has(text, "kernel k, line 15, ld.global.u32: race between "
                        "blocks: block (0, 0, 0) reads what block (1, 0, 0) "
                        "writes, line 14: byte 128 from the start of 'buffer "
                        "0'") ||
              has(text, "kernel k, line 14, st.global.u32: race between "
                        "blocks: block (1, 0, 0) writes what block (0, 0, 0) "
                        "reads, line 15: byte 128 from the start of 'buffer "
                        "0'"))
      << text;
  text = race("setp.eq.u32 %p1, %r0, 31; @%p1 st.global.u32 [%rd1+12], %r1;");
  EXPECT_TRUE(has(text, "line 14, st.global.u32: race between blocks: block "
                        "(1, 0, 0) writes what block (0, 0, 0) writes"))
      << text;
  EXPECT_TRUE(has(text, "byte 12 from the start of 'buffer 1'")) << text;
  // Accesses of 16 bytes whose third word is another block's, and whose last
  // one is not.
  std::string wide = "and.b32 %r3, %r0, 3; setp.eq.u32 %p1, %r3, 3;\n"
                     "@%p1 st.global.v4.u32 [%rd2+4], {%r0, %r0, %r0, %r0};\n";
  EXPECT_TRUE(has(race(wide + "setp.eq.u32 %p2, %r0, 2;\n"
                              "@%p2 st.global.u32 [%rd2], %r1;"),
                  "race between blocks"));
  EXPECT_EQ(race(wide + "setp.eq.u32 %p2, %r0, 2;\n"
                        "@%p2 st.global.u32 [%rd2+24], %r1;"),
            "");
}

TEST(PtxGlobalRace, AtomicOperations) {
  EXPECT_EQ(race("red.global.add.u32 [%rd1], 1;"), "");
  EXPECT_TRUE(has(race("red.global.add.u32 [%rd1], 1;\n"
                       "ld.global.u32 %r3, [%rd1];"),
                  "race between blocks"));
  EXPECT_EQ(race("red.global.add.u32 [%rd1], 1;\n"
                 "ld.volatile.global.u32 %r3, [%rd1];"),
            "");
  // A volatile load does not write.
  EXPECT_EQ(race("ld.volatile.global.u32 %r3, [%rd1];\n"
                 "ld.global.u32 %r4, [%rd1];"),
            "");
  EXPECT_TRUE(
      has(race("setp.eq.u32 %p1, %r1, 3; @%p1 st.global.u32 [%rd1], %r0;\n"
               "ld.volatile.global.u32 %r3, [%rd1];"),
          "race between blocks"));
  // The last block to arrive reads what the others wrote.
  EXPECT_EQ(race("st.global.u32 [%rd2], %r0; membar.gl;\n"
                 "atom.global.add.u32 %r3, [%rd1], 1; membar.gl;\n"
                 "setp.lt.u32 %p1, %r3, 223; @%p1 ret;\n"
                 "ld.global.u32 %r4, [%rd0];"),
            "");
}

TEST(PtxGlobalRace, LightChecksDoNotLook) {
  EXPECT_EQ(race("setp.eq.u32 %p1, %r0, 3; @%p1 st.global.u32 [%rd1], %r1;",
                 heddle::emulator::Checks::Light),
            "");
}

/// ld.global.nc promises that the launch does not change the memory: not even
/// the same block may write it, before or after.
TEST(PtxGlobalRace, ConstantsAreNotWritten) {
  EXPECT_EQ(race("ld.global.nc.u32 %r3, [%rd1]; st.global.u32 [%rd2], %r3;"),
            "");
  std::string own = race("st.global.u32 [%rd2], %r0;\n"
                         "ld.global.nc.u32 %r3, [%rd2];");
  EXPECT_TRUE(has(own, "kernel k, line 15, ld.global.nc.u32: block (0, 0, 0) "
                       "reads as a constant what block (0, 0, 0) writes, line "
                       "14: byte 0 from the start of 'buffer 0'"))
      << own;
  std::string other = race("ld.global.nc.v2.u32 {%r3, %r4}, [%rd0+640];\n"
                           "setp.eq.u32 %p1, %r1, 5;\n"
                           "@%p1 red.global.add.u32 [%rd2], %r0;");
  EXPECT_TRUE(has(other, "reads as a constant what block (5, 0, 0) changes") &&
              has(other, ": byte 640 from the start of 'buffer 0'"))
      << other;
  EXPECT_EQ(race("st.global.u32 [%rd2], %r0; ld.global.nc.u32 %r3, [%rd2];",
                 heddle::emulator::Checks::Light),
            "");
}

} // namespace
