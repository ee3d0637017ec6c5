//===- PlanTest.cpp - Tests of the plan's JSON form -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BigramPlan.h"
#include "Commands.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/PlanFormat/UpdateCounts.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using nlohmann::json;

TEST(Plan, KeepsEverythingThroughJson) {
  Plan plan = test::makeBigramPlan();
  plan.weights.seed = 0xfedcba9876543210;
  plan.optimizer.lr = 0.1 + 0.2;
  plan.scheduler = {RateSchedule::WarmupLR,
                    {{RateParameter::WarmupNumSteps, 5}}};
  plan.strategy = {{"mesh", {{"data", 1}}}};
  std::string text = json(plan).dump();
  Plan again = json::parse(text).get<Plan>();
  EXPECT_EQ(json(again).dump(), text);
  EXPECT_EQ(again.weights.seed, plan.weights.seed);
  EXPECT_EQ(again.optimizer.lr, plan.optimizer.lr);
  EXPECT_EQ(again.states[4].type, DType::BF16);
  EXPECT_EQ(again.states[0].init.stddev, 0.02);
  const auto *loop = again.sequences[0].commands[2].as<command::Loop>();
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->refs[0].terms.at(0).factor, 128);
  const auto *launch = again.sequences[1].commands[0].as<command::Launch>();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->refs[1].space, Space::Arg);
  EXPECT_EQ(launch->scalars[2].terms.at(0).kind, Term::Kind::LoopIndex);
}

TEST(Plan, HasScratchForOtherThreads) {
  Plan plan = test::makeBigramPlan();
  plan.memory.owners = {
      {"states", 100}, {scratchOwner, 2048}, {unusedOwner, 0}};
  int64_t before = plan.memory.arenaBytes[MemoryKind::Device];
  setThreads(plan, 5);
  EXPECT_EQ(plan.threads, 5);
  EXPECT_EQ(plan.memory.arenaBytes[MemoryKind::Device], before + 4096);
  EXPECT_EQ(plan.memory.owners[1].bytes, 5 * 1024);
  EXPECT_EQ(plan.memory.owners[2].bytes, 1024);
  setThreads(plan, 2);
  EXPECT_EQ(plan.memory.arenaBytes[MemoryKind::Device], before);
  EXPECT_EQ(plan.memory.owners[2].bytes, 0);
  plan.device = DeviceKind::Cuda;
  setThreads(plan, 9);
  EXPECT_EQ(plan.memory.arenaBytes[MemoryKind::Device], before);
}

TEST(Plan, KeepsMemoryAndStreams) {
  Plan plan = test::makeBigramPlan();
  plan.memory.arenaBytes[MemoryKind::Pinned] = 8192;
  plan.memory.stagingBytes = 4096;
  plan.memory.fileBytes[FileRole::Gradients] = 12288;
  plan.states[1].memory = MemoryKind::Host;
  Command &fill = plan.sequences[0].commands[0];
  fill.stream = Stream::Copy;
  fill.as<command::Fill>()->target.memory = MemoryKind::File;
  Plan again = json::parse(json(plan).dump()).get<Plan>();
  EXPECT_EQ(json(again).dump(), json(plan).dump());
  EXPECT_EQ(again.memory.arenaBytes[MemoryKind::Pinned], 8192);
  EXPECT_EQ(again.memory.arenaBytes[MemoryKind::Host], 0);
  EXPECT_EQ(again.memory.peakBytes(), plan.memory.peakBytes());
  EXPECT_EQ(again.memory.peakBytes(MemoryKind::Pinned), 8192 + 4096);
  EXPECT_EQ(again.memory.fileBytes[FileRole::Gradients], 12288);
  EXPECT_EQ(again.memory.fileBytes[FileRole::Optimizer], 0);
  EXPECT_EQ(again.states[1].memory, MemoryKind::Host);
  const Command &filled = again.sequences[0].commands[0];
  EXPECT_EQ(filled.stream, Stream::Copy);
  EXPECT_EQ(filled.as<command::Fill>()->target.memory, MemoryKind::File);
  EXPECT_TRUE(filled.as<command::Fill>()->target.terms.empty());
}

/// Every kind there is, each field with a value of its own.
static std::vector<Command> eachCommand() {
  Ref one = {Space::Persistent, MemoryKind::Device, 0, 1, 2, {}};
  Ref two = {Space::Arg, MemoryKind::Device, 3, 4, 5, {}};
  Ref three = {Space::Frame,
               MemoryKind::Pinned,
               0,
               6,
               7,
               {{Term::Kind::Slot, 8, 9, {}}}};
  Collective gather;
  gather.kind = Collective::Kind::AllGather;
  gather.axes = {"data", "seq"};
  gather.segments = {10, 11};
  Channel channel = {"pipe", -12, "B"};
  std::vector<Command> commands = {
      test::launch(13, {one, two}, {{14, {}}}),
      test::call(15, {one}, {{16, {}}}, 17),
      test::loop(18, 19, {two}, {}, 20),
      test::fragments({{0, 34}, {1, 35}},
                      {{FragmentKind::Forward, 36, 21, 22},
                       {FragmentKind::Backward, 37, 23, 24}},
                      {three}),
      test::copy(one, three),
      test::copyRows(one, three, two, 29),
      test::fill(three),
      {command::Collective{gather, one, two, three}},
      test::record(32),
      test::waitFor(25),
      test::settle(33),
      {command::Send{channel, one}},
      {command::Receive{channel, three}},
      {command::Flush{"B", 26}}};
  for (size_t i = 0; i < commands.size(); ++i) {
    commands[i].path = "h." + std::to_string(i);
    commands[i].stream = streams[i % 3];
  }
  return commands;
}

