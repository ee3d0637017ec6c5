//===- PlanTest.cpp - Tests of the plan's JSON form -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BigramPlan.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using nlohmann::json;

TEST(Plan, KeepsEverythingThroughJson) {
  Plan plan = test::makeBigramPlan();
  plan.weights.seed = 0xfedcba9876543210;
  plan.optimizer.lr = 0.1 + 0.2;
  plan.scheduler = {"WarmupLR", {{"warmup_num_steps", 5}}};
  plan.strategy = {{"mesh", {{"data", 1}}}};
  std::string text = json(plan).dump();
  Plan again = json::parse(text).get<Plan>();
  EXPECT_EQ(json(again).dump(), text);
  EXPECT_EQ(again.weights.seed, plan.weights.seed);
  EXPECT_EQ(again.optimizer.lr, plan.optimizer.lr);
  EXPECT_EQ(again.states[4].type, DType::BF16);
  EXPECT_EQ(again.states[0].init.stddev, 0.02);
  const Command &loop = again.sequences[0].commands[2];
  EXPECT_EQ(loop.kind, Command::Kind::Loop);
  EXPECT_EQ(loop.refs[0].terms.at(0).factor, 128);
  const Command &launch = again.sequences[1].commands[0];
  EXPECT_EQ(launch.refs[1].space, Space::Arg);
  EXPECT_EQ(launch.scalars[2].terms.at(0).kind, Term::Kind::LoopIndex);
}

TEST(Plan, KeepsMemoryAndStreams) {
  Plan plan = test::makeBigramPlan();
  plan.memory.arenaBytes[MemoryKind::Pinned] = 8192;
  plan.states[1].memory = MemoryKind::Host;
  Command &fill = plan.sequences[0].commands[0];
  fill.stream = Stream::Copy;
  fill.refs[0].memory = MemoryKind::File;
  size_t terms = fill.refs[0].terms.size();
  plan.sequences[0].commands.push_back({});
  plan.sequences[0].commands.back().kind = Command::Kind::Record;
  Plan again = json::parse(json(plan).dump()).get<Plan>();
  EXPECT_EQ(json(again).dump(), json(plan).dump());
  EXPECT_EQ(again.memory.arenaBytes[MemoryKind::Pinned], 8192);
  EXPECT_EQ(again.memory.arenaBytes[MemoryKind::Host], 0);
  EXPECT_EQ(again.memory.peakBytes(), plan.memory.peakBytes());
  EXPECT_EQ(again.memory.peakBytes(MemoryKind::Pinned), 8192);
  EXPECT_EQ(again.states[1].memory, MemoryKind::Host);
  const Command &filled = again.sequences[0].commands[0];
  EXPECT_EQ(filled.stream, Stream::Copy);
  EXPECT_EQ(filled.refs[0].memory, MemoryKind::File);
  EXPECT_EQ(filled.refs[0].terms.size(), terms);
  EXPECT_EQ(again.sequences[0].commands.back().kind, Command::Kind::Record);
}

TEST(Plan, HashIsOfTheMeaning) {
  Plan plan = test::makeBigramPlan();
  std::string hash = computeHash(plan);
  EXPECT_EQ(hash.size(), 32u);
  plan.hash = "something";
  plan.phases = {{"import", 99}, {"emit", 1}};
  EXPECT_EQ(computeHash(plan), hash);
  EXPECT_EQ(computeHash(json::parse(json(plan).dump()).get<Plan>()), hash);
  plan.sequences[1].commands[0].refs[0].offset += 64;
  EXPECT_NE(computeHash(plan), hash);
}

TEST(Plan, HashOfBytesIsXxh3) {
  // The published value of XXH3-128 for no input and seed 0.
  EXPECT_EQ(hashBytes("", 0), "99aa06d3014798d86001c324468d497f");
}

TEST(Plan, MissingAndUnknownThrow) {
  json source = test::makeBigramPlan();
  json missing = source;
  missing["kernels"][0].erase("flops");
  EXPECT_THROW(missing.get<Plan>(), json::exception);
  json unknown = source;
  unknown["stages"][0]["sequences"][0]["commands"][0]["kind"] = "jump";
  EXPECT_THROW(unknown.get<Plan>(), json::exception);
  json typed = source;
  typed["batch"] = "four";
  EXPECT_THROW(typed.get<Plan>(), json::exception);
}

TEST(Plan, KnowsItsTypes) {
  for (DType type :
       {DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64, DType::U8})
    EXPECT_EQ(parseDType(dtypeName(type)), type);
  EXPECT_EQ(parseDType("F8"), std::nullopt);
  EXPECT_EQ(byteSize(DType::BF16), 2);
  EXPECT_EQ(byteSize(DType::I64), 8);
  State state;
  state.type = DType::F16;
  state.shape = {3, 5};
  EXPECT_EQ(state.numBytes(), 30);
}

TEST(Plan, FindsPrograms) {
  Plan plan = test::makeBigramPlan();
  EXPECT_EQ(plan.findProgram(ProgramKind::Eval), &plan.programs[1]);
  plan.programs.pop_back();
  EXPECT_EQ(plan.findProgram(ProgramKind::Generate), nullptr);
}
