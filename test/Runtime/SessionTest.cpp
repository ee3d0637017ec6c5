//===- SessionTest.cpp - Tests of running a plan in process ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Session.h"
#include "AllocationCount.h"
#include "BigramPlan.h"
#include "SmallPlan.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

/// Runs the small plan and returns its eight numbers.
static std::vector<int64_t> runSmall(const Plan &plan) {
  KernelImage image = bigramImage();
  CpuDevice device(2);
  Session session(plan, image, device);
  session.run(*session.program("test"));
  auto *digits = session.state("digits")->as<int64_t>();
  return {digits, digits + 8};
}

static std::string failureOf(const Plan &plan) {
  try {
    runSmall(plan);
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

TEST(Session, LaunchesOnEveryThread) {
  Plan plan = smallPlan({{"main",
                          0,
                          0,
                          0,
                          {make(Kind::Launch, 0, {at(Space::Persistent, 0, 16)},
                                {number(70)})}}});
  std::vector<int64_t> digits = runSmall(plan);
  EXPECT_EQ(digits[0], 70);
  EXPECT_EQ(digits[1], 71);
}

TEST(Session, LoopsAdvanceTheirOperands) {
  // Three rounds over digits[0..2], each appending its number twice: once
  // through the argument, once through a stride of the body's own.
  Plan plan =
      smallPlan({{"main",
                  0,
                  0,
                  0,
                  {make(Kind::Loop, 1, {at(Space::Persistent, 0, 8, 8)},
                        {number(5)}, 3)}},
                 {"body",
                  0,
                  1,
                  1,
                  {make(Kind::Launch, 1, {at(Space::Arg, 0, 8)}, {loopIndex}),
                   make(Kind::Launch, 1, {at(Space::Arg, 0, 8)}, {argument(0)}),
                   make(Kind::Launch, 1, {at(Space::Persistent, 24, 8, 8)},
                        {loopIndex})}}});
  EXPECT_EQ(runSmall(plan), (std::vector<int64_t>{5, 15, 25, 0, 1, 2, 0, 0}));
}

TEST(Session, CallsHaveFramesAndArguments) {
  // Two calls of one sequence, which keeps a number in its own frame.
  Sequence callee = {
      "callee",
      64,
      1,
      1,
      {make(Kind::Fill, 0, {at(Space::Frame, 0, 8)}),
       make(Kind::Launch, 1, {at(Space::Frame, 0, 8)}, {argument(0)}),
       make(Kind::Copy, 0, {at(Space::Arg, 0, 8), at(Space::Frame, 0, 8)})}};
  Command first =
      make(Kind::Call, 1, {at(Space::Persistent, 0, 8)}, {number(3)});
  first.frameOffset = 128;
  Command second =
      make(Kind::Call, 1, {at(Space::Persistent, 8, 8)}, {number(4)});
  second.frameOffset = 256;
  Plan plan = smallPlan({{"main", 512, 0, 0, {first, second}}, callee});
  KernelImage image = bigramImage();
  CpuDevice device(2);
  Session session(plan, image, device);
  session.run(*session.program("test"));
  auto *digits = session.state("digits")->as<int64_t>();
  EXPECT_EQ(digits[0], 3);
  EXPECT_EQ(digits[1], 4);
  EXPECT_EQ(session.program("test")->commands().size(), 6u);
}

TEST(Session, CallsInALoopSeeItsIndex) {
  Plan plan = smallPlan(
      {{"main", 0, 0, 0, {make(Kind::Loop, 1, {}, {}, 3)}},
       {"body",
        0,
        0,
        0,
        {make(Kind::Call, 2, {at(Space::Persistent, 0, 8, 16)})}},
       {"callee",
        0,
        1,
        0,
        {make(Kind::Launch, 1, {at(Space::Arg, 0, 8)}, {loopIndex})}}});
  EXPECT_EQ(runSmall(plan), (std::vector<int64_t>{0, 0, 1, 0, 2, 0, 0, 0}));
}

TEST(Session, RefusesOperandsOutsideTheirRegion) {
  auto withRef = [](Ref ref) {
    return smallPlan(
        {{"main", 0, 0, 0, {make(Kind::Launch, 1, {ref}, {number(1)})}}});
  };
  EXPECT_EQ(failureOf(withRef(at(Space::Persistent, 4088, 8))), "");
  EXPECT_EQ(failureOf(withRef(at(Space::Persistent, 4089, 8))), "H0385");
  EXPECT_EQ(failureOf(withRef(at(Space::Persistent, -8, 8))), "H0385");
  EXPECT_EQ(failureOf(withRef(at(Space::Frame, 0, 4104))), "H0385");
  EXPECT_EQ(failureOf(withRef(at(Space::Arg, 0, 8))), "H0385");
}

TEST(Session, RefusesMalformedSequences) {
  auto withCommand = [](Command command) {
    return smallPlan({{"main", 0, 0, 0, {std::move(command)}}});
  };
  EXPECT_EQ(failureOf(withCommand(make(Kind::Launch, 9, {}))), "H0385");
  EXPECT_EQ(failureOf(withCommand(make(Kind::Call, 9, {}))), "H0385");
  EXPECT_EQ(failureOf(withCommand(make(Kind::Call, 0, {}))), "H0385");
  EXPECT_EQ(failureOf(withCommand(make(Kind::Copy, 0, {}))), "H0385");
  Plan unknown = withCommand(make(Kind::Launch, 0, {}));
  unknown.kernels[0].name = "no_such_kernel";
  EXPECT_EQ(failureOf(unknown), "H0385");
  Plan frames = smallPlan({{"main", 8192, 0, 0, {}}});
  EXPECT_EQ(failureOf(frames), "H0385");
}

TEST(Session, HoldsOnlyWhatItLaunchesToItsScratch) {
  Plan plan = smallPlan(
      {{"main",
        0,
        0,
        0,
        {make(Kind::Launch, 1, {at(Space::Persistent, 0, 8)}, {number(1)})}}});
  plan.memory.scratchBytesPerThread = 64;
  plan.kernels[0].scratchBytes = 128; // Another stage's, with scratch for it.
  EXPECT_EQ(failureOf(plan), "");
  plan.kernels[1].scratchBytes = 64;
  EXPECT_EQ(failureOf(plan), "");
  plan.kernels[1].scratchBytes = 65;
  EXPECT_EQ(failureOf(plan), "H0385");
}

TEST(Session, RefusesMoreThreadsThanPlanned) {
  Plan plan = smallPlan({{"main", 0, 0, 0, {}}});
  plan.threads = 1;
  EXPECT_EQ(failureOf(plan), "H0193");
}

namespace {

/// The bigram model in memory, with a batch of tokens.
struct Bigram {
  explicit Bigram(Plan source = makeBigramPlan(), int64_t threads = 2,
                  SessionOptions options = {})
      : plan(std::move(source)), image(bigramImage()), device(threads),
        session(plan, image, device, options) {
    fill(*session.program("train"));
  }

  void fill(const LoadedProgram &program) {
    const Value &ids = *program.input("ids");
    for (int64_t i = 0; i < ids.numElements(); ++i) {
      ids.as<int32_t>()[i] = int32_t(i * 37 % 256);
      program.input("labels")->as<int32_t>()[i] = int32_t((i + 1) * 37 % 256);
    }
    program.setScalar("lr", 0.1);
    program.setScalar("bias_correction1", 1 - 0.9);
    program.setScalar("bias_correction2", 1 - 0.999);
  }

  float train() {
    session.run(*session.program("train"));
    return *session.program("train")->output("loss")->as<float>();
  }

  Plan plan;
  KernelImage image;
  CpuDevice device;
  Session session;
};

} // namespace

TEST(Session, TrainsTheBigramModel) {
  Bigram bigram;
  EXPECT_NEAR(bigram.train(), std::log(256.0), 1e-4); // All weights are zero.
  float last = 0;
  for (int i = 0; i < 20; ++i)
    last = bigram.train();
  EXPECT_LT(last, 1);
  EXPECT_GT(*bigram.session.program("train")->output("grad_norm")->as<float>(),
            0);
}

TEST(Session, IsTheSameBitsEveryTime) {
  Bigram first, second;
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(first.train(), second.train());
  EXPECT_EQ(memcmp(first.session.state(0).data, second.session.state(0).data,
                   first.session.state(0).numBytes()),
            0);
}

TEST(Session, StepsAllocateNothing) {
  Bigram bigram;
  const LoadedProgram *program = bigram.session.program("train");
  std::vector<LaunchTime> times(program->commands().size());
  int64_t before = allocationCount();
  for (int i = 0; i < 10; ++i) {
    bigram.session.run(*program);
    bigram.session.run(*program, times.data());
    bigram.session.run(*bigram.session.program("eval"));
  }
  EXPECT_EQ(allocationCount(), before);
  EXPECT_GT(times[0].end, times[0].begin);
}

TEST(Session, MapsWhatThePlanSays) {
  Bigram bigram;
  EXPECT_EQ(bigram.session.mappedBytes(), bigram.plan.memory.peakBytes());
}

TEST(Session, ReadsNothingThatItDidNotWrite) {
  Bigram clean, poisoned;
  poisoned.session.poisonArena(0xff);
  poisoned.fill(*poisoned.session.program("train"));
  memset(poisoned.session.program("train")->input("rng")->data, 0, 16);
  EXPECT_EQ(clean.train(), poisoned.train());
}

TEST(Session, RunsBetweenGuardPages) {
  SessionOptions options;
  options.guardPages = true;
  Bigram plain, guarded(makeBigramPlan(), 2, options);
  EXPECT_EQ(plain.train(), guarded.train());
}

TEST(Session, AnArenaOnePageShortFails) {
  Plan plan = makeBigramPlan();
  plan.memory.arenaBytes -= Arena::pageSize();
  try {
    Bigram bigram(plan);
    FAIL();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0385");
  }
}

TEST(Session, GeneratesFromTheTable) {
  Bigram bigram;
  for (int i = 0; i < 30; ++i)
    bigram.train();
  const LoadedProgram &program = *bigram.session.program("generate");
  program.input("ids")->as<int32_t>()[3] = 37;
  *program.input("position")->as<int32_t>() = 3;
  bigram.session.run(program);
  const float *logits = program.output("logits")->as<float>();
  EXPECT_EQ(std::max_element(logits, logits + 256) - logits, 74);
}