TEST(Plan, KeepsEveryCommand) {
  Plan plan;
  plan.sequences = {{"main", 0, 0, 0, eachCommand()}};
  ASSERT_EQ(plan.sequences[0].commands.size(),
            std::variant_size_v<Command::What>);
  Plan again = json::parse(json(plan).dump()).get<Plan>();
  EXPECT_EQ(json(again).dump(), json(plan).dump());
  for (size_t kind = 0; kind < std::variant_size_v<Command::What>; ++kind) {
    const Command &command = again.sequences[0].commands[kind];
    EXPECT_EQ(command.what.index(), kind);
    EXPECT_EQ(command.path, "h." + std::to_string(kind));
    EXPECT_EQ(command.stream, streams[kind % 3]);
  }
  const auto &all = again.sequences[0].commands;
  EXPECT_EQ(all[2].as<command::Loop>()->count, 19);
  EXPECT_EQ(all[2].as<command::Loop>()->frameOffset, 20);
  EXPECT_EQ(all[3].as<command::Fragments>()->fragments[1].slots, 24);
  EXPECT_EQ(all[7].as<command::Collective>()->staging.memory,
            MemoryKind::Pinned);
  EXPECT_EQ(all[8].as<command::Record>()->carried, 32);
  EXPECT_EQ(all[10].as<command::Settle>()->number, 33);
  EXPECT_EQ(all[11].as<command::Send>()->channel.delta, -12);
  EXPECT_EQ(all[5].as<command::CopyRows>()->rowBytes, 29);
  EXPECT_EQ(all[5].as<command::CopyRows>()->ids.space, Space::Arg);
  EXPECT_EQ(all[5].as<command::CopyRows>()->source.memory, MemoryKind::Pinned);
  EXPECT_FALSE(all[5].as<command::CopyRows>()->first);
  EXPECT_EQ(all[13].as<command::Flush>()->left, 26);
  EXPECT_EQ(json(plan)["stages"][0]["sequences"][0]["commands"][13],
            (json{{"kind", "flush"},
                  {"path", "h.13"},
                  {"channel", "B"},
                  {"left", 26},
                  {"stream", "communication"}}));
}

TEST(Plan, KeepsWherePartsOfTablesBegin) {
  plan::Scalar first{30, {{plan::Term::Kind::Coordinate, 0, 31, {"tensor"}}}};
  Plan plan;
  plan.sequences = {{"main", 0, 0, 0, {test::copyRows({}, {}, {}, 4, first)}}};
  Plan again = json::parse(json(plan).dump()).get<Plan>();
  EXPECT_EQ(json(again).dump(), json(plan).dump());
  const auto *copy = again.sequences[0].commands[0].as<command::CopyRows>();
  ASSERT_TRUE(copy && copy->first);
  EXPECT_EQ(copy->first->constant, 30);
  EXPECT_EQ(copy->first->terms.at(0).factor, 31);
}

TEST(Plan, CommandsRunSequences) {
  std::vector<Command> all = eachCommand();
  all[3].as<command::Fragments>()->order = {{0, 0}, {0, 1}, {0, 2}, {9, 0}};
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (const Command &command : all)
    for (SequenceRuns of : runsOf(command))
      runs.push_back({of.sequence, of.times});
  EXPECT_EQ(runs, (std::vector<std::pair<int64_t, int64_t>>{
                      {15, 1}, {18, 19}, {21, 3}}));
}

TEST(Plan, HashIsOfTheMeaning) {
  Plan plan = test::makeBigramPlan();
  std::string hash = computeHash(plan);
  EXPECT_EQ(hash.size(), 32u);
  plan.hash = "something";
  plan.phases = {"import", "emit"};
  EXPECT_EQ(computeHash(plan), hash);
  EXPECT_EQ(computeHash(json::parse(json(plan).dump()).get<Plan>()), hash);
  plan.sequences[1].commands[0].as<command::Launch>()->refs[0].offset += 64;
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
  json operand = source;
  operand["stages"][0]["sequences"][0]["commands"][0].erase("target");
  EXPECT_THROW(operand.get<Plan>(), json::exception);
  json typed = source;
  typed["batch"] = "four";
  EXPECT_THROW(typed.get<Plan>(), json::exception);
}

