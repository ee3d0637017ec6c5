//===- ConditionTest.cpp - Tests of what steps may skip -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Condition.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle::plan;

static Condition progressive(double rate) {
  return {"h.3.kept", "h.3", rate, DropProgress{0.5, 0.001}};
}

/// (1 - theta) exp(-gamma t) + theta, the formula of the paper and of DeepSpeed
/// 0.19.6's class ProgressiveLayerDrop, computed with Python.
TEST(Condition, ThetaFallsToItsLimit) {
  DropProgress progress{0.5, 0.001};
  EXPECT_DOUBLE_EQ(progress.at(0), 1.0);
  EXPECT_NEAR(progress.at(1), 0.99950024991669, 1e-14);
  EXPECT_NEAR(progress.at(100), 0.95241870901798, 1e-14);
  EXPECT_NEAR(progress.at(1000), 0.68393972058572, 1e-14);
  EXPECT_NEAR(progress.at(20000), 0.50000000103058, 1e-14);
}

TEST(Condition, LaterLayersAreKeptLessOften) {
  EXPECT_DOUBLE_EQ(progressive(1.0).keepProbability(0), 1.0);
  EXPECT_NEAR(progressive(1.0).keepProbability(1 << 20), 0.5, 1e-12);
  EXPECT_NEAR(progressive(0.25).keepProbability(1 << 20), 0.875, 1e-12);
  Condition constant = {"h.0.kept", "h.0", 0.3};
  for (int64_t step : {0, 1, 1000000})
    EXPECT_DOUBLE_EQ(constant.keepProbability(step), 0.7);
}

TEST(Condition, HoldsAsOftenAsItsProbabilitySays) {
  constexpr int64_t steps = 20000;
  for (double rate : {0.0, 0.05, 0.3, 0.5, 0.9}) {
    Condition condition = {"h.7.kept", "h.7", rate};
    int64_t kept = 0;
    for (int64_t step = 0; step < steps; ++step)
      kept += condition.holds(7, step);
    double deviation = std::sqrt(rate * (1 - rate) / steps);
    EXPECT_NEAR(double(kept) / steps, 1 - rate, 4 * deviation) << rate;
  }
}

/// Draws of other layers, steps and seeds are independent: two of them agree
/// in about half of the cases.
TEST(Condition, DrawsDifferByLayerStepAndSeed) {
  Condition one = {"h.1.kept", "h.1", 0.5}, two = one;
  two.path = "h.2";
  int64_t layers = 0, steps = 0, seeds = 0;
  for (int64_t step = 0; step < 2000; ++step) {
    layers += one.holds(7, step) == two.holds(7, step);
    steps += one.holds(7, step) == one.holds(7, step + 1);
    seeds += one.holds(7, step) == one.holds(8, step);
  }
  for (int64_t equal : {layers, steps, seeds})
    EXPECT_NEAR(double(equal) / 2000, 0.5, 0.05);
}

TEST(Condition, JsonIsReadAsItWasWritten) {
  for (const Condition &condition :
       {progressive(0.25), Condition{"a.kept", "a", 0.1}}) {
    auto read = nlohmann::json(condition).get<Condition>();
    EXPECT_EQ(read.name, condition.name);
    EXPECT_EQ(read.path, condition.path);
    EXPECT_EQ(read.rate, condition.rate);
    EXPECT_EQ(read.progress.has_value(), condition.progress.has_value());
    EXPECT_EQ(read.keepProbability(77), condition.keepProbability(77));
  }
}
