//===- MutationTest.cpp - Broken plans are refused, others are not --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/Mutations.h"
#include "test/Unit/Prove/PlanTraces.h"
#include "test/Unit/Prove/TraceExecution.h"
#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::test;
using prove::Fault;

namespace {

/// Everything that the checks find: the first fault of each.
std::vector<Fault> faultsOf(const plan::Mesh &mesh, const Traces &traces) {
  std::vector<Fault> faults;
  for (const prove::Trace &trace : traces) {
    for (auto fault : {prove::checkFlow(trace), prove::checkRaces(trace)})
      if (fault)
        faults.push_back(*fault);
  }
  if (auto fault = prove::checkAgreement(mesh, traces))
    faults.push_back(*fault);
  return faults;
}

bool isRightReason(Verdict verdict, const std::vector<Fault> &faults) {
  using Kind = Fault::Kind;
  for (const Fault &fault : faults) {
    bool meets = fault.kind == Kind::Collectives ||
                 fault.kind == Kind::Messages || fault.kind == Kind::Deadlock;
    if (verdict == Verdict::Hangs ? meets : verdict != Verdict::Races || !meets)
      return true;
  }
  return false;
}

struct Config {
  const char *flags;
  int layers;
};

/// Meshes, and how they go on; each with two micro-batches or more.
const Config configs[] = {
    {"--mesh data=2 --accumulate 2", 1},
    {"--mesh data=2 --zero 1 --accumulate 2", 1},
    {"--mesh data=2 --zero 2 --accumulate 2", 1},
    {"--mesh data=2 --zero 3 --accumulate 2", 2},
    {"--mesh tensor=2 --accumulate 2", 1},
    {"--mesh pipe=2 --accumulate 4", 2},
    {"--mesh pipe=2 --accumulate 3 --schedule gpipe", 2},
    {"--mesh pipe=4 --accumulate 4", 4},
    {"--mesh pipe=4 --accumulate 2 --schedule gpipe", 4},
    {"--mesh data=2,pipe=2 --accumulate 2", 2},
    {"--mesh data=2,pipe=2 --zero 1 --accumulate 3", 2},
    {"--mesh tensor=2,pipe=2 --accumulate 2", 2},
};

class Mutants : public ::testing::TestWithParam<Config> {};

TEST_P(Mutants, CondemnedOnesAreRefused) {
  PlanTraces plan = compileTraces(GetParam().flags, GetParam().layers);
  ASSERT_FALSE(plan.ranks.empty());
  for (const Fault &fault : faultsOf(plan.mesh, plan.ranks))
    FAIL() << prove::codeOf(fault.kind) << ": " << fault.text;
  uint64_t expected = execute(plan.mesh, plan.ranks, {}).persistent;
  ASSERT_EQ(judge(plan.mesh, plan.ranks, expected), Verdict::Fine);

  std::mt19937_64 random(11);
  std::map<std::string, int> invisible;
  int made = 0, condemned = 0, refused = 0;
  for (int trial = 0; trial < 3 * numMutations(); ++trial) {
    Traces mutant = plan.ranks;
    Mutation mutation = mutate(trial % numMutations(), random, mutant);
    if (mutation.what.empty())
      continue;
    ++made;
    Verdict verdict = judge(plan.mesh, mutant, expected);
    std::vector<Fault> faults = faultsOf(plan.mesh, mutant);
    refused += !faults.empty();
    if (verdict == Verdict::Fine)
      continue;
    ++condemned;
    if (faults.empty() && verdict == Verdict::Changed &&
        !mutation.invisible.empty()) {
      ++invisible[mutation.invisible];
      continue;
    }
    EXPECT_TRUE(isRightReason(verdict, faults))
        << mutation.what << " (trial " << trial << "), verdict " << int(verdict)
        << ": " << (faults.empty() ? "accepted" : faults.front().text);
  }
  std::cout << made << " mutants, " << condemned << " condemned, " << refused
            << " refused\n";
  for (const auto &[why, count] : invisible)
    std::cout << count << " only change numbers: " << why << "\n";
  EXPECT_GT(condemned, made / 2);
}

TEST_P(Mutants, HarmlessOnesAreAccepted) {
  PlanTraces plan = compileTraces(GetParam().flags, GetParam().layers);
  ASSERT_FALSE(plan.ranks.empty());
  uint64_t expected = execute(plan.mesh, plan.ranks, {}).persistent;
  std::mt19937_64 random(12);
  int made = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Traces other = plan.ranks;
    if (reorder(random, other) == 0)
      continue;
    ++made;
    for (const Fault &fault : faultsOf(plan.mesh, other))
      ADD_FAILURE() << "trial " << trial << ": " << prove::codeOf(fault.kind)
                    << ": " << fault.text;
    // The reordering is harmless indeed.
    if (trial % 10 == 0) {
      EXPECT_EQ(judge(plan.mesh, other, expected), Verdict::Fine) << trial;
    }
  }
  EXPECT_GT(made, 45);
}

INSTANTIATE_TEST_SUITE_P(Plans, Mutants, ::testing::ValuesIn(configs),
                         [](const ::testing::TestParamInfo<Config> &info) {
                           std::string name;
                           for (char letter : std::string(info.param.flags))
                             if (isalnum(static_cast<unsigned char>(letter)))
                               name += letter;
                           return name;
                         });

} // namespace
