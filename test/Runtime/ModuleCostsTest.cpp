//===- ModuleCostsTest.cpp - Tests of costs by module ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/ModuleCosts.h"
#include "SmallPlan.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

static Command withPath(Command command, std::string path) {
  command.path = std::move(path);
  return command;
}

static ModuleShare share(double macs, double bytes) {
  ModuleShare one;
  one.macs = macs;
  one.profilerFlops = 2 * macs + 1;
  one.modelFlops = 2 * macs;
  one.bytes = bytes;
  return one;
}

/// A model of two layers that run the same sequence, in a loop of three
/// micro-batches. A kernel of the layers has operations of two modules.
static Plan planOfLayers() {
  Command fused = launch(1, {});
  fused.as<command::Launch>()->modules = {"h.*.mlp.c_proj", "h.*"};
  Plan plan = smallPlan({
      {"eval", 0, 0, 0, {loop(1, 3)}},
      {"micro",
       0,
       0,
       0,
       {withPath(launch(0, {}), "wte"), withPath(call(2), "h.0"),
        withPath(call(2), "h.1"), withPath(launch(0, {}), "toy")}},
      {"block",
       0,
       0,
       0,
       {withPath(launch(0, {}), "h.*.attn"),
        withPath(fused, "h.*.mlp.c_proj")}},
  });
  plan.family = "toy";
  plan.kernels.assign(2, Kernel());
  plan.kernels[0].shares = {share(10, 100)};
  plan.kernels[1].shares = {share(7, 20), share(0, 4)};
  plan.states.clear();
  for (const char *name : {"wte.weight", "h.1.attn.weight", "h.1.attn.bias"}) {
    State state;
    state.name = name;
    state.shape = {3, 5};
    plan.states.push_back(state);
  }
  plan.states.back().role = StateRole::Optimizer;
  return plan;
}

static ModuleCosts costsOf(const ModuleCount &count, const std::string &path) {
  ModuleCosts costs;
  count.model.walk(64, [&](const ModuleNode &module, int64_t) {
    if (module.path == path)
      costs = module.total();
  });
  return costs;
}

TEST(ModuleCosts, AddsUpLayersAndMicroBatches) {
  Plan plan = planOfLayers();
  ModuleCount count = countModules(plan, plan.programs.front());
  EXPECT_EQ(costsOf(count, "h.0.attn").macs, 3 * 10);
  EXPECT_EQ(costsOf(count, "h.0").macs, 3 * 17);
  EXPECT_EQ(costsOf(count, "h.0").bytes, 3 * 124);
  EXPECT_EQ(costsOf(count, "h.1.mlp.c_proj").flops, 3 * 15);
  EXPECT_EQ(costsOf(count, "h").modelFlops, 2 * 3 * 34);
  EXPECT_EQ(costsOf(count, "").macs, 3 * 54);
  EXPECT_EQ(count.model.own.macs, 3 * 10);
  EXPECT_EQ(count.launches, 3 * 6);
  EXPECT_EQ(count.sharedLaunches, 3 * 2);
}

TEST(ModuleCosts, CountsParameters) {
  Plan plan = planOfLayers();
  ModuleCount count = countModules(plan, plan.programs.front());
  EXPECT_EQ(costsOf(count, "h.1.attn").parameters, 15);
  EXPECT_EQ(costsOf(count, "h.0").parameters, 0);
  EXPECT_EQ(costsOf(count, "").parameters, 30);
}

TEST(ModuleCosts, WalksToADepthInOrderOfUse) {
  Plan plan = planOfLayers();
  std::vector<std::string> paths;
  countModules(plan, plan.programs.front())
      .model.walk(2, [&](const ModuleNode &module, int64_t level) {
        paths.push_back(std::to_string(level) + " " + module.path);
      });
  EXPECT_EQ(paths,
            (std::vector<std::string>{"0 ", "1 wte", "1 h", "2 h.0", "2 h.1"}));
}

TEST(ModuleCosts, RefusesModulesWithoutShares) {
  Plan plan = planOfLayers();
  plan.kernels[1].shares.pop_back();
  EXPECT_THROW(countModules(plan, plan.programs.front()), UserError);
}

TEST(ModulePath, ReplacesTheLayer) {
  EXPECT_EQ(modulePath("h.*.attn", "h.3"), "h.3.attn");
  EXPECT_EQ(modulePath("encoder.layer.*", "encoder.layer.0"),
            "encoder.layer.0");
  EXPECT_EQ(modulePath("rotary_emb", "layers.1"), "rotary_emb");
  EXPECT_EQ(modulePath("h.*", ""), "h.*");
}

TEST(ModulePath, KeepsModulesOfLaunchesThroughJson) {
  Plan plan = planOfLayers();
  std::string text = nlohmann::json(plan).dump();
  Plan again = nlohmann::json::parse(text).get<Plan>();
  again.selectStage(0);
  const auto *fused = again.sequences[2].commands[1].as<command::Launch>();
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused->modules,
            (std::vector<std::string>{"h.*.mlp.c_proj", "h.*"}));
  EXPECT_EQ(again.kernels[1].shares.at(0).profilerFlops, 15);
  EXPECT_EQ(nlohmann::json(again).dump(), text);
}
