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
#include "TestDevice.h"
#include "heddle/runtime/core/Staging.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

namespace {
class SessionTest : public OnEachDevice {
protected:
  SessionTest() : device(GetParam()) {}

  /// Runs the small plan and returns its eight numbers.
  std::vector<int64_t> runSmall(const Plan &plan) {
    std::unique_ptr<KernelSet> kernels = device.bigramKernels();
    Session session(plan, *kernels, *device);
    session.run(*session.program(plan::ProgramKind::Train));
    auto *digits = session.load<int64_t>(*session.state("digits"));
    return {digits, digits + 8};
  }

  std::string failureOf(const Plan &plan) {
    try {
      runSmall(plan);
    } catch (const UserError &error) {
      return error.diagnostic.code;
    }
    return "";
  }

  TestDevice device;
};
} // namespace

INSTANTIATE_TEST_SUITE_P(, SessionTest, eachDevice(), deviceName);

TEST_P(SessionTest, LaunchesOnEveryThread) {
  Plan plan =
      smallPlan({{"main",
                  0,
                  0,
                  0,
                  {launch(0, {at(Space::Persistent, 0, 16)}, {number(70)})}}});
  std::vector<int64_t> digits = runSmall(plan);
  EXPECT_EQ(digits[0], 70);
  EXPECT_EQ(digits[1], 71);
}

TEST_P(SessionTest, LoopsAdvanceTheirOperands) {
  // Three rounds over digits[0..2], each appending its number twice: once
  // through the argument, once through a stride of the body's own.
  Plan plan = smallPlan(
      {{"main",
        0,
        0,
        0,
        {loop(1, 3, {at(Space::Persistent, 0, 8, 8)}, {number(5)})}},
       {"body",
        0,
        1,
        1,
        {launch(1, {at(Space::Arg, 0, 8)}, {loopIndex}),
         launch(1, {at(Space::Arg, 0, 8)}, {argument(0)}),
         launch(1, {at(Space::Persistent, 24, 8, 8)}, {loopIndex})}}});
  EXPECT_EQ(runSmall(plan), (std::vector<int64_t>{5, 15, 25, 0, 1, 2, 0, 0}));
}

TEST_P(SessionTest, CallsHaveFramesAndArguments) {
  // Two calls of one sequence, which keeps a number in its own frame.
  Sequence callee = {"callee",
                     64,
                     1,
                     1,
                     {fill(at(Space::Frame, 0, 8)),
                      launch(1, {at(Space::Frame, 0, 8)}, {argument(0)}),
                      copy(at(Space::Arg, 0, 8), at(Space::Frame, 0, 8))}};
  Command first = call(1, {at(Space::Persistent, 0, 8)}, {number(3)}, 128);
  Command second = call(1, {at(Space::Persistent, 8, 8)}, {number(4)}, 256);
  Plan plan = smallPlan({{"main", 512, 0, 0, {first, second}}, callee});
  std::unique_ptr<KernelSet> kernels = device.bigramKernels();
  Session session(plan, *kernels, *device);
  session.run(*session.program(plan::ProgramKind::Train));
  auto *digits = session.load<int64_t>(*session.state("digits"));
  EXPECT_EQ(digits[0], 3);
  EXPECT_EQ(digits[1], 4);
  EXPECT_EQ(session.program(plan::ProgramKind::Train)->commands().size(), 6u);
}

TEST_P(SessionTest, CallsInALoopSeeItsIndex) {
  Plan plan = smallPlan(
      {{"main", 0, 0, 0, {loop(1, 3)}},
       {"body", 0, 0, 0, {call(2, {at(Space::Persistent, 0, 8, 16)})}},
       {"callee", 0, 1, 0, {launch(1, {at(Space::Arg, 0, 8)}, {loopIndex})}}});
  EXPECT_EQ(runSmall(plan), (std::vector<int64_t>{0, 0, 1, 0, 2, 0, 0, 0}));
}

TEST_P(SessionTest, RefusesOperandsOutsideTheirRegion) {
  auto withRef = [](Ref ref) {
    return smallPlan({{"main", 0, 0, 0, {launch(1, {ref}, {number(1)})}}});
  };
  EXPECT_EQ(failureOf(withRef(at(Space::Persistent, 4088, 8))), "");
  EXPECT_EQ(failureOf(withRef(at(Space::Persistent, 4089, 8))), "H0385");
  EXPECT_EQ(failureOf(withRef(at(Space::Persistent, -8, 8))), "H0385");
  EXPECT_EQ(failureOf(withRef(at(Space::Frame, 0, 4104))), "H0385");
  EXPECT_EQ(failureOf(withRef(at(Space::Arg, 0, 8))), "H0385");
}

