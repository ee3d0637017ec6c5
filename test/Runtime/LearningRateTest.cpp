//===- LearningRateTest.cpp - Tests of learning-rate schedules ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The expected rates are those that DeepSpeed 0.19.8's optimizer was observed
// to use in its first updates.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/optim/LearningRate.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using P = plan::RateParameter;
using S = plan::RateSchedule;

static LearningRate make(S schedule, std::map<P, double> parameters,
                         double lr = 1e-3) {
  return LearningRate({schedule, std::move(parameters)}, lr);
}

static void expectRates(const LearningRate &schedule,
                        const std::vector<double> &rates) {
  for (size_t i = 0; i < rates.size(); ++i)
    EXPECT_NEAR(schedule.at(int64_t(i) + 1), rates[i], 1e-8 + 1e-4 * rates[i])
        << "update " << i + 1;
}

TEST(Schedule, Constant) {
  expectRates(LearningRate({}, 3e-4), {3e-4, 3e-4, 3e-4});
}

TEST(Schedule, WarmupLinear) {
  expectRates(make(S::WarmupLR, {{P::WarmupMinLr, 0},
                                 {P::WarmupMaxLr, 1e-3},
                                 {P::WarmupNumSteps, 5},
                                 {P::WarmupType, 1}}),
              {0, 0, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1e-3});
}

TEST(Schedule, WarmupLog) {
  expectRates(make(S::WarmupLR, {{P::WarmupNumSteps, 5}}),
              {0, 0, 4.3068e-4, 6.8261e-4, 8.6135e-4, 1e-3, 1e-3});
}

TEST(Schedule, WarmupOfOneStepTakesTwo) {
  expectRates(make(S::WarmupLR, {{P::WarmupNumSteps, 0}, {P::WarmupType, 1}}),
              {0, 0, 5e-4, 1e-3});
}

TEST(Schedule, WarmupDecay) {
  std::vector<double> rates = {0, 0, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3};
  for (int left = 6; left >= 0; --left)
    rates.push_back(1e-3 * left / 7);
  rates.push_back(0);
  expectRates(make(S::WarmupDecayLR, {{P::TotalNumSteps, 12},
                                      {P::WarmupMinLr, 0},
                                      {P::WarmupMaxLr, 1e-3},
                                      {P::WarmupNumSteps, 5},
                                      {P::WarmupType, 1}}),
              rates);
}

TEST(Schedule, WarmupCosine) {
  expectRates(make(S::WarmupCosineLR,
                   {{P::TotalNumSteps, 12},
                    {P::WarmupMinRatio, 0.1},
                    {P::WarmupNumSteps, 4}},
                   0.5),
              {0, .05, .275, .40661656, .5, .48097179, .42678402, .34568629,
               .250025, .15436371, .07326598, .01907821, 5e-5, 5e-5});
}

TEST(Schedule, OneCycle) {
  expectRates(make(S::OneCycle, {{P::CycleMinLr, 1e-4},
                                 {P::CycleMaxLr, 1e-3},
                                 {P::CycleFirstStepSize, 3},
                                 {P::CycleSecondStepSize, 3},
                                 {P::DecayStepSize, 2},
                                 {P::DecayLrRate, 0.1}}),
              {1e-4, 4e-4, 7e-4, 1e-3, 7e-4, 4e-4, 1e-4, 9.524e-5, 9.091e-5});
}

TEST(Schedule, RangeTest) {
  std::map<P, double> params = {{P::LrRangeTestMinLr, 1e-4},
                                {P::LrRangeTestStepSize, 3},
                                {P::LrRangeTestStepRate, 1.0},
                                {P::LrRangeTestStaircase, 1}};
  expectRates(make(S::LRRangeTest, params),
              {1e-4, 1e-4, 1e-4, 2e-4, 2e-4, 2e-4, 3e-4, 3e-4, 3e-4});
}
