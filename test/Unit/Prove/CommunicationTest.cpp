//===- CommunicationTest.cpp - Tests of the checks over all ranks ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Runtime/Meshes.h"
#include "test/Unit/Prove/HandTraces.h"
#include "test/Unit/Prove/TraceExecution.h"
#include <chrono>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using prove::Event;
using prove::Fault;
using Kind = plan::Collective::Kind;

namespace {

TEST(Communication, OtherOrdersOnTwoGroups) {
  // Four ranks in a square. On each group the order is the same, and yet each
  // waits for the next: 0 and 1 along tensor, 0 and 2 along data.
  std::vector<prove::Trace> square;
  for (int rank = 0; rank < 4; ++rank) {
    TraceWriter writer;
    int32_t x = writer.buffer(0), a = writer.buffer(64), b = writer.buffer(128);
    int32_t s = writer.buffer(192), t = writer.buffer(256);
    writer.input(x);
    bool dataFirst = rank == 0 || rank == 3;
    int32_t first =
        writer.start(Kind::AllReduce, {dataFirst ? "data" : "tensor"}, a, x, s);
    int32_t second =
        writer.start(Kind::AllReduce, {dataFirst ? "tensor" : "data"}, b, x, t);
    writer.trace.collectives[0].targetBegin = 0;
    writer.trace.collectives[1].targetBegin = 0;
    writer.trace.collectives[0].targetBuffer = 0;
    writer.trace.collectives[1].targetBuffer = 0;
    writer.wait(first);
    writer.wait(second);
    square.push_back(writer.trace);
  }
  plan::Mesh mesh = test::meshOf(1, 2, 1, 2);
  auto fault = prove::checkAll(mesh, square);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Deadlock);
  EXPECT_EQ(fault->sources.size(), 4u);
  EXPECT_EQ(judge(mesh, square, 0), Verdict::Hangs);
}

TEST(Communication, QueuesAreNamed) {
  // Rank 0 waits for its second collective. The first one stands before it, and
  // rank 1 starts that after what rank 0 sends at the end.
  std::vector<prove::Trace> traces;
  for (int rank : {0, 1}) {
    TraceWriter writer;
    int32_t x = writer.buffer(0), a = writer.buffer(64), s = writer.buffer(128);
    int32_t b = writer.buffer(192), t = writer.buffer(256);
    int32_t in = writer.buffer(320);
    writer.trace.stage = rank;
    writer.input(x);
    if (rank == 1)
      writer.receive(in, "F");
    int32_t first = writer.start(Kind::AllReduce, {"pipe"}, a, x, s);
    int32_t second = writer.start(Kind::AllReduce, {"data"}, b, x, t);
    writer.wait(second);
    writer.wait(first);
    if (rank == 0)
      writer.send(x, "F");
    traces.push_back(writer.trace);
  }
  plan::Mesh mesh = test::meshOf(2, 1);
  auto fault = prove::checkAll(mesh, traces);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Deadlock);
  EXPECT_EQ(fault->text,
            "ranks wait for each other for ever; rank 0, at a wait, waits for "
            "rank 1; rank 1, at a receive, waits for rank 0");
  EXPECT_EQ(judge(mesh, traces, 0), Verdict::Hangs);
}

TEST(Communication, RankTermsThatDifferMayMeet) {
  TraceWriter writer;
  int32_t flat = writer.buffer(0, 256), staging = writer.buffer(512);
  writer.input(flat);
  int32_t token = writer.start(Kind::AllReduce, {"data"}, flat, flat, staging);
  writer.launch({}, {flat});
  writer.wait(token);
  auto place = [&](size_t event, int64_t begin, int32_t rankTerm) {
    for (prove::Access &access : writer.trace.bodies[0][event].accesses)
      if (access.buffer == flat) {
        access.begin = begin;
        access.bytes = 64;
        access.rankTerm = rankTerm;
        access.spread = rankTerm ? 192 : 0;
        access.choices = {0, 256};
      }
  };
  place(1, 0, 1); // Each of four ranks sums its own part.
  place(2, 128, 0);
  auto fault = prove::checkRaces(writer.trace);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Race);
  // The part behind the own one: the same distance on every rank.
  place(2, 64, 1);
  EXPECT_FALSE(prove::checkRaces(writer.trace));
  place(2, 64, 2);
  EXPECT_TRUE(prove::checkRaces(writer.trace));
}

