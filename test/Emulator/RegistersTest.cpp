//===- RegistersTest.cpp - Limits of a block's registers ------------------===//
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

/// A kernel for sm_90a with directives and `body`; %r1 is the warpgroup.
std::string with(const std::string &directives, const std::string &body) {
  std::string text = hopper(kernel(1, "shr.u32 %r1, %r0, 7;\n" + body));
  return text.insert(text.find(")\n") + 1, " " + directives);
}

std::string run(const std::string &text, int64_t threads,
                std::optional<uint64_t> order = std::nullopt) {
  PtxRun run;
  run.text = text;
  run.block = {threads, 1, 1};
  run.options.order = order;
  std::vector<uint32_t> out(1);
  return run.run(out);
}

/// Registers of a thread, as the driver would report them.
int64_t registers(const std::string &text) {
  std::string error;
  auto module = Module::load(text, error);
  EXPECT_TRUE(module) << error;
  return module ? module->info("k")->registers : -1;
}

/// The first warpgroup releases registers that the two others take.
const std::string handOver = R"(
    setp.eq.u32 %p1, %r1, 0; @%p1 bra give;
    setmaxnreg.inc.sync.aligned.u32 232;
    bra end;
  give:
    setmaxnreg.dec.sync.aligned.u32 40;
  end:
)";

TEST(PtxRegisters, WarpgroupsHandThemOver) {
  // 168 registers for 384 threads, as ptxas -v prints for this PTX.
  const std::string bounds = ".reqntid 384 .minnctapersm 1";
  EXPECT_EQ(registers(with(bounds, handOver)), 168);
  for (std::optional<uint64_t> order :
       {std::optional<uint64_t>(), {0}, {1}, {2}}) {
    auto wrong = [&](const std::string &from, const std::string &to) {
      return run(with(bounds, changed(handOver, from, to)), 384, order);
    };
    EXPECT_EQ(run(with(bounds, handOver), 384, order), "");
    EXPECT_TRUE(
        has(wrong("u32 232", "u32 240"), "waits for ever for registers"));
    EXPECT_TRUE(has(wrong("u32 40", "u32 48"), "waits for ever for registers"));
    EXPECT_TRUE(
        has(wrong("inc.sync.aligned.u32 232", "inc.sync.aligned.u32 160"),
            "an increase from 168 to 160 registers"));
    EXPECT_TRUE(has(wrong("u32 40", "u32 176"),
                    "a decrease from 168 to 176 registers"));
    // One of a warpgroup's four warps does not take part.
    EXPECT_TRUE(
        has(wrong("@%p1 bra give;", "@%p1 bra give; setp.gt.u32 %p2, %r0, 351; "
                                    "@%p2 ret;"),
            "different wgmma or setmaxnreg"));
    EXPECT_TRUE(has(wrong("setmaxnreg.dec.sync.aligned.u32 40;",
                          "setmaxnreg.dec.sync.aligned.u32 48;\n"
                          "setmaxnreg.dec.sync.aligned.u32 40;"),
                    "may not have done the first"));
    EXPECT_EQ(wrong("setmaxnreg.dec.sync.aligned.u32 40;",
                    "setmaxnreg.dec.sync.aligned.u32 48; bar.sync 1, 128;\n"
                    "setmaxnreg.dec.sync.aligned.u32 40;"),
              "");
  }
  EXPECT_TRUE(has(run(with(".reqntid 352 .minnctapersm 1", handOver), 352),
                  "a warpgroup needs four warps"));
}

TEST(PtxRegisters, TextsThatDoNotStateThemAreLeftAlone) {
  // ptxas ignores setmaxnreg here, with a warning.
  const std::string much = changed(handOver, "u32 40", "u32 160");
  for (const char *bounds :
       {"", ".maxntid 384", ".reqntid 384", ".minnctapersm 2"})
    EXPECT_EQ(run(with(bounds, much), 384), "") << bounds;
  EXPECT_TRUE(has(run(with(".maxntid 384 .maxnreg 124", much), 384),
                  "a decrease from 128 to 160"));
}

TEST(PtxRegisters, BoundsAreThoseOfTheChip) {
  EXPECT_EQ(registers(with(".maxntid 384 .minnctapersm 2", handOver)), 80);
  EXPECT_EQ(registers(with(".maxntid 384 .maxnreg 128", handOver)), 128);
  EXPECT_EQ(registers(with(".maxnreg 128", handOver)), 128);
  // More registers than a thread can have: ignored.
  EXPECT_LT(registers(with(".maxnreg 300", handOver)), 20);
  EXPECT_TRUE(has(parseError(with(".maxntid 384 .reqntid 384", handOver)),
                  "both .maxntid and .reqntid"));
  // 200 values that are live at once.
  std::string many = ".reg .b32 %x<200>;\n";
  for (int i = 0; i < 200; ++i)
    many += "add.u32 %x" + std::to_string(i) + ", %r0, " + std::to_string(i) +
            ";\n";
  for (int i = 1; i < 200; ++i)
    many += "xor.b32 %x0, %x0, %x" + std::to_string(i) + ";\n";
  EXPECT_GE(registers(with("", many)), 200);
  EXPECT_EQ(registers(with(".maxntid 256 .minnctapersm 2", many)), 128);
  EXPECT_EQ(registers(with(".maxntid 256 .minnctapersm 4", many)), 64);
  EXPECT_EQ(registers(with(".maxnreg 96", many)), 96);
  EXPECT_TRUE(has(run(with("", many), 512), "registers; the chip has 65536"));
  EXPECT_EQ(run(with(".maxntid 512", many), 512), "");
}

} // namespace
