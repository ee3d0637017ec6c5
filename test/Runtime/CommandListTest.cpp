//===- CommandListTest.cpp - Tests of programs of several ranks -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Meshes.h"
#include "SmallPlan.h"
#include "TestDevice.h"
#include "heddle/runtime/core/Session.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

namespace {

/// A device with a clock, by which all takes as long. Notes of which stream it
/// was asked for the time.
class Clocked : public SeparateDevice {
public:
  using SeparateDevice::SeparateDevice;
  static constexpr int64_t each = int64_t(1) << 40;

  std::optional<int64_t> measure(rt::Stream stream,
                                 const std::function<void()> &submit) override {
    submit();
    measured.emplace_back(nameOf(stream));
    return each;
  }
  std::vector<std::string> measured;
};

/// Writes down what it is asked for.
class Recorder : public Communication {
public:
  void use(HostMirror &) override {}
  int64_t addCollective(const Collective &collective,
                        const CollectiveBuffers &buffers) override {
    announced.push_back(std::string(nameOf(collective.kind)) + " " +
                        std::to_string(buffers.targetBytes) + " " +
                        std::to_string(buffers.stagingBytes));
    return int64_t(announced.size()) - 1;
  }
  int64_t addChannel(const Channel &channel) override {
    return channel.delta > 0 ? 100 : 200;
  }
  void start(int64_t number) override { note("start", number); }
  void wait(int64_t number) override { note("wait", number); }
  void send(int64_t channel, Address, int64_t bytes) override {
    note("send", channel, bytes);
  }
  void receive(int64_t channel, Address, int64_t bytes) override {
    note("receive", channel, bytes);
  }
  void flush(int64_t channel, int64_t count) override {
    note("flush", channel, count);
  }

  bool isOfDevices(int64_t) const override { return areOfDevices; }
  bool sendsFromDevices() const override { return areOfDevices; }

  std::vector<std::string> announced, events;
  bool areOfDevices = false;

private:
  void note(const char *what, int64_t number, int64_t more = -1) {
    events.push_back(std::string(what) + " " + std::to_string(number) +
                     (more < 0 ? "" : " " + std::to_string(more)));
  }
};

} // namespace

static Term term(Term::Kind kind, int64_t factor,
                 std::vector<std::string> axes = {}) {
  return {kind, 0, factor, std::move(axes)};
}

/// Runs the small plan as one rank on the device of that seed; its eight
/// numbers.
static std::vector<int64_t> runAs(const Plan &plan, int64_t rank,
                                  Communication *communication = nullptr,
                                  int seed = 0) {
  TestDevice device(seed);
  std::unique_ptr<KernelSet> kernels = device.bigramKernels();
  SessionOptions options;
  options.participant = {rank, communication};
  Session session(plan, *kernels, *device, options);
  session.run(*session.program(plan::ProgramKind::Train));
  auto *digits = session.load<int64_t>(*session.state("digits"));
  return {digits, digits + 8};
}