TEST(Communication, AMessageToItself) {
  // One rank stands for all: each sends to the next along data.
  TraceWriter writer;
  int32_t x = writer.buffer(0), a = writer.buffer(64);
  writer.input(x);
  writer.message(Event::Kind::Send, x, "ring", 1, "data");
  writer.message(Event::Kind::Receive, a, "ring", -1, "data");
  writer.flush("ring");
  plan::Mesh mesh = test::meshOf(1, 8);
  EXPECT_FALSE(prove::checkAll(mesh, {writer.trace}));
  std::swap(writer.trace.bodies[0][2], writer.trace.bodies[0][3]);
  auto fault = prove::checkAll(mesh, {writer.trace});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Deadlock);
  // All eight, one by one.
  std::vector<prove::Trace> all(8, writer.trace);
  fault = prove::checkAll(mesh, all);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Deadlock);
  EXPECT_EQ(fault->sources.size(), 8u);
  EXPECT_EQ(judge(mesh, all, 0), Verdict::Hangs);
}

TEST(Communication, SlotsHoldTheirOwnMicroBatch) {
  auto write = [](int64_t slots) {
    TraceWriter writer;
    int32_t saved = writer.state(0, 64 * slots), x = writer.buffer(0);
    int32_t y = writer.buffer(64);
    writer.input(x);
    writer.trace.bodies.resize(3);
    for (writer.body = 1; writer.body < 3; ++writer.body) {
      if (writer.body == 1)
        writer.launch({x}, {saved});
      else
        writer.launch({saved}, {y});
      prove::Access &access =
          writer.trace.bodies[writer.body].back().accesses[writer.body % 2];
      access.bytes = access.perSlot = 64;
      access.inSlot = true;
      access.choices = {0, 64 * slots};
    }
    for (auto [body, iteration] :
         {std::pair{1, 0}, {1, 1}, {2, 0}, {1, 2}, {2, 1}, {2, 2}})
      writer.trace.runs.push_back({body, iteration, iteration % slots});
    return writer.trace;
  };
  EXPECT_FALSE(prove::checkFlow(write(2)));
  EXPECT_FALSE(prove::checkFlow(prove::unroll(write(2))));
  auto fault = prove::checkFlow(write(1));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Flow);
  EXPECT_EQ(fault->text, "operand 0 is read, but its bytes [0, 64) do not hold "
                         "what micro-batch 0 left in that slot");
}

TEST(Communication, ASlotIsWhatItsLastWriterMadeOfIt) {
  // A partial sum over tensor, which is added up where it lies, or is not.
  auto write = [](bool isReduced) {
    constexpr int64_t slots = 2;
    TraceWriter writer;
    int32_t saved = writer.state(0, 64 * slots), w = writer.state(64 * slots);
    int32_t x = writer.buffer(0), staging = writer.buffer(64);
    writer.trace.states = {{{0, 64 * slots}, "saved", false, false, true},
                           {{64 * slots, 64 * slots + 64}, "w", true}};
    writer.input(x);
    writer.trace.bodies.resize(3);
    writer.body = 1;
    writer.launch({x}, {saved});
    writer.trace.bodies[1].back().rankAxes = prove::axisBits({"tensor"});
    if (isReduced)
      writer.wait(
          writer.start(Kind::AllReduce, {"tensor"}, saved, saved, staging));
    writer.body = 2;
    writer.launch({saved}, {w});
    for (int64_t body : {1, 2})
      for (Event &event : writer.trace.bodies[body])
        for (prove::Access &access : event.accesses)
          if (access.buffer == saved) {
            access.bytes = access.perSlot = 64;
            access.inSlot = true;
            access.choices = {0, 64 * slots};
          }
    for (auto [body, microBatch] : {std::pair{1, 0}, {1, 1}, {2, 0}, {2, 1}})
      writer.trace.runs.push_back({body, microBatch, microBatch % slots});
    return std::vector<prove::Trace>{writer.trace};
  };
  plan::Mesh mesh = test::meshOf(1, 1, 1, 2);
  EXPECT_FALSE(prove::checkReplicas(mesh, write(true)));
  auto fault = prove::checkReplicas(mesh, write(false));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->text, "may leave other bytes of @w on each of the ranks "
                         "along [\"tensor\"]");
}

