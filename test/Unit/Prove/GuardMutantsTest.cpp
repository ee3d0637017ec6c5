//===- GuardMutantsTest.cpp - Plans with broken conditions are refused ----===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/Mutations.h"
#include "test/Unit/Prove/PlanTraces.h"
#include "test/Unit/Prove/TraceExecution.h"
#include <functional>
#include <gtest/gtest.h>
#include <iostream>

using namespace heddle;
using namespace heddle::test;
using prove::Event;

namespace {

/// The commands that a step executes: bit c of `outcomes` is the value of
/// condition c.
Traces executed(const Traces &traces, unsigned outcomes) {
  Traces step = traces;
  for (prove::Trace &trace : step)
    for (prove::Body &body : trace.bodies)
      body.erase(std::remove_if(body.begin(), body.end(),
                                [&](const Event &event) {
                                  bool value =
                                      outcomes >> event.guard.condition & 1;
                                  return !event.guard.isAlways() &&
                                         value != event.guard.value;
                                }),
                 body.end());
  return step;
}

bool isRefused(const plan::Mesh &mesh, const Traces &traces) {
  for (const prove::Trace &trace : traces)
    if (prove::checkFlow(trace) || prove::checkRaces(trace))
      return true;
  return prove::checkAgreement(mesh, traces).has_value();
}

/// Changes guards of one rank. Returns what was changed; empty if nothing.
std::string mutateGuards(int kind, std::mt19937_64 &random, Traces &traces) {
  prove::Body &body = traces[random() % traces.size()].bodies[0];
  auto find = [&](const std::function<bool(const Event &)> &fits) -> Event * {
    std::vector<Event *> found;
    for (Event &event : body)
      if (fits(event))
        found.push_back(&event);
    return found.empty() ? nullptr : found[random() % found.size()];
  };
  auto isGuarded = [](const Event &event) { return !event.guard.isAlways(); };
  auto communicates = [](const Event &event) {
    return event.kind == Event::Kind::Start || event.kind == Event::Kind::Wait;
  };
  Event *event = nullptr;
  switch (kind) {
  case 0:
    if ((event = find(isGuarded)))
      event->guard = {};
    return event ? "a command loses its condition" : "";
  case 1:
    if ((event = find(isGuarded)))
      event->guard.condition = 1 - event->guard.condition;
    return event ? "a command gets the other condition" : "";
  case 2:
    if ((event = find(isGuarded)))
      event->guard.value = !event->guard.value;
    return event ? "a command is executed in the other steps" : "";
  case 3:
    if ((event = find([&](const Event &event) {
           return isGuarded(event) && !event.guard.value;
         })))
      body.erase(body.begin() + (event - body.data()));
    return event ? "a result is not passed through" : "";
  case 4:
    if ((event = find([&](const Event &event) {
           return isGuarded(event) && communicates(event);
         })))
      event->guard = {};
    return event ? "a start or wait loses its condition" : "";
  case 5:
    if ((event = find([&](const Event &event) {
           return !isGuarded(event) && communicates(event);
         })))
      event->guard = {0, true};
    return event ? "a start or wait gets a condition" : "";
  case 6:
    for (Event &each : body)
      if (isGuarded(each))
        each.guard.condition = 1 - each.guard.condition;
    return find(isGuarded) ? "the conditions change places on a rank" : "";
  default:
    for (Event &each : body)
      if (each.guard.condition == 0)
        each.guard.condition = 1;
    return find(isGuarded) ? "a condition is replaced on a rank" : "";
  }
}
constexpr int numKinds = 8;

const char *configs[] = {
    "--mesh data=2 --accumulate 2",
    "--mesh data=2 --zero 2 --accumulate 2",
    "--mesh data=2 --zero 3",
    "--mesh data=2 --zero 3 --accumulate 2",
    "--mesh tensor=2 --accumulate 2",
    "--mesh pipe=2 --accumulate 3",
    "--mesh data=2,pipe=2 --zero 3 --accumulate 2",
    "--mesh data=2,tensor=2 --zero 3",
};

class GuardMutants : public ::testing::TestWithParam<const char *> {};

TEST_P(GuardMutants, CondemnedOnesAreRefused) {
  PlanTraces plan = compileTraces(
      std::string(GetParam()) + " --layer-drop-schedule 0.5", /*layers=*/2);
  ASSERT_FALSE(plan.ranks.empty());
  ASSERT_FALSE(isRefused(plan.mesh, plan.ranks));
  constexpr unsigned numOutcomes = 4;
  uint64_t expected[numOutcomes];
  for (unsigned outcomes = 0; outcomes < numOutcomes; ++outcomes) {
    Traces step = executed(plan.ranks, outcomes);
    expected[outcomes] = execute(plan.mesh, step, {}).persistent;
    ASSERT_EQ(judge(plan.mesh, step, expected[outcomes]), Verdict::Fine);
  }
  std::mt19937_64 random(13);
  int made = 0, condemned = 0, refused = 0;
  for (int trial = 0; trial < 4 * numKinds; ++trial) {
    Traces mutant = plan.ranks;
    std::string what = mutateGuards(trial % numKinds, random, mutant);
    if (what.empty())
      continue;
    ++made;
    // A rank that skips another layer as a whole computes something else, and
    // nothing in its commands tells. The verifier of plans compares the paths
    // of calls and conditions.
    bool isWhole = trial % numKinds >= 6;
    bool isBad = false;
    for (unsigned outcomes = 0; outcomes < numOutcomes && !isBad; ++outcomes) {
      Verdict verdict = judge(plan.mesh, executed(mutant, outcomes),
                              expected[outcomes]);
      isBad = verdict != Verdict::Fine &&
              !(isWhole && verdict == Verdict::Changed);
    }
    bool isCaught = isRefused(plan.mesh, mutant);
    condemned += isBad;
    refused += isCaught;
    EXPECT_TRUE(isCaught || !isBad) << what << " (trial " << trial << ")";
  }
  std::cout << made << " mutants, " << condemned << " condemned, " << refused
            << " refused\n";
  EXPECT_GT(refused, made / 2);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, GuardMutants, ::testing::ValuesIn(configs),
    [](const ::testing::TestParamInfo<const char *> &info) {
      std::string name;
      for (char letter : std::string(info.param))
        if (isalnum(static_cast<unsigned char>(letter)))
          name += letter;
      return name;
    });

} // namespace
