//===- ParserTest.cpp - PTX that the machine reads and refuses ------------===//
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

TEST(PtxParser, ErrorsNameTheLine) {
  EXPECT_EQ(parseError(kernel(0, "")), "");
  // Eight lines precede the body.
  EXPECT_EQ(parseError(kernel(0, "add.s32 %r1, %r0, 1;\nfrobnicate.b32 %r1;")),
            "line 10: unknown instruction 'frobnicate'");
  EXPECT_EQ(parseError(kernel(0, "add.q32 %r1, %r0, 1;")),
            "line 9: 'add.q32' has no type");
  EXPECT_EQ(parseError(kernel(0, "shfl.sync.bfly.b64 %rd1, %rd1, 1, 31, -1;")),
            "line 9: unknown form 'shfl.sync.bfly.b64' of shfl");
  EXPECT_EQ(parseError(kernel(0, "add.s32 %r1, %r99, 1;")),
            "line 9: unknown register '%r99'");
  EXPECT_EQ(parseError(kernel(0, "add.s32 %r1, %rd0, 1;")),
            "line 9: %rd0 has 64 bits, 'add.s32' takes 32");
  EXPECT_EQ(parseError(kernel(0, "bra nowhere;")),
            "line 9: unknown label 'nowhere'");
  EXPECT_EQ(parseError(kernel(0, "mov.u32 %tid.x, 1;")),
            "line 9: %tid.x cannot be written");
  EXPECT_EQ(parseError(kernel(0, "add.s32 %r1 %r0, 1;")),
            "line 9: expected ',' or ';', not '%r0'");
  EXPECT_EQ(parseError(kernel(0, "mov.u64 %rd0, nothing;")),
            "line 9: unknown name 'nothing'");
}

TEST(PtxParser, OtherChipsAreRefused) {
  EXPECT_EQ(parseError(".version 8.0\n.target sm_70\n.address_size 64\n"),
            "line 1: unknown target 'sm_70': sm_80 and sm_90 are known");
  EXPECT_TRUE(has(parseError("nothing"), "line 1"));
}

/// Comments, .file, .loc, sections, scopes, pragmas, arrays with values.
TEST(PtxParser, ReadsWhatCompilersWrite) {
  std::string text = ptx(R"(
.file 1 "a.py"
// A comment. /* not one */
.global .align 4 .f32 table[3] = {0f3F800000, 2.0, -3.5e0};
.const .align 8 .u64 big = 0x123456789abcdef0;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 .ptr .global .align 4 out)
.maxntid 32, 1, 1
{
  .loc 1 7 3, function_name $L1, inlined_at 1 2 3
  .reg .b64 %rd<3>; .reg .f32 %f<4>; .reg .b32 %r<3>; .reg .b64 %w;
  .pragma "nounroll";
  ld.param.u64 %rd0, [out];
  mov.u64 %rd1, table;
  ld.global.f32 %f0, [%rd1+4];
  ld.global.f32 %f1, [table+8];
  { /* A scope
       of several lines. */
    .reg .f32 %f0;
    add.f32 %f0, %f1, 0f3F000000;
    st.global.f32 [%rd0], %f0;
  }
  st.global.f32 [%rd0+4], %f0;
  ld.const.u64 %w, [big];
  st.global.u64 [%rd0+8], %w;
  ret;
}
.section .debug_abbrev
{
.b8 1 // Abbreviation
.b32 -3
}
)");
  PtxRun run;
  run.text = text;
  run.block = {1, 1, 1};
  std::vector<uint32_t> out(4);
  ASSERT_EQ(run.run(out), "");
  EXPECT_EQ(asFloat(out[0]), -3);
  EXPECT_EQ(asFloat(out[1]), 2);
  EXPECT_EQ(out[2] | uint64_t(out[3]) << 32, 0x123456789abcdef0u);
}

/// Errors name the source line that .loc gives.
TEST(PtxParser, FaultsNameTheSource) {
  PtxRun run;
  run.text = ptx(R"(.file 2 "b.cu"
.visible .entry k()
{
  .loc 2 17 1
  trap;
})");
  EXPECT_EQ(run.run(), "kernel k, line 8 (b.cu:17), trap: the kernel stops "
                       "itself; block (0, 0, 0), threads 0-31");
}

TEST(PtxParser, LaunchesAreChecked) {
  PtxRun run;
  run.text = kernel(1, "");
  EXPECT_EQ(run.run(), "kernel k: 0 arguments for 1 parameters");
  run.text = kernel(0, "");
  run.block = {1025, 1, 1};
  EXPECT_TRUE(has(run.run(), "1025 threads is too large"));
  run.block = {32, 1, 1};
  run.grid = {1, 65536, 1};
  EXPECT_TRUE(has(run.run(), "too large"));
  run.grid = {1, 1, 1};
  run.sharedBytes = 164 * 1024;
  EXPECT_EQ(run.run(), "kernel k: 167936 bytes of shared memory; the chip has "
                       "166912");
  run.text.replace(run.text.find("sm_80"), 5, "sm_90");
  EXPECT_EQ(run.run(), "");
  run.sharedBytes = 0;
  run.text = kernel(0, "", 49153);
  EXPECT_TRUE(has(run.run(), "declares 49153 bytes"));
}

TEST(PtxParser, ParametersHaveALimit) {
  auto error = [](const char *version, int bytes) {
    return parseError(".version " + std::string(version) +
                      "\n.target sm_80\n.address_size 64\n"
                      ".entry k(.param .b8 p[" +
                      std::to_string(bytes) + "]) { ret; }\n");
  };
  EXPECT_EQ(error("8.0", 4096), "");
  EXPECT_TRUE(has(error("8.0", 4097), "4097 bytes of parameters; 4096 can be"));
  EXPECT_EQ(error("8.1", 32764), "");
  EXPECT_TRUE(has(error("8.1", 32765), "32764 can be"));
}

} // namespace
