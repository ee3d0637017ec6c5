//===- ProgramNeedsTest.cpp - Tests of what a run of a program takes ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/ProgramNeeds.h"
#include "SmallPlan.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

static Command launchOn(int64_t kernel, int64_t offset) {
  return launch(kernel, {at(Space::Persistent, offset, 64)});
}

/// Programs of 16 and 32 tokens that multiply by the same weight of 64 bytes,
/// 2 FLOPs a token and byte, and attend to a cache.
static Plan planOfPrompts() {
  Plan plan = smallPlan({
      {"prefill/16", 0, 0, 0, {launchOn(0, 0), launchOn(2, 128)}},
      {"prefill/32", 0, 0, 0, {launchOn(1, 0), launchOn(2, 128)}},
  });
  plan.precision = "bf16";
  plan.kernels.clear();
  for (double tokens : {16, 32}) {
    Kernel product;
    product.ops = "packed_linear";
    product.flops = 2 * 64 * tokens;
    product.bytes = 1e6;
    plan.kernels.push_back(product);
  }
  Kernel attention;
  attention.ops = "paged_attention";
  attention.flops = 1e9;
  plan.kernels.push_back(attention);
  plan.programs.clear();
  for (int64_t sequence : {0, 1}) {
    Program program;
    program.kind = ProgramKind::Prefill;
    program.name = plan.sequences[sequence].name;
    program.sequence = sequence;
    plan.programs.push_back(program);
  }
  return plan;
}

TEST(ProgramNeeds, CostsWhatIsComputedAndRead) {
  Plan plan = planOfPrompts();
  auto expect = [&](double flopsPerByte) {
    std::map<std::string, double> costs = costsOf(plan);
    EXPECT_EQ(costs.at("prefill/16"), 2 * 64 * 16 + 64 * flopsPerByte);
    EXPECT_EQ(costs.at("prefill/32"), 2 * 64 * 32 + 64 * flopsPerByte);
  };
  expect(4);
  plan.features = {"avx512f", "avx512bf16"};
  expect(16);
  plan.features.push_back("amx-bf16");
  expect(48);
  plan.precision = "fp32";
  expect(8);
}

TEST(ProgramNeeds, CostsOfAllStagesAreTheSameOnEach) {
  Plan plan = planOfPrompts();
  const Stage stage = plan;
  const double alone = costsOf(plan).at("prefill/32");
  plan.stages = {stage, stage, stage};
  for (int64_t selected : {0, 2}) {
    plan.selectStage(selected);
    EXPECT_EQ(costsOf(plan).at("prefill/32"), 3 * alone);
  }
}

/// A program whose attention over a cache of four heads of queries and two of
/// keys reads a layout of blocks of 16 positions, through a call.
static Plan planOfLayout() {
  std::vector<Ref> refs = {at(Space::Persistent, 0, 1024),
                           at(Space::Persistent, 2048, 64)};
  Plan plan = smallPlan({
      {"decode/1", 0, 0, 0, {call(1, refs)}},
      {"layer",
       0,
       0,
       0,
       {launch(0, {at(Space::Arg, 0, 1024), at(Space::Arg, 1, 64)})}},
  });
  plan.kernels.resize(1);
  plan.kernels[0].ops = "paged_attention";
  plan.kernels[0].bytes = 1e6;
  plan.programs[0].kind = ProgramKind::Decode;
  plan.serving.pages = 2;
  State cache;
  cache.name = "keys";
  cache.role = StateRole::Cache;
  cache.shape = {2, 2, 2, cachePageTokens}; // 4 values for each position.
  State layout;
  layout.name = "attention_layout.0";
  layout.role = StateRole::Constant;
  layout.type = DType::I32;
  layout.shape = {4, 3, 1};
  layout.offset = 2048;
  // Row by row, the blocks 0, 1 and 2 are the bits 1, 2 and 4.
  layout.value.elements = {1, 2, 4, 1, 3, 4, 0, 0, 1, 0, 0, 2};
  plan.states = {cache, layout};
  plan.weights.layouts = {{layout.name, 16, {"h.0"}}};
  return plan;
}

TEST(ProgramNeeds, CountsTheKeysOfALayout) {
  const Plan plan = planOfLayout();
  const ProgramNeeds needs = needsOf(plan, plan.programs[0]);
  ASSERT_EQ(needs.caches.size(), 1u);
  EXPECT_EQ(needs.caches[0].bytes, 16);
  // Two heads of queries read the keys that one of them sees.
  EXPECT_EQ(needs.caches[0].keysAt(5), (5 + 0) / 2.0);
  EXPECT_EQ(needs.caches[0].keysAt(16), (16 + 0) / 2.0);
  EXPECT_EQ(needs.caches[0].keysAt(20), (20 + 0) / 2.0);
  EXPECT_EQ(needs.caches[0].keysAt(48), (16 + 32) / 2.0);
  EXPECT_EQ(needs.cacheBytesAt(20), 160);
  // Without a layout, all positions are read.
  Plan dense = planOfLayout();
  dense.weights.layouts.clear();
  EXPECT_EQ(needsOf(dense, dense.programs[0]).cacheBytesAt(20), 320);
}

TEST(ProgramNeeds, FindsConstantsAmongOperands) {
  Plan plan = planOfLayout();
  auto expect = [&](const State &constant) {
    std::vector<KernelConstants> found = constantOperandsOf(plan);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0], KernelConstants({{1, &constant}}));
  };
  expect(plan.states[1]);
  plan.stages = {plan, plan};
  plan.stages[0].programs.clear();
  expect(plan.stages[1].states[1]);
  EXPECT_EQ(plan.findConstant("attention_layout.0"), &plan.stages[0].states[1]);
  EXPECT_EQ(plan.findConstant("keys"), nullptr);
}

/// `check` gives kernels the constants of the plan, and random numbers for
/// other operands.
TEST(OperandWriter, WritesConstants) {
  const Plan plan = planOfLayout();
  const KernelConstants constants = {{1, &plan.states[1]}};
  OperandWriter writer(constants);
  PlainKernel::Argument argument;
  argument.type = DType::I32;
  argument.low = argument.high = 7;
  std::vector<int32_t> values(12);
  auto write = [&] {
    writer.write(argument, 1, reinterpret_cast<char *>(values.data()), 12);
    return values;
  };
  EXPECT_EQ(write(), std::vector<int32_t>(12, 7));
  EXPECT_EQ(write(), plan.states[1].value.elements);
  EXPECT_EQ(write(), std::vector<int32_t>(12, 7));
}
