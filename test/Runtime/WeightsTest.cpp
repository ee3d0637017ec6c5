//===- WeightsTest.cpp - Tests of random weights --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/InitialValues.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle::rt;

TEST(FillNormal, HasItsMomentsAndTails) {
  std::vector<float> values(200000);
  fillNormal(values.data(), 0, int64_t(values.size()), 7, 1, 0.5, 0.02);
  double mean = 0, square = 0, outside = 0;
  for (float value : values) {
    mean += value;
    square += (value - 0.5) * (value - 0.5);
    outside += std::abs(value - 0.5) > 0.04;
  }
  auto count = double(values.size());
  EXPECT_NEAR(mean / count, 0.5, 2e-4);
  EXPECT_NEAR(std::sqrt(square / count), 0.02, 2e-4);
  EXPECT_NEAR(outside / count, 0.0455, 0.003); // Beyond two deviations.
}

TEST(FillNormal, DoesNotDependOnWhoFillsWhat) {
  std::vector<float> whole(1001), parts(1001);
  fillNormal(whole.data(), 0, 1001, 7, 1, 0, 1);
  for (int64_t first : {0, 3, 500, 502, 997})
    for (int64_t next : {3, 500, 502, 997, 1001})
      if (first < next)
        fillNormal(parts.data() + first, first, next - first, 7, 1, 0, 1);
  EXPECT_EQ(whole, parts);
}

TEST(FillNormal, StreamsDiffer) {
  std::vector<float> a(100), b(100), c(100);
  fillNormal(a.data(), 0, 100, 7, 1, 0, 1);
  fillNormal(b.data(), 0, 100, 7, 2, 0, 1);
  fillNormal(c.data(), 0, 100, 8, 1, 0, 1);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}