static std::string failureOf(const Plan &plan,
                             Communication *communication = nullptr,
                             int seed = 0) {
  try {
    runAs(plan, 0, communication, seed);
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

/// A copy to memory of that kind runs beside a launch that overwrites what it
/// reads; with `waits`, before it.
static Plan copyBeside(plan::MemoryKind memory, bool waits) {
  Ref digits = at(Space::Persistent, 0, 16), aside = at(Space::Frame, 64, 16);
  aside.memory = memory;
  Ref kept = at(Space::Persistent, 16, 16);
  Command ready = record(), copied = ready;
  Command begins = waitFor(1), ends = waitFor(4), away = copy(aside, digits);
  for (Command *command : {&copied, &begins, &away})
    command->stream = plan::Stream::Copy;
  if (!waits) // For what is done already.
    begins = ends = waitFor(1);
  Plan plan = smallPlan(
      {{"main",
        0,
        0,
        0,
        {launch(0, {digits}, {number(70)}), ready, begins, away, copied, ends,
         launch(0, {digits}, {number(10)}), copy(kept, aside)}}});
  plan.memory.arenaBytes[memory] = 4096;
  return plan;
}

/// Runs the plan on the device of that seed with these values of its
/// conditions; its first four numbers.
static std::vector<int64_t> runWith(const Plan &plan, const Outcomes &outcomes,
                                    int seed) {
  TestDevice device(seed);
  std::unique_ptr<KernelSet> kernels = device.bigramKernels();
  Session session(plan, *kernels, *device, SessionOptions());
  session.run(*session.program(plan::ProgramKind::Train), outcomes);
  auto *digits = session.load<int64_t>(*session.state("digits"));
  return {digits, digits + 4};
}

/// A call whose commands run only if condition 0 holds, and a copy that runs
/// only if it does not.
static Plan conditional() {
  Ref first = at(Space::Persistent, 0, 16),
      second = at(Space::Persistent, 16, 16);
  Command call;
  call.what = plan::command::Call{};
  call.as<plan::command::Call>()->sequence = 1;
  call.guard = {0, true};
  Command copied = copy(second, first);
  copied.guard = {0, false};
  Plan plan = smallPlan(
      {{"main", 0, 0, 0, {launch(0, {first}, {number(10)}), copied, call}},
       {"kept", 0, 0, 0, {launch(0, {second}, {number(70)})}}});
  plan.conditions = {{"h.0.kept", "h.0", 0.5}};
  return plan;
}

TEST(CommandList, SkipsWhatAConditionExcludes) {
  const std::vector<int64_t> kept = {10, 11, 70, 71},
                             skipped = {10, 11, 10, 11};
  for (int seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(runWith(conditional(), {true}, seed), kept) << seed;
    EXPECT_EQ(runWith(conditional(), {false}, seed), skipped) << seed;
    EXPECT_EQ(runWith(conditional(), {}, seed), kept) << seed;
  }
  EXPECT_EQ(runWith(conditional(), {false}, cudaLate), skipped);
}

TEST(CommandList, SaysWhatARunSkips) {
  TestDevice device(0);
  std::unique_ptr<KernelSet> kernels = device.bigramKernels();
  Plan plan = conditional();
  Session session(plan, *kernels, *device, SessionOptions());
  const LoadedProgram &program = *session.program(plan::ProgramKind::Train);
  std::vector<LaunchTime> times(program.commands().size());
  for (bool isKept : {true, false}) {
    session.run(program, {isKept}, times.data());
    ASSERT_EQ(times.size(), 3u);
    EXPECT_FALSE(times[0].isSkipped());
    EXPECT_EQ(times[1].isSkipped(), isKept);
    EXPECT_EQ(times[2].isSkipped(), !isKept);
  }
}

TEST(CommandList, RefusesConditionsThatDoNotFit) {
  Plan unknown = conditional();
  unknown.conditions.clear();
  EXPECT_EQ(failureOf(unknown), "H0385");
  // The call's commands must not depend on another condition.
  Plan nested = conditional();
  nested.conditions.push_back({"h.1.kept", "h.1", 0.5});
  nested.sequences[1].commands[0].guard = {1, true};
  EXPECT_EQ(failureOf(nested), "H0385");
}

TEST(CommandList, StreamsAndKindsOfMemory) {
  const std::vector<int64_t> expected = {10, 11, 70, 71, 0, 0, 0, 0};
  for (plan::MemoryKind memory : plan::memoryKinds) {
    int differ = 0;
    for (int seed = 0; seed < 12; ++seed) {
      EXPECT_EQ(runAs(copyBeside(memory, true), 0, nullptr, seed), expected)
          << nameOf(memory) << " " << seed;
      differ += runAs(copyBeside(memory, false), 0, nullptr, seed) != expected;
    }
    // The CPU does everything at once; elsewhere the waits were needed.
    EXPECT_GT(differ, 2) << nameOf(memory);
    EXPECT_EQ(runAs(copyBeside(memory, false), 0), expected);
    // The emulated GPU finds that they are missing.
    for (int seed : {cudaLate, cudaEarly, cudaSeed}) {
      EXPECT_EQ(runAs(copyBeside(memory, true), 0, nullptr, seed), expected);
      EXPECT_EQ(failureOf(copyBeside(memory, false), nullptr, seed), "H0434");
    }
  }
  Plan none = copyBeside(plan::MemoryKind::Pinned, true);
  none.memory.arenaBytes[plan::MemoryKind::Pinned] = 0;
  EXPECT_EQ(failureOf(none), "H0385");
}

TEST(CommandList, CopiesRowsOfTables) {
  // Two threads write 5 and 6 into the table, and 1 and 2, as four ids.
  Ref values = at(Space::Persistent, 0, 24),
      target = at(Space::Persistent, 32, 32);
  Ref ids = at(Space::Frame, 64, 16), table = at(Space::Frame, 64, 24);
  table.memory = plan::MemoryKind::Pinned;
  auto planFor = [&](int64_t rowBytes,
                     const std::optional<plan::Scalar> &first = {}) {
    Plan plan = smallPlan({{"main",
                            0,
                            0,
                            0,
                            {launch(0, {values}, {number(5)}),
                             launch(0, {ids}, {number(1)}), copy(table, values),
                             copyRows(target, table, ids, rowBytes, first)}}});
    plan.memory.arenaBytes[plan::MemoryKind::Pinned] = 4096;
    return plan;
  };
  for (int seed : {0, 1, 2, int(cudaLate), int(cudaEarly), int(cudaSeed)})
    EXPECT_EQ(runAs(planFor(8), 0, nullptr, seed),
              (std::vector<int64_t>{5, 6, 0, 0, 6, 5, 0, 5}))
        << seed;
  // Two ranks have a part each: of rows 0 to 2, and from row 1 on.
  plan::Scalar first{0, {term(Term::Kind::Coordinate, 1, {"tensor"})}};
  Plan parts = planFor(8, first);
  parts.mesh = meshOf(1, 1, 1, 2);
  EXPECT_EQ(runAs(parts, 0), (std::vector<int64_t>{5, 6, 0, 0, 6, 5, 0, 5}));
  EXPECT_EQ(runAs(parts, 1), (std::vector<int64_t>{5, 6, 0, 0, 5, 0, 6, 0}));
  for (int64_t rowBytes : {0, -8, 7, 16})
    EXPECT_EQ(failureOf(planFor(rowBytes)), "H0385") << rowBytes;
  // A table that kernels reach, and one that is not all there.
  table = values;
  EXPECT_EQ(failureOf(planFor(8)), "H0385");
  table.memory = plan::MemoryKind::Pinned;
  table.bytes = 1 << 20;
  EXPECT_EQ(failureOf(planFor(8)), "H0385");
}

TEST(CommandList, TermsAddUp) {
  // digits[data * 2 + tensor] <- seq + 10 * pipe.
  Ref digit = at(Space::Persistent, 0, 8);
  digit.terms = {term(Term::Kind::Coordinate, 16, {"data"}),
                 term(Term::Kind::Coordinate, 8, {"tensor"})};
  Command store =
      launch(1, {digit},
             {{1,
               {term(Term::Kind::Coordinate, 1, {"seq"}),
                term(Term::Kind::Coordinate, 3, {"pipe", "data"})}}});
  Plan plan = smallPlan({{"main", 0, 0, 0, {store}}});
  plan.mesh = meshOf(1, 2, 2, 2);
  for (int64_t rank = 0; rank < 8; ++rank) {
    int64_t data = rank / 4, seq = rank / 2 % 2, tensor = rank % 2;
    std::vector<int64_t> expected(8);
    expected[data * 2 + tensor] = 1 + seq + 3 * data;
    EXPECT_EQ(runAs(plan, rank), expected) << rank;
  }
}

TEST(CommandList, FragmentsRunInTheOrderOfTheirLine) {
  // F appends its micro-batch to digits[slot], B/1 to digits[4 + slot].
  Ref slot = at(Space::Arg, 0, 8);
  slot.terms = {term(Term::Kind::Slot, 8)};
  Command append = launch(1, {slot}, {loopIndex});
  slot.offset = 32;
  Command backward = launch(1, {slot}, {loopIndex});
  Command schedule = fragments(
      {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {0, 3}, {1, 2}, {1, 3}},
      {{FragmentKind::Forward, 0, 1, 2}, {FragmentKind::Backward, 1, 2, 3}},
      {at(Space::Persistent, 0, 64)});
  Plan plan = smallPlan({{"main", 0, 0, 0, {schedule}},
                         {"forward", 0, 1, 0, {append}},
                         {"backward", 0, 1, 0, {backward}}});
  EXPECT_EQ(runAs(plan, 0), (std::vector<int64_t>{2, 13, 0, 0, 3, 1, 2, 0}));
  for (ScheduledFragment wrong : {ScheduledFragment{2, 1}, {-1, 1}, {0, -1}}) {
    plan.sequences[0].commands[0].as<command::Fragments>()->order = {wrong};
    EXPECT_EQ(failureOf(plan), "H0385") << wrong.fragment;
  }
}

TEST(CommandList, CallsHandSlotsOn) {
  Command append = launch(
      1, {at(Space::Persistent, 0, 8)},
      {{0, {term(Term::Kind::Slot, 2), term(Term::Kind::LoopIndex, 1)}}});
  Plan plan = smallPlan(
      {{"main",
        0,
        0,
        0,
        {fragments({{0, 3}, {0, 4}}, {{FragmentKind::Forward, 0, 1, 4}})}},
       {"forward", 0, 0, 0, {call(2)}},
       {"callee", 0, 0, 0, {append}}});
  EXPECT_EQ(runAs(plan, 0)[0], 94); // 3 + 2 * 3, then 4 + 2 * 0.
}

TEST(CommandList, EntriesKnowTheirFragment) {
  Command append = launch(1, {at(Space::Persistent, 0, 8)}, {{}});
  Command schedule =
      fragments({{0, 0}, {0, 1}, {1, 0}}, {{FragmentKind::Forward, 0, 1, 1},
                                           {FragmentKind::Backward, 1, 2, 1}});
  Plan plan = smallPlan({{"main", 0, 0, 0, {append, schedule, append}},
                         {"forward", 0, 0, 0, {call(2)}},
                         {"backward", 0, 0, 0, {append, append}}});
  TestDevice device(0);
  std::unique_ptr<KernelSet> kernels = device.bigramKernels();
  Session session(plan, *kernels, *device, {});
  const CommandList &list =
      session.program(plan::ProgramKind::Train)->commands();
  std::vector<std::string> names;
  for (size_t i = 0; i < list.size(); ++i)
    names.emplace_back(list.info(i).fragment.name());
  EXPECT_EQ(names, (std::vector<std::string>{"", "F0", "F0", "F1", "F1", "B0/1",
                                             "B0/1", ""}));
}

/// A loop that starts a collective in each round, and waits for it.
static Plan collectivePlan() {
  Command start = collective(
      Collective::Kind::ReduceScatter, {}, at(Space::Persistent, 0, 32),
      at(Space::Persistent, 32, 32), at(Space::Frame, 0, 64));
  return smallPlan({{"main", 64, 0, 0, {loop(1, 2)}},
                    {"body", 64, 0, 0, {start, waitFor(0)}}});
}

TEST(CommandList, WaitsForItsOwnRound) {
  Recorder recorder;
  runAs(collectivePlan(), 0, &recorder);
  EXPECT_EQ(recorder.announced,
            (std::vector<std::string>{"reduce_scatter 32 64",
                                      "reduce_scatter 32 64"}));
  EXPECT_EQ(recorder.events, (std::vector<std::string>{"start 0", "wait 0",
                                                       "start 1", "wait 1"}));
}

TEST(CommandList, DevicesTimeWhatTheyDo) {
  Ref digits = at(Space::Persistent, 0, 16), aside = at(Space::Frame, 64, 16);
  Command away = copy(aside, digits);
  away.stream = plan::Stream::Copy;
  Command start = collective(
      Collective::Kind::ReduceScatter, {}, at(Space::Persistent, 0, 32),
      at(Space::Persistent, 32, 32), at(Space::Frame, 0, 64));
  Plan plan =
      smallPlan({{"main",
                  128,
                  0,
                  0,
                  {launch(0, {digits}, {number(70)}), away, start, waitFor(2),
                   record(), send(1, digits), receive(-1, digits)}}});
  ThreadPool pool(2);
  for (bool areOfDevices : {false, true}) {
    Clocked device(pool, /*seed=*/1);
    std::vector<char> image = readBigramKernels();
    auto kernels = device.load(image.data(), image.size(), {});
    Recorder recorder;
    recorder.areOfDevices = areOfDevices;
    SessionOptions options;
    options.participant = {0, &recorder};
    Session session(plan, *kernels, device, options);
    const LoadedProgram &program = *session.program(plan::ProgramKind::Train);
    std::vector<LaunchTime> times(program.commands().size());
    session.run(program, {}, times.data());
    std::vector<size_t> measured;
    for (size_t i = 0; i < times.size(); ++i)
      if (times[i].end - times[i].begin == Clocked::each)
        measured.push_back(i);
    using Streams = std::vector<std::string>;
    EXPECT_EQ(measured, areOfDevices ? (std::vector<size_t>{0, 1, 2, 6})
                                     : (std::vector<size_t>{0, 1}));
    EXPECT_EQ(device.measured,
              areOfDevices
                  ? (Streams{"compute", "copy", "communication", "compute"})
                  : (Streams{"compute", "copy"}));
  }
}

TEST(CommandList, SendsAreGoneAtTheEndOfAStep) {
  Ref data = at(Space::Persistent, 0, 16);
  Recorder recorder;
  // Before the first send there is nothing to wait for.
  runAs(smallPlan({{"main",
                    0,
                    0,
                    0,
                    {flush(1), receive(-1, data), send(1, data), flush(1),
                     send(1, data)}}}),
        0, &recorder);
  EXPECT_EQ(recorder.events, (std::vector<std::string>{
                                 "receive 200 16", "send 100 16", "flush 100 1",
                                 "send 100 16", "flush 100 0"}));
}

TEST(CommandList, RefusesMalformedCommunication) {
  Recorder recorder;
  Plan plan = collectivePlan();
  EXPECT_EQ(failureOf(plan), "H0385"); // There is nobody to talk to.
  plan.sequences[1].commands[1] = waitFor(1);
  EXPECT_EQ(failureOf(plan, &recorder), "H0385");
  Command outside = send(1, at(Space::Persistent, 4096, 8));
  EXPECT_EQ(failureOf(smallPlan({{"main", 0, 0, 0, {outside}}}), &recorder),
            "H0385");
}
