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
