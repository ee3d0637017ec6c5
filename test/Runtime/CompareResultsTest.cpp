//===- CompareResultsTest.cpp - How far two results are apart -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/CompareResults.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace heddle;
using namespace heddle::rt;

static Comparison compare(const std::vector<float> &actual,
                          const std::vector<float> &expected, int64_t columns,
                          int64_t leading, bool isPart = false) {
  plan::PlainKernel::Result result;
  result.elements = int64_t(expected.size());
  result.columns = columns;
  result.leadingDimension = leading;
  return compareResults(reinterpret_cast<const char *>(actual.data()),
                        reinterpret_cast<const char *>(expected.data()), result,
                        isPart);
}

static constexpr float nan_ = std::numeric_limits<float>::quiet_NaN();

/// Most rows are small: those of the first one that is large may be off by a
/// share of it, those of the others by a share of all.
TEST(CompareResults, MeasuresByTheRow) {
  std::vector<float> expected(4096, 0.01f);
  expected[0] = 1;
  expected[1] = 0;
  double all = std::sqrt((1 + 4094 * 1e-4) / 4096), first = std::sqrt(0.5);
  std::vector<float> actual = expected;
  actual[1] += 0.001f;
  EXPECT_NEAR(compare(actual, expected, 2, 2).error, 0.001 / first, 1e-6);
  actual = expected;
  actual[100] += 0.001f;
  EXPECT_NEAR(compare(actual, expected, 2, 2).error, 0.001 / (0.01 + all),
              1e-6);
}

TEST(CompareResults, LeavesOutGapsAndWhatIsNotKnown) {
  std::vector<float> expected = {1, 2, nan_, 3, 4, 5}, actual = expected;
  actual[2] = 7;
  Comparison found = compare(actual, expected, 2, 3);
  EXPECT_TRUE(std::isinf(compare(actual, expected, 3, 3).error));
  EXPECT_EQ(found.error, 0);
  EXPECT_EQ(found.elements, 4);
  found = compare(actual, expected, 3, 3, /*isPart=*/true);
  EXPECT_EQ(found.error, 0);
  EXPECT_EQ(found.elements, 6);
  EXPECT_EQ(found.compared, 5);
  actual[4] = nan_;
  EXPECT_TRUE(std::isinf(compare(actual, expected, 2, 3).error));
  EXPECT_TRUE(std::isinf(compare(actual, expected, 3, 3, true).error));
}
