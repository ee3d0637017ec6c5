//===- SmallerPlanTest.cpp - Which changes are tried, and in which time ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../../tools/heddle/SmallerPlan.h"
#include <gtest/gtest.h>
#include <set>

using namespace heddle;
using namespace heddle::driver;

namespace {

/// Training of 6 rows at a time on one rank.
config::Settings sixRows() {
  config::Settings settings;
  settings.batch = settings.microBatch = 6;
  settings.accumulate = 1;
  return settings;
}

/// The changes that are asked for until `fitting` is, or all.
std::vector<std::string> triedUntil(const std::string &fitting, Smaller &found,
                                    std::chrono::nanoseconds time) {
  std::vector<std::string> tried;
  auto fits = [&](const Change &change) {
    tried.push_back(change.text());
    return tried.back() == fitting;
  };
  found = findSmaller(sixRows(), fits, time);
  return tried;
}

} // namespace

TEST(SmallerPlan, TheCheapestFirst) {
  Smaller found;
  const std::string rows = "--micro-batch 3 --accumulate 2";
  EXPECT_EQ(triedUntil(rows, found, searchTime),
            std::vector<std::string>{rows});
  EXPECT_EQ(found.flags, rows);
  EXPECT_TRUE(found.isCheapest);
}

TEST(SmallerPlan, NothingFits) {
  Smaller found;
  std::vector<std::string> all = triedUntil("none", found, searchTime);
  EXPECT_GT(all.size(), 10u);
  EXPECT_EQ(found.flags, "");
  EXPECT_TRUE(found.isCheapest);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

// What needs least is all that there is time for.
TEST(SmallerPlan, WithoutTime) {
  Smaller found;
  std::string least = triedUntil("none", found, searchTime).back();
  EXPECT_NE(least.find("--micro-batch 1 "), std::string::npos);
  EXPECT_NE(least.find("activations="), std::string::npos);
  EXPECT_EQ(triedUntil(least, found, std::chrono::seconds(0)),
            std::vector<std::string>{least});
  EXPECT_EQ(found.flags, least);
  EXPECT_FALSE(found.isCheapest);
  EXPECT_EQ(triedUntil("none", found, std::chrono::seconds(0)),
            std::vector<std::string>{least});
  EXPECT_EQ(found.flags, "");
  EXPECT_FALSE(found.isCheapest);
}
