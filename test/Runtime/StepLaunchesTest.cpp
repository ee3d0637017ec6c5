//===- StepLaunchesTest.cpp - Tests of counting launches of a step --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/StepLaunches.h"
#include "Commands.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

static Command guarded(Command command, int64_t condition, bool value) {
  command.guard = {condition, value};
  return command;
}

static std::vector<int64_t> countsOf(const LaunchCounts &counts) {
  return {counts.kernels, counts.graphs};
}

/// A step with two layers that may be dropped, in a loop of two iterations. If
/// the second is dropped, a kernel gives its result.
static Plan twoLayers() {
  Plan plan;
  plan.device = DeviceKind::Cuda;
  plan.collectives = "library";
  plan.conditions.resize(2);
  plan.sequences = {
      {"main", 0, 0, 0, {launch(0, {}), loop(1, 2), launch(0, {})}},
      {"body",
       0,
       0,
       0,
       {launch(0, {}), guarded(copy(bytes(8), bytes(8)), 0, false),
        guarded(call(2), 0, true), guarded(launch(0, {}), 1, false),
        guarded(call(2), 1, true)}},
      {"layer", 0, 0, 0, {launch(0, {}), fill(bytes(8)), launch(0, {})}}};
  return plan;
}

TEST(StepLaunches, CountsTheGroupsOfEachCondition) {
  StepLaunches found = countLaunches(twoLayers(), Program());
  using Counts = std::vector<int64_t>;
  // The first launches of the loop's body and of `main` are one group.
  EXPECT_EQ(countsOf(found.allKept), (Counts{12, 7}));
  EXPECT_EQ(countsOf(found.allDropped), (Counts{6, 7}));
  EXPECT_EQ(countsOf(found.fewest), (Counts{6, 7}));
  EXPECT_EQ(countsOf(found.most), (Counts{12, 7}));
  Plan plan = twoLayers();
  plan.device = DeviceKind::Cpu;
  EXPECT_EQ(countsOf(countLaunches(plan, Program()).allKept), (Counts{12, 0}));
  // Without the copies, nothing is submitted in place of the first layer.
  plan = twoLayers();
  plan.sequences[1].commands.erase(plan.sequences[1].commands.begin() + 1);
  found = countLaunches(plan, Program());
  EXPECT_EQ(countsOf(found.allDropped), (Counts{6, 5}));
  EXPECT_EQ(countsOf(found.fewest), (Counts{6, 5}));
  EXPECT_EQ(countsOf(found.most), (Counts{12, 7}));
}

TEST(StepLaunches, TheHostsCommunicationDividesGraphs) {
  Plan plan;
  plan.device = DeviceKind::Cuda;
  Command sum =
      collective(CollectiveKind::AllReduce, {"data"}, bytes(64), bytes(64));
  plan.sequences = {
      {"main",
       0,
       0,
       0,
       {launch(0, {}), flush(0), launch(0, {}), sum, launch(0, {}), waitFor(3),
        record(), waitFor(6), launch(0, {}), send(1, bytes(8)), flush(0)}}};
  for (auto [collectives, graphs] :
       {std::pair("library", 1), std::pair("fixed", 3)}) {
    plan.collectives = collectives;
    EXPECT_EQ(countLaunches(plan, Program()).allKept.graphs, graphs);
  }
  // NCCL has no access to the host's memory.
  plan.collectives = "library";
  auto *start = plan.sequences[0].commands[3].as<plan::command::Collective>();
  start->source.memory = MemoryKind::Pinned;
  EXPECT_EQ(countLaunches(plan, Program()).allKept.graphs, 3);
}
