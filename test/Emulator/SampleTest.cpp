//===- SampleTest.cpp - Counts of a launch, estimated from some blocks ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/Sample.h"
#include "PtxRun.h"
#include "gtest/gtest.h"

using namespace heddle::test;
using heddle::emulator::SampledCounts;

namespace {

/// Threads store their number, but not those after `elements`. In every eighth
/// block, only half of the threads store.
std::string text(int64_t elements) {
  return kernel(1, R"(
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r3, %r1, %r2, %r0;
    setp.ge.u32 %p1, %r3, )" +
                       std::to_string(elements) +
                       R"(;
    and.b32 %r4, %r1, 7;
    setp.eq.u32 %p2, %r4, 7;
    setp.ge.u32 %p3, %r0, 64;
    and.pred %p2, %p2, %p3;
    or.pred %p1, %p1, %p2;
    mul.wide.u32 %rd5, %r3, 4;
    add.u64 %rd6, %rd0, %rd5;
    @%p1 bra END;
    st.global.u32 [%rd6], %r3;
  END:
)");
}

class Sampled : public testing::Test {
protected:
  /// Counts a launch of 8 x `rows` blocks and a partial one, from a sample and
  /// from all blocks.
  void count(int64_t rows, uint64_t budget) {
    int64_t threads = 128, elements = (8 * rows + 2) * threads + 37;
    std::vector<uint32_t> memory(elements);
    std::string error;
    auto module = Module::load(text(elements), error);
    ASSERT_TRUE(module) << error;
    GlobalMemory global;
    void *address = memory.data();
    global.add("buffer", address, elements * 4);
    Launch launch;
    launch.kernel = "k";
    launch.grid.x = 8 * rows + 3;
    launch.block.x = threads;
    launch.arguments = {&address};
    Options options;
    options.counts = true;
    ASSERT_EQ(module->run(launch, global, options, &all), "");
    ASSERT_EQ(countSample(*module, launch, global, budget, some), "");
  }

  Counters all;
  SampledCounts some;
};

} // namespace

TEST_F(Sampled, IsExactWhereTheBudgetAllows) {
  count(3, 1 << 20);
  EXPECT_TRUE(some.isExact);
  EXPECT_EQ(some.blocks, 27);
  EXPECT_EQ(some.counters.globalBytes, all.globalBytes);
  EXPECT_EQ(some.counters.globalSectors, all.globalSectors);
  for (int kind = 0; kind < heddle::emulator::numClasses; ++kind)
    EXPECT_EQ(some.counters.instructions[kind], all.instructions[kind]);
}

TEST_F(Sampled, StandsForAllWhereItDoesNot) {
  count(200, 10000);
  EXPECT_FALSE(some.isExact);
  EXPECT_GT(some.blocks, 32);
  EXPECT_LT(some.blocks, 500);
  auto expected = static_cast<double>(all.globalBytes);
  EXPECT_NEAR(static_cast<double>(some.counters.globalBytes), expected,
              0.05 * expected);
}

TEST_F(Sampled, RunsSomeWithoutABudget) {
  count(200, 1);
  EXPECT_EQ(some.blocks, 32);
}

TEST(Launches, RunOnlyTheirBlocks) {
  std::vector<uint32_t> memory(4 * 128, 0);
  std::string error;
  auto module = Module::load(text(4 * 128), error);
  ASSERT_TRUE(module) << error;
  GlobalMemory global;
  void *address = memory.data();
  global.add("buffer", address, memory.size() * 4);
  Launch launch;
  launch.kernel = "k";
  launch.grid.x = 4;
  launch.block.x = 128;
  launch.arguments = {&address};
  launch.blocks = {3, 1};
  ASSERT_EQ(module->run(launch, global, {}), "");
  EXPECT_EQ(memory[127], 0u);
  EXPECT_EQ(memory[128], 128u);
  EXPECT_EQ(memory[2 * 128], 0u);
  EXPECT_EQ(memory[3 * 128], 384u);
  launch.blocks = {4};
  EXPECT_EQ(module->run(launch, global, {}),
            "kernel k: block 4 of a grid of 4");
}