TEST(Plan, KnowsItsTypes) {
  for (DType type :
       {DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64, DType::U8})
    EXPECT_EQ(parseName<DType>(nameOf(type)), type);
  EXPECT_EQ(parseName<DType>("F8"), std::nullopt);
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

TEST(Plan, ChoosesTrainProgramsByStep) {
  Plan plan = test::makeBigramPlan();
  EXPECT_EQ(plan.trainPrograms(),
            std::vector<const Program *>{&plan.programs[0]});
  Program late = plan.programs[0];
  late.phase = {"late", 5};
  plan.programs[0].phase = {"early", 1};
  plan.programs.insert(plan.programs.begin(), late);
  EXPECT_EQ(plan.trainPrograms(), (std::vector<const Program *>{
                                      &plan.programs[1], &plan.programs[0]}));
  EXPECT_EQ(json(plan).get<Plan>().trainPrograms()[1]->phase.name, "late");
  std::vector<Phase> phases = {{"late", 5}, {"early", 1}, {"last", 9}};
  for (auto [step, wanted] :
       {std::pair(1, 1), {4, 1}, {5, 0}, {8, 0}, {9, 2}, {100, 2}})
    EXPECT_EQ(phaseAt(phases, step, /*update=*/1), size_t(wanted));
  EXPECT_EQ(phaseAt({Phase()}, 7, 7), 0u);
}

TEST(PlanPhase, MayCountUpdates) {
  std::vector<Phase> phases = {{"early", 1, true}, {"late", 5, true}};
  EXPECT_EQ(phaseAt(phases, /*step=*/9, /*update=*/4), 0u);
  EXPECT_EQ(phaseAt(phases, 9, 5), 1u);
}

TEST(PlanPhase, MayRunAtIntervals) {
  std::vector<Phase> phases = {{"dense", 1, true, {2, /*countsRuns=*/true}},
                               {"compressed", 1, true},
                               {"local", 30, true},
                               {"synchronizing", 30, true, {5, false, 4}}};
  std::string chosen;
  for (int64_t update = 1; update < 48; ++update)
    chosen += phases[phaseAt(phases, 1, update)].name[0];
  // Dense at 1, 2, 4, 6, 8, 12, 16, 24; then each of 5 updates, those of 5 at
  // multiples of 2, and all others at multiples of 4.
  EXPECT_EQ(chosen, "ddcdcdcdcccdcccdcccccccdccccc"
                    "ssssslslslslllslll");
  Plan plan = test::makeBigramPlan();
  plan.programs[0].phase = {"dense", 1, true, {16, true, 8}, 100};
  plan.programs.insert(plan.programs.begin(), plan.programs[0]);
  plan.programs[0].phase = {"compressed", 1, true};
  EXPECT_EQ(plan.trainPrograms()[0]->phase.name, "dense");
  const Phase phase = json(plan).get<Plan>().trainPrograms()[0]->phase;
  EXPECT_EQ(phase.every.doubledAfter, 16);
  EXPECT_TRUE(phase.every.countsRuns);
  EXPECT_EQ(phase.every.atMost, 8);
  EXPECT_EQ(phase.to, 100);
}

// The schedules of ZeroOneAdam, as DeepSpeed counts.
TEST(PlanPhase, DoublesIntervalsAsCounters) {
  for (auto [after, most, from] :
       {std::tuple(1, 0, 1), {3, 0, 1}, {16, 0, 1}, {2, 3, 7}, {5, 16, 102}})
    for (bool countsRuns : {true, false}) {
      Interval every{after, countsRuns, most};
      int64_t interval = 1, counter = 0;
      for (int64_t number = from; number < 3000; ++number) {
        bool runs = number % interval == 0;
        ASSERT_EQ(every.includes(from, number), runs)
            << after << " " << most << " " << from << " " << number;
        if ((runs || !countsRuns) && ++counter == after) {
          counter = 0;
          interval = std::min<int64_t>(2 * interval, most ? most : 1 << 20);
        }
      }
    }
}

// The host does not know what the step that may still run does, so the update
// that a step is expected to make follows a skip one step late.
TEST(PlanUpdateCounts, ExpectUpdatesOfTheStepsUnderWay) {
  UpdateCounts counts;
  EXPECT_EQ(counts.expected(1), 1);
  EXPECT_EQ(counts.expected(2), 2);
  counts.add(1); // Step 1 makes an update, step 2 is skipped.
  counts.add(1);
  EXPECT_EQ(counts.expected(3), 3);
  EXPECT_EQ(counts.expected(4), 3);
  UpdateCounts resumed(2, counts.last());
  EXPECT_EQ(resumed.expected(3), 3);
  EXPECT_EQ(resumed.expected(4), 3);
  counts.add(2);
  EXPECT_EQ(counts.updates(), 2);
  EXPECT_EQ(counts.expected(4), 3);
  EXPECT_EQ(UpdateCounts(10).expected(11), 11);
  EXPECT_EQ(UpdateCounts(10, {7}).expected(11), 8);
}