TEST_P(SessionTest, RefusesMalformedSequences) {
  auto withCommand = [](Command command) {
    return smallPlan({{"main", 0, 0, 0, {std::move(command)}}});
  };
  EXPECT_EQ(failureOf(withCommand(launch(9, {}))), "H0385");
  EXPECT_EQ(failureOf(withCommand(call(9, {}))), "H0385");
  EXPECT_EQ(failureOf(withCommand(call(0, {}))), "H0385");
  EXPECT_EQ(failureOf(withCommand(copy(at(Space::Frame, 0, 8), {}))), "H0385");
  Plan unknown = withCommand(launch(0, {}));
  unknown.kernels[0].name = "no_such_kernel";
  EXPECT_EQ(failureOf(unknown), "H0385");
  Plan frames = smallPlan({{"main", 8192, 0, 0, {}}});
  EXPECT_EQ(failureOf(frames), "H0385");
}

TEST_P(SessionTest, HoldsOnlyWhatItLaunchesToItsScratch) {
  Plan plan =
      smallPlan({{"main",
                  0,
                  0,
                  0,
                  {launch(1, {at(Space::Persistent, 0, 8)}, {number(1)})}}});
  plan.memory.scratchBytesPerThread = 64;
  plan.kernels[0].scratchBytes = 128; // Another stage's, with scratch for it.
  EXPECT_EQ(failureOf(plan), "");
  plan.kernels[1].scratchBytes = 64;
  EXPECT_EQ(failureOf(plan), "");
  plan.kernels[1].scratchBytes = 65;
  EXPECT_EQ(failureOf(plan), "H0385");
}

TEST_P(SessionTest, RefusesMoreThreadsThanPlanned) {
  Plan plan = smallPlan({{"main", 0, 0, 0, {}}});
  plan.threads = 1; // On a GPU that is all a launch has of the host.
  EXPECT_EQ(failureOf(plan), device->threads() > 1 ? "H0193" : "");
}

namespace {

/// The bigram model in memory, with a batch of tokens.
struct Bigram {
  explicit Bigram(int seed, Plan source = makeBigramPlan(),
                  SessionOptions options = {})
      : plan(std::move(source)), device(seed), kernels(device.bigramKernels()),
        session(plan, *kernels, *device, options) {
    fill(program(ProgramKind::Train));
    for (const char *power : {"beta1_power", "beta2_power"}) {
      const Value &state = *session.state(power);
      *session.at<double>(state) = 1;
      session.store(state);
    }
  }

  const LoadedProgram &program(ProgramKind kind) {
    return *session.program(kind);
  }

  void fill(const LoadedProgram &program) {
    for (PortRole role : {PortRole::Ids, PortRole::Labels}) {
      const Value &port = *program.input(role);
      int64_t shift = role == PortRole::Labels;
      for (int64_t i = 0; i < port.numElements(); ++i)
        session.at<int32_t>(port)[i] = int32_t((i + shift) * 37 % 256);
      session.store(port);
    }
    if (const Value *rate = program.input(PortRole::LearningRate)) {
      *session.at<float>(*rate) = 0.1F;
      session.store(*rate);
    }
  }

  float train() {
    session.run(program(ProgramKind::Train));
    return *session.load<float>(
        *program(ProgramKind::Train).output(plan::PortRole::Loss));
  }

  std::vector<char> table() {
    const char *bytes = session.load(session.state(0));
    return {bytes, bytes + session.state(0).numBytes()};
  }

  Plan plan;
  TestDevice device;
  std::unique_ptr<KernelSet> kernels;
  Session session;
};

} // namespace

TEST_P(SessionTest, TrainsTheBigramModel) {
  Bigram bigram(GetParam());
  EXPECT_NEAR(bigram.train(), std::log(256.0), 1e-4); // All weights are zero.
  float last = 0;
  for (int i = 0; i < 40; ++i)
    last = bigram.train();
  EXPECT_LT(last, 1);
  const Value &norm = *bigram.program(plan::ProgramKind::Train)
                           .output(plan::PortRole::GradNorm);
  EXPECT_GT(*bigram.session.load<float>(norm), 0);
}

TEST_P(SessionTest, IsTheSameBitsOnEveryDevice) {
  Bigram first(0), second(GetParam());
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(first.train(), second.train());
  EXPECT_EQ(first.table(), second.table());
}

/// Tokens of a step that no other step has.
static void fillStep(Session &session, const LoadedProgram &program, int step,
                     const Staging *staging = nullptr) {
  for (PortRole role : {PortRole::Ids, PortRole::Labels}) {
    const Value &port = *program.input(role);
    auto *tokens =
        staging ? staging->at<int32_t>(port) : session.at<int32_t>(port);
    for (int64_t i = 0; i < port.numElements(); ++i)
      tokens[i] =
          int32_t((i * (step + 1) + (role == PortRole::Labels)) * 37 % 256);
    if (staging)
      staging->store(port);
    else
      session.store(port);
  }
}

