//===- HyperparametersTest.cpp - Tests of what a run is told --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/optim/Hyperparameters.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/optim/LearningRate.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using P = plan::RateParameter;
using S = plan::RateSchedule;

static Hyperparameters make(S schedule, std::map<P, double> parameters = {},
                            double lr = 1e-3) {
  plan::Plan plan;
  plan.optimizer.lr = lr;
  plan.scheduler = {schedule, std::move(parameters)};
  return Hyperparameters(plan);
}

static double rateOf(const Hyperparameters &hyper, int64_t update) {
  return LearningRate(hyper.scheduler, hyper.optimizer.lr).at(update);
}

static std::string codeOf(Hyperparameters hyper, const HyperValues &told) {
  try {
    hyper.tell(told);
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

TEST(Hyperparameters, ConstantRateIsTold) {
  Hyperparameters hyper = make(S::Constant);
  hyper.tell({{"lr", 5e-5}});
  EXPECT_DOUBLE_EQ(rateOf(hyper, 1), 5e-5);
  EXPECT_DOUBLE_EQ(rateOf(hyper, 1000), 5e-5);
}

TEST(Hyperparameters, StepsMakeASchedule) {
  Hyperparameters hyper = make(S::Constant);
  hyper.tell({{"lr", 1e-2}, {"warmup_steps", 4}, {"train_steps", 8}});
  EXPECT_EQ(hyper.scheduler.type, S::WarmupDecayLR);
  EXPECT_DOUBLE_EQ(rateOf(hyper, 4), 5e-3);
  EXPECT_DOUBLE_EQ(rateOf(hyper, 6), 1e-2);
  EXPECT_DOUBLE_EQ(rateOf(hyper, 10), 0);
  Hyperparameters rising = make(S::Constant);
  rising.tell({{"warmup_steps", 4}});
  EXPECT_EQ(rising.scheduler.type, S::WarmupLR);
  EXPECT_DOUBLE_EQ(rateOf(rising, 100), 1e-3);
}

TEST(Hyperparameters, HighestAndLowestRates) {
  Hyperparameters warmup =
      make(S::WarmupLR, {{P::WarmupMaxLr, 1e-3}, {P::WarmupNumSteps, 10}});
  warmup.tell({{"lr", 3e-4}, {"min_lr", 1e-4}});
  EXPECT_DOUBLE_EQ(rateOf(warmup, 1), 1e-4);
  EXPECT_DOUBLE_EQ(rateOf(warmup, 100), 3e-4);
  Hyperparameters follows = make(S::WarmupLR, {{P::WarmupNumSteps, 10}});
  follows.tell({{"lr", 3e-4}});
  EXPECT_DOUBLE_EQ(rateOf(follows, 100), 3e-4);
  std::map<P, double> steps = {{P::WarmupNumSteps, 2}, {P::TotalNumSteps, 10}};
  Hyperparameters cosine = make(S::WarmupCosineLR, steps);
  // The lowest rate is a part of the one that is told with it.
  cosine.tell({{"lr", 1e-2}, {"min_lr", 1e-3}, {"train_steps", 20}});
  EXPECT_DOUBLE_EQ(rateOf(cosine, 1000), 1e-3);
  EXPECT_DOUBLE_EQ(cosine.values()["min_lr"], 1e-3);
  EXPECT_DOUBLE_EQ(cosine.values()["train_steps"], 20);
}

TEST(Hyperparameters, RefusesWhatTheScheduleDoesNotHave) {
  EXPECT_EQ(codeOf(make(S::Constant), {{"min_lr", 0}}), "H0123");
  EXPECT_EQ(codeOf(make(S::WarmupLR), {{"train_steps", 8}}), "H0123");
  EXPECT_EQ(codeOf(make(S::LRRangeTest), {{"lr", 1e-3}}), "H0123");
  EXPECT_EQ(codeOf(make(S::OneCycle), {{"warmup_steps", 1}}), "H0123");
  EXPECT_EQ(codeOf(make(S::Constant), {{"weight_decay", 0}}), "H0178");
  EXPECT_EQ(codeOf(make(S::Constant), {{"clip", 1}}), "H0178");
  EXPECT_EQ(
      codeOf(make(S::WarmupLR, {{P::WarmupMaxLr, 1e-3}}), {{"min_lr", 2e-3}}),
      "H0176");
}

TEST(Hyperparameters, ResumedRunKeepsWhatItWasTold) {
  plan::Plan plan;
  plan.programs.resize(1);
  plan.programs[0].inputs.resize(1);
  plan.programs[0].inputs[0].name = plan::maxNormPort;
  Hyperparameters hyper(plan);
  HyperValues told = hyper.tell({{"clip", 0.5}, {"lr", 2e-3}},
                                {{"lr", 5e-3}, {"warmup_steps", 10}});
  EXPECT_EQ(told,
            (HyperValues{{"clip", 0.5}, {"lr", 2e-3}, {"warmup_steps", 10}}));
  EXPECT_DOUBLE_EQ(rateOf(hyper, 100), 2e-3);
  EXPECT_DOUBLE_EQ(hyper.optimizer.gradientClipping, 0.5);
  // The binary has another schedule now.
  Hyperparameters other = make(S::OneCycle, {{P::CycleMaxLr, 1e-2}});
  EXPECT_EQ(other.tell({}, {{"warmup_steps", 10}}), HyperValues());
}

TEST(Hyperparameters, ChangesAreDescribed) {
  EXPECT_EQ(describeChanges({{"lr", 1e-3}, {"warmup_steps", 10}, {"clip", 1}},
                            {{"lr", 5e-5}, {"clip", 1}}),
            (std::vector<std::string>{"lr 5e-05 (before: 0.001)",
                                      "warmup_steps none (before: 10)"}));
}
