//===- ScheduleTest.cpp - Tests of learning-rate schedules ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The expected rates are those that DeepSpeed 0.19.8's optimizer was observed
// to use in its first updates.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/optim/Schedule.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

static Schedule make(const char *type, const json &params, double lr = 1e-3) {
  return Schedule({type, params}, lr);
}

static void expectRates(const Schedule &schedule,
                        const std::vector<double> &rates) {
  for (size_t i = 0; i < rates.size(); ++i)
    EXPECT_NEAR(schedule.rate(int64_t(i) + 1), rates[i], 1e-8 + 1e-4 * rates[i])
        << "update " << i + 1;
}

TEST(Schedule, Constant) {
  expectRates(Schedule({}, 3e-4), {3e-4, 3e-4, 3e-4});
}

TEST(Schedule, WarmupLinear) {
  expectRates(make("WarmupLR", {{"warmup_min_lr", 0},
                                {"warmup_max_lr", 1e-3},
                                {"warmup_num_steps", 5},
                                {"warmup_type", "linear"}}),
              {0, 0, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1e-3});
}

TEST(Schedule, WarmupLog) {
  expectRates(make("WarmupLR", {{"warmup_num_steps", 5}}),
              {0, 0, 4.3068e-4, 6.8261e-4, 8.6135e-4, 1e-3, 1e-3});
}

TEST(Schedule, WarmupOfOneStepTakesTwo) {
  expectRates(
      make("WarmupLR", {{"warmup_num_steps", 0}, {"warmup_type", "linear"}}),
      {0, 0, 5e-4, 1e-3});
}

TEST(Schedule, WarmupDecay) {
  std::vector<double> rates = {0, 0, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3};
  for (int left = 6; left >= 0; --left)
    rates.push_back(1e-3 * left / 7);
  rates.push_back(0);
  expectRates(make("WarmupDecayLR", {{"total_num_steps", 12},
                                     {"warmup_min_lr", 0},
                                     {"warmup_max_lr", 1e-3},
                                     {"warmup_num_steps", 5},
                                     {"warmup_type", "linear"}}),
              rates);
}

TEST(Schedule, WarmupCosine) {
  expectRates(make("WarmupCosineLR",
                   {{"total_num_steps", 12},
                    {"warmup_min_ratio", 0.1},
                    {"warmup_num_steps", 4}},
                   0.5),
              {0, .05, .275, .40661656, .5, .48097179, .42678402, .34568629,
               .250025, .15436371, .07326598, .01907821, 5e-5, 5e-5});
}

TEST(Schedule, OneCycle) {
  expectRates(make("OneCycle", {{"cycle_min_lr", 1e-4},
                                {"cycle_max_lr", 1e-3},
                                {"cycle_first_step_size", 3},
                                {"cycle_second_step_size", 3},
                                {"decay_step_size", 2},
                                {"decay_lr_rate", 0.1}}),
              {1e-4, 4e-4, 7e-4, 1e-3, 7e-4, 4e-4, 1e-4, 9.524e-5, 9.091e-5});
}

TEST(Schedule, RangeTest) {
  json params = {{"lr_range_test_min_lr", 1e-4},
                 {"lr_range_test_step_size", 3},
                 {"lr_range_test_step_rate", 1.0},
                 {"lr_range_test_staircase", true}};
  expectRates(make("LRRangeTest", params),
              {1e-4, 1e-4, 1e-4, 2e-4, 2e-4, 2e-4, 3e-4, 3e-4, 3e-4});
}

static Diagnostic failure(const char *type, const json &params) {
  try {
    make(type, params);
  } catch (const UserError &error) {
    return error.diagnostic;
  }
  return {};
}

TEST(Schedule, RefusesWhatItDoesNotKnow) {
  Diagnostic unknown = failure("WarmupCosinLR", json::object());
  EXPECT_EQ(unknown.code, "H0194");
  EXPECT_NE(unknown.help.find("WarmupCosineLR"), std::string::npos);
  EXPECT_EQ(failure("WarmupDecayLR", json::object()).code, "H0194");
  EXPECT_EQ(failure("WarmupLR", {{"warmup_num_steps", "five"}}).code, "H0194");
}