//===----------------------------------------------------------------------===//
// Size
//===----------------------------------------------------------------------===//

/// One stage of 1f1b, where each pass has `launches` commands and sums over the
/// ranks of its stage beside some of them.
prove::Trace writeStage(int64_t stage, int64_t stages, int64_t microBatches,
                        int64_t launches) {
  TraceWriter writer;
  writer.trace.stage = stage;
  int64_t slots = std::min(stages - stage, microBatches);
  int32_t saved = writer.state(0, 64 * slots);
  int32_t weights = writer.state(64 * slots);
  int32_t in = writer.buffer(0), y = writer.buffer(64), t = writer.buffer(128);
  int32_t staging = writer.buffer(192, 448); // Of the 7 other tensor ranks.
  writer.input(y);
  writer.trace.bodies.resize(3);
  auto inSlot = [&](prove::Access &access) {
    access.bytes = access.perSlot = 64;
    access.inSlot = true;
    access.choices = {0, 64 * slots};
  };
  auto compute = [&] {
    for (int64_t i = 0; i < launches; ++i) {
      writer.launch({y, weights}, {t});
      if (i % 8 != 0)
        continue;
      int32_t sum =
          writer.start(Kind::AllReduce, {"tensor"}, t, t, staging, "a layer");
      writer.launch({weights, y}, {weights});
      writer.wait(sum);
    }
  };
  Event *event;
  writer.body = 1;
  writer.flush("F", slots - 1);
  if (stage > 0)
    writer.receive(in, "F");
  compute();
  writer.launch({t}, {saved});
  inSlot(writer.trace.bodies[1].back().accesses[1]);
  if (stage + 1 < stages) {
    writer.send(saved, "F");
    event = &writer.trace.bodies[1].back();
    inSlot(event->accesses[0]);
    writer.trace.messages[event->number].bytes = 64;
  }
  writer.body = 2;
  if (stage + 1 < stages)
    writer.receive(in, "B", 1);
  writer.launch({saved}, {t});
  inSlot(writer.trace.bodies[2].back().accesses[0]);
  compute();
  if (stage > 0) {
    writer.send(t, "B", -1);
    writer.flush("B");
  }
  for (int64_t step = 0; step < microBatches + slots; ++step) {
    if (step < microBatches)
      writer.trace.runs.push_back({1, step, step % slots});
    int64_t backward = step - slots + 1;
    if (backward >= 0 && backward < microBatches)
      writer.trace.runs.push_back({2, backward, backward % slots});
  }
  return writer.trace;
}

TEST(Communication, LargeMeshesCostWhatTheirStagesCost) {
  constexpr int64_t stages = 64, microBatches = 512;
  std::vector<prove::Trace> traces;
  for (int64_t stage = 0; stage < stages; ++stage)
    traces.push_back(writeStage(stage, stages, microBatches, 120));
  auto begin = std::chrono::steady_clock::now();
  auto fault = prove::checkAll(test::meshOf(stages, 16, 1, 8), traces);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(fault) << fault->text;
  RecordProperty("seconds", std::to_string(time.count()));
  std::cout << "64 stages, 512 micro-batches: " << time.count() << " s\n";
  // A slot too few: found at the first micro-batch that comes back to it.
  for (prove::BodyRun &run : traces[3].runs)
    run.slot = run.iteration % (stages - 4);
  fault = prove::checkAll(test::meshOf(stages, 16, 1, 8), traces);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::Flow);
}

} // namespace
