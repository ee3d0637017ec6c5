//===- CacheSizeTest.cpp - Tests of the size of the cache -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/CacheSize.h"
#include "Commands.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;

namespace {

constexpr int64_t pages = 10;

/// A weight of 512 bytes, keys and values with 384 bytes a page, and another
/// weight. A layer is called with each pair of caches.
Plan makePlan() {
  Plan plan;
  plan.device = DeviceKind::Cuda;
  plan.serving = {/*maxBatch=*/2, /*maxContext=*/40, pages, /*window=*/0};
  auto add = [&](const char *name, StateRole role, std::vector<int64_t> shape,
                 int64_t offset) {
    State state;
    state.name = name;
    state.role = role;
    state.shape = std::move(shape);
    state.offset = offset;
    plan.states.push_back(state);
  };
  add("first", StateRole::Parameter, {128}, 0);
  add("keys", StateRole::Cache, {pages, 2, 3, 16}, 512);
  add("values", StateRole::Cache, {pages, 2, 16, 3}, 4352);
  add("last", StateRole::Parameter, {64}, 8192);
  plan.memory.persistentBytes[MemoryKind::Device] = 12288;
  plan.memory.owners = {{"cache", 7680}, {"padding to pages", 3840}};
  auto state = [](int64_t offset, int64_t bytes) {
    Ref ref;
    ref.space = Space::Persistent;
    ref.offset = offset;
    ref.bytes = bytes;
    return ref;
  };
  auto argument = [](int64_t index, int64_t bytes) {
    Ref ref;
    ref.space = Space::Arg;
    ref.index = index;
    ref.bytes = bytes;
    return ref;
  };
  plan.sequences.resize(2);
  plan.sequences[0].commands = {
      test::call(1, {state(512, 3840), state(0, 512), state(4352, 3840)}),
      test::launch(0, {state(8192, 256)}), test::fill(state(8192, 256))};
  plan.sequences[1].numArgs = 3;
  plan.sequences[1].commands = {test::launch(
      0, {argument(0, 3840), argument(1, 512), argument(2, 3840)})};
  Program program;
  program.kind = ProgramKind::Prefill;
  Port positions;
  positions.role = PortRole::Positions;
  positions.shape = {1, 16};
  program.inputs = {positions};
  plan.programs = {program};
  return plan;
}

const std::vector<Ref> &refsOf(const Plan &plan, int64_t sequence,
                               size_t command) {
  const Command &one = plan.sequences[sequence].commands[command];
  const auto *launch = one.as<command::Launch>();
  return launch ? launch->refs : one.as<command::Call>()->refs;
}

} // namespace

TEST(CacheSize, ResizesCachesAndMovesWhatIsBehindThem) {
  Plan plan = makePlan();
  EXPECT_EQ(cacheBytes(plan), 7680);
  EXPECT_EQ(cachePageBytes(plan), 768);
  setCachePages(plan, 7);
  EXPECT_EQ(plan.serving.pages, 7);
  EXPECT_EQ(cacheBytes(plan), 7 * 768);
  // Each cache is 1152 bytes smaller, and the states after it stay aligned.
  EXPECT_EQ(plan.states[0].offset, 0);
  EXPECT_EQ(plan.states[1].offset, 512);
  EXPECT_EQ(plan.states[2].offset, 4352 - 1024);
  EXPECT_EQ(plan.states[3].offset, 8192 - 2048);
  EXPECT_EQ(plan.states[1].shape, (std::vector<int64_t>{7, 2, 3, 16}));
  const std::vector<Ref> &call = refsOf(plan, 0, 0);
  EXPECT_EQ(call[0].offset, 512);
  EXPECT_EQ(call[2].offset, 4352 - 1024);
  for (const std::vector<Ref> *refs : {&call, &refsOf(plan, 1, 0)}) {
    EXPECT_EQ((*refs)[0].bytes, 2688);
    EXPECT_EQ((*refs)[1].bytes, 512);
    EXPECT_EQ((*refs)[2].bytes, 2688);
  }
  EXPECT_EQ(refsOf(plan, 0, 1)[0].offset, 8192 - 2048);
  EXPECT_EQ(refsOf(plan, 0, 1)[0].bytes, 256);
  const auto *fill = plan.sequences[0].commands[2].as<command::Fill>();
  EXPECT_EQ(fill->target.offset, 8192 - 2048);
  // The region has whole pages of memory, and no state is outside of it.
  EXPECT_EQ(plan.memory.persistentBytes[MemoryKind::Device], 12288);
  EXPECT_EQ(plan.memory.owners[0].bytes, 7 * 768);
  EXPECT_EQ(plan.memory.owners[1].bytes, 3840 + 3 * 768);
}

TEST(CacheSize, GivesBackWholePagesOfMemory) {
  Plan plan = makePlan();
  setCachePages(plan, 3);
  EXPECT_EQ(plan.states[3].offset, 8192 - 2 * 2560);
  EXPECT_EQ(plan.memory.persistentBytes[MemoryKind::Device], 8192);
  EXPECT_EQ(plan.memory.owners[1].bytes, 3840 + 7 * 768 - 4096);
}

TEST(CacheSize, NeverGrows) {
  Plan plan = makePlan();
  setCachePages(plan, pages + 1);
  EXPECT_EQ(plan.serving.pages, pages);
  EXPECT_EQ(plan.states[3].offset, 8192);
}

TEST(CacheSize, SaysHowManyRequestsFit) {
  Plan plan = makePlan();
  // A request of 40 tokens has three pages.
  EXPECT_EQ(pagesOfSequence(plan), 3);
  EXPECT_NE(helpForDevice(plan, 12288).find("3 requests of --max-context 40"),
            std::string::npos);
  EXPECT_NE(helpForDevice(plan, 8192).find("1 requests of --max-context 40"),
            std::string::npos);
  EXPECT_NE(helpForDevice(plan, 6000).find("0 requests of --max-context 40"),
            std::string::npos);
  EXPECT_NE(helpForDevice(plan, 6000).find("--kv-type int8"),
            std::string::npos);
}

TEST(CacheSize, IsLeftToTheDeviceIfThePlanSaysSo) {
  Plan plan = makePlan();
  EXPECT_FALSE(hasCacheOfDevice(plan));
  plan.strategy[cacheOfDeviceKey] = true;
  EXPECT_TRUE(hasCacheOfDevice(plan));
}
