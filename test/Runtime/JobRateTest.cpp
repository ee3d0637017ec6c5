//===- JobRateTest.cpp - Tests of what the cores of a job can do ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/JobRate.h"

#include <gtest/gtest.h>

using namespace heddle::rt;

static RankPeak rank(const char *host, int64_t first,
                     std::vector<double> flopsPerSecond) {
  return {host, {first, std::move(flopsPerSecond), "avx2"}};
}

// Each has the core half of the time, and is as fast then as if it were alone.
TEST(JobRate, CountsASharedCoreOnce) {
  EXPECT_EQ(
      peakOfRanks({rank("a", 7, {5, 0, 5, 0}), rank("a", 7, {0, 5, 0, 5})}), 5);
}

TEST(JobRate, ComparesTheSameSpansOfTime) {
  EXPECT_EQ(peakOfRanks({rank("a", 7, {1, 9, 1}), rank("a", 8, {1, 9, 1})}),
            10);
}

TEST(JobRate, KeepsTheBestRateSeen) {
  JobRate rate;
  rate.peakFlopsPerSecond = 10;
  EXPECT_FALSE(rate.see(10));
  EXPECT_STREQ(rate.kindOfPeak(), "measured");
  EXPECT_TRUE(rate.see(12));
  EXPECT_EQ(rate.peakFlopsPerSecond, 12);
  EXPECT_STREQ(rate.kindOfPeak(), "best seen");
  JobRate again = rate;
  again.isSeen = false;
  again.peakFlopsPerSecond = 11;
  rate.keepBest(again);
  EXPECT_EQ(rate.peakFlopsPerSecond, 12);
  again.peakFlopsPerSecond = 15;
  rate.keepBest(again);
  EXPECT_EQ(rate.peakFlopsPerSecond, 15);
  EXPECT_STREQ(rate.kindOfPeak(), "measured");
  // What a maker states is no measurement.
  rate.isStated = true;
  EXPECT_FALSE(rate.see(20));
  EXPECT_EQ(rate.peakFlopsPerSecond, 15);
}

TEST(JobRate, AddsHostsWhoseClocksDiffer) {
  EXPECT_EQ(peakOfRanks({rank("a", 7, {3, 4}), rank("b", 7000, {6, 5})}), 10);
}