/// The host writes the next step's tokens, and takes a loss when the next step
/// is submitted, where the device works on its own; or takes none.
TEST_P(SessionTest, StagedStepsAreThoseOfOneAfterTheOther) {
  constexpr int steps = 6;
  Bigram plain(0);
  std::vector<float> expected;
  for (int step = 0; step < steps; ++step) {
    fillStep(plain.session, plain.program(ProgramKind::Train), step);
    expected.push_back(plain.train());
  }
  bool isAhead = GetParam() != 0;
  for (bool takesLosses : {true, false}) {
    Bigram staged(GetParam());
    const LoadedProgram &program = staged.program(ProgramKind::Train);
    const Value &loss = *program.output(PortRole::Loss);
    Staging staging(staged.session, program, {&loss});
    std::vector<float> found;
    auto take = [&](int64_t run) {
      found.push_back(*staging.result<float>(loss, run));
    };
    for (int step = 0; step < steps; ++step) {
      fillStep(staged.session, program, step, &staging);
      const Value &rate = *program.input(PortRole::LearningRate);
      *staging.at<float>(rate) = 0.1F;
      staging.store(rate);
      int64_t run = staging.run();
      EXPECT_EQ(run, step);
      if (takesLosses && run >= isAhead)
        take(run - isAhead);
    }
    if (takesLosses && isAhead)
      take(steps - 1);
    EXPECT_EQ(found, takesLosses ? expected : std::vector<float>());
    EXPECT_EQ(staged.table(), plain.table());
  }
}

TEST(Session, StepsAllocateNothing) {
  Bigram bigram(0);
  const LoadedProgram &program = bigram.program(plan::ProgramKind::Train);
  std::vector<LaunchTime> times(program.commands().size());
  int64_t before = allocationCount();
  for (int i = 0; i < 10; ++i) {
    bigram.session.run(program);
    bigram.session.run(program, {}, times.data());
    bigram.session.run(bigram.program(plan::ProgramKind::Eval));
  }
  EXPECT_EQ(allocationCount(), before);
  EXPECT_GT(times[0].end, times[0].begin);
}

TEST_P(SessionTest, AllocatesWhatThePlanSays) {
  Bigram bigram(GetParam());
  EXPECT_EQ(bigram.session.mappedBytes(), bigram.plan.memory.peakBytes());
}

/// What the driver was asked for: the plan's memory, and a graph for each step.
TEST(Session, AsksADriverForNoMoreThanThePlan) {
  std::string file = testing::TempDir() + "counts-" + std::to_string(getpid());
  Variable counts("HEDDLE_EMULATE_COUNTS", file);
  constexpr int64_t steps = 5;
  plan::Memory memory;
  {
    Bigram bigram(cudaLate);
    memory = bigram.plan.memory;
    for (int64_t i = 0; i < steps; ++i)
      bigram.session.run(bigram.program(ProgramKind::Train));
    bigram.session.runsOn().synchronize();
  }
  std::vector<char> text = readFile(file);
  remove(file.c_str());
  auto found = nlohmann::json::parse(text);
  EXPECT_EQ(found["device_bytes"], memory.peakBytes(MemoryKind::Device));
  EXPECT_EQ(found["pinned_bytes"], 0);
  EXPECT_EQ(found["calls"]["cuGraphLaunch"], steps);
  // Two micro-batches, powers and AdamW; each program is captured once.
  EXPECT_EQ(found["kernels"], 4 * steps);
  EXPECT_EQ(found["calls"]["cuLaunchKernelEx"], 4 + 1 + 1);
  EXPECT_EQ(found["calls"]["cuMemAlloc_v2"], 2);
  EXPECT_EQ(found["calls"]["cuMemFree_v2"], 2);
}

TEST_P(SessionTest, ReadsNothingThatItDidNotWrite) {
  Bigram clean(GetParam()), poisoned(GetParam());
  poisoned.session.poisonArena(0xff);
  poisoned.fill(poisoned.program(plan::ProgramKind::Train));
  const Value &rng =
      *poisoned.program(plan::ProgramKind::Train).input(plan::PortRole::Rng);
  memset(poisoned.session.at(rng), 0, rng.numBytes());
  poisoned.session.store(rng);
  EXPECT_EQ(clean.train(), poisoned.train());
}

TEST_P(SessionTest, RunsBetweenGuardPages) {
  SessionOptions options;
  options.guardPages = true;
  Bigram plain(GetParam()), guarded(GetParam(), makeBigramPlan(), options);
  EXPECT_EQ(plain.train(), guarded.train());
}

TEST_P(SessionTest, AnArenaOnePageShortFails) {
  Plan plan = makeBigramPlan();
  plan.memory.arenaBytes[plan::MemoryKind::Device] -= Arena::pageSize();
  try {
    Bigram bigram(GetParam(), plan);
    FAIL();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0385");
  }
}

TEST_P(SessionTest, GeneratesFromTheTable) {
  Bigram bigram(GetParam());
  for (int i = 0; i < 30; ++i)
    bigram.train();
  const LoadedProgram &program = bigram.program(plan::ProgramKind::Generate);
  Session &session = bigram.session;
  const Value &ids = *program.input(plan::PortRole::Ids);
  const Value &position = *program.input(plan::PortRole::Position);
  session.load<int32_t>(ids)[3] = 37;
  session.store(ids);
  *session.at<int32_t>(position) = 3;
  session.store(position);
  session.run(program);
  const float *logits =
      session.load<float>(*program.output(plan::PortRole::Logits));
  EXPECT_EQ(std::max_element(logits, logits + 256) - logits, 74);
}
