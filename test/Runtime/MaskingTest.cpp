//===- MaskingTest.cpp - Tests of masked tokens ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Masking.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using What = DataFeed::What;

static plan::Plan maskedPlan() {
  plan::Plan plan;
  plan.vocabSize = 61;
  plan.objective = plan::Objective::MaskedToken;
  plan.maskToken = 4;
  plan.specialTokens = {0, 1, 2, 3, -7, 61};
  return plan;
}

static std::string codeOf(const plan::Plan &plan, const MaskOptions &options) {
  try {
    Masking::of(plan, options);
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

// Of test/EndToEnd/test_masked.py, which has the rule in numpy.
TEST(Masking, IsThatOfTheRule) {
  Masking masking = *Masking::of(maskedPlan(), {0.5, std::nullopt});
  const std::vector<int32_t> masked = {4, 7, 10, 11, 13, 14, 17, 20, 22};
  for (int32_t i = 0; i < 24; ++i) {
    MaskPosition place = {(uint64_t(5) << 32) + 7,
                          (uint64_t(1) << 32) - 3 + uint64_t(i), 9,
                          Masking::training};
    int32_t token = i + 5, given = masking.at(place, token, What::Inputs);
    bool isMasked = std::count(masked.begin(), masked.end(), i) > 0;
    EXPECT_EQ(given, isMasked ? 4 : token) << i;
    EXPECT_EQ(masking.at(place, token, What::Labels), isMasked ? token : -100)
        << i;
  }
}

TEST(Masking, Shares) {
  Masking masking = *Masking::of(maskedPlan(), {});
  const int32_t token = 30, count = 200000;
  double labels = 0, masks = 0, same = 0;
  for (int32_t i = 0; i < count; ++i) {
    MaskPosition place = {3, uint64_t(i), 0, Masking::evaluation};
    int32_t given = masking.at(place, token, What::Inputs);
    if (masking.at(place, token, What::Labels) == -100) {
      EXPECT_EQ(given, token);
      continue;
    }
    labels += 1;
    masks += given == 4;
    same += given == token;
    EXPECT_TRUE(given >= 0 && given < 61);
  }
  EXPECT_NEAR(labels / count, 0.15, 0.003);
  EXPECT_NEAR(masks / labels, 0.8 + 0.1 / 61, 0.01);
  EXPECT_NEAR(same / labels, 0.1 + 0.1 / 61, 0.01);
}

TEST(Masking, LeavesSpecialTokens) {
  Masking masking = *Masking::of(maskedPlan(), {1.0, std::nullopt});
  for (int32_t token = 0; token < 61; ++token) {
    MaskPosition place = {3, uint64_t(token), 0, Masking::training};
    EXPECT_EQ(masking.at(place, token, What::Labels), token < 5 ? -100 : token);
  }
}

TEST(Masking, WhatIsRefused) {
  plan::Plan plan = maskedPlan();
  EXPECT_EQ(codeOf(plan, {0.3, 60}), "");
  EXPECT_EQ(codeOf(plan, {std::nullopt, 61}), "H0163");
  plan.maskToken = -1;
  EXPECT_EQ(codeOf(plan, {}), "H0162");
  EXPECT_EQ(codeOf(plan, {std::nullopt, 7}), "");
  plan.objective = plan::Objective::NextToken;
  EXPECT_EQ(codeOf(plan, {0.3, std::nullopt}), "H0161");
  EXPECT_EQ(codeOf(plan, {std::nullopt, 7}), "H0161");
  EXPECT_FALSE(Masking::of(plan, {}).has_value());
}
