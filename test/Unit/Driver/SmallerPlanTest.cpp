//===- SmallerPlanTest.cpp - Which changes are tried, and in which time ---===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../../tools/heddle/SmallerPlan.h"
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::driver;

namespace {

/// Training of 6 rows at a time on two ranks.
config::Settings sixRows() {
  config::Settings settings;
  settings.batch = 12;
  settings.microBatch = 6;
  settings.accumulate = 1;
  settings.data = 2;
  return settings;
}

/// A search in which some changes fit.
struct Asked {
  /// The seconds of a step with the changes that fit.
  using Fitting = std::map<std::string, double>;
  explicit Asked(const Fitting &fitting,
                 std::chrono::nanoseconds time = searchTime,
                 const config::Settings &settings = sixRows())
      : found(findSmaller(
            settings,
            [&](const Change &change) -> std::optional<double> {
              changes.push_back(change.text());
              auto seconds = fitting.find(change.text());
              if (seconds == fitting.end())
                return std::nullopt;
              return seconds->second;
            },
            time)) {}

  std::vector<std::string> changes;
  Smaller found;
};

const std::string rows = "--micro-batch 3 --accumulate 2";
const std::string full = "--recompute full";
const std::string all =
    "--zero 3 --micro-batch 1 --accumulate 6 --recompute full";

} // namespace

TEST(SmallerPlan, TheCheapestOfThoseThatFit) {
  Asked asked({{rows, 3}, {full, 2}, {"--place optimizer=file", 9}});
  EXPECT_EQ(asked.found.flags, full);
  EXPECT_TRUE(asked.found.isCheapest);
  asked = Asked({{rows, 3}, {full, 4}, {"--place optimizer=file", 1}});
  EXPECT_EQ(asked.found.flags, "--place optimizer=file");
}

// Where times are alike, or not known.
TEST(SmallerPlan, TheFirstOfThoseThatAreAlike) {
  EXPECT_EQ(Asked({{rows, 2}, {full, 2}}).found.flags, rows);
  EXPECT_EQ(Asked({{rows, 0}, {full, 0}}).found.flags, rows);
}

// More of what fits takes longer, and so does all together.
TEST(SmallerPlan, NoMoreThanIsNeeded) {
  Asked asked({{"--zero 1", 1},
               {rows, 1},
               {"--recompute selective", 1},
               {"--place optimizer=file", 1},
               {"--place activations=file", 1}});
  EXPECT_EQ(asked.changes,
            (std::vector<std::string>{"--zero 1", rows, "--recompute selective",
                                      "--place optimizer=file",
                                      "--place activations=file"}));
}

// Which of both moves less, the precision and the micro-batches say.
TEST(SmallerPlan, GradientsOrParameters) {
  const std::string gradients = "--place optimizer=file,gradients=file";
  const std::string parameters = "--place optimizer=file,parameters=file";
  EXPECT_EQ(Asked({{gradients, 3}, {parameters, 2}}).found.flags, parameters);
  EXPECT_EQ(Asked({{gradients, 2}, {parameters, 3}}).found.flags, gradients);
}

TEST(SmallerPlan, WhatCanBeIsTakenBack) {
  EXPECT_EQ(Asked({{all, 5}}).found.flags, all);
  const std::string fewer = "--zero 3 --micro-batch 1 --accumulate 6";
  EXPECT_EQ(Asked({{all, 5}, {fewer, 4}}).found.flags, fewer);
  EXPECT_EQ(Asked({{all, 5}, {fewer, 6}}).found.flags, all);
  const std::string sameRows = "--zero 3 --recompute full";
  EXPECT_EQ(Asked({{all, 5}, {sameRows, 4}}).found.flags, sameRows);
  // Numbers stay as they are if that is possible.
  EXPECT_EQ(Asked({{all, 5}, {"--precision bf16", 1}}).found.flags, all);
  EXPECT_EQ(Asked({{"--precision bf16", 1}}).found.flags, "--precision bf16");
}

TEST(SmallerPlan, NothingFits) {
  Asked asked({});
  EXPECT_GT(asked.changes.size(), 20u);
  EXPECT_LT(asked.changes.size(), 40u);
  EXPECT_EQ(asked.found.flags, "");
  EXPECT_TRUE(asked.found.isCheapest);
  std::set<std::string> different(asked.changes.begin(), asked.changes.end());
  EXPECT_EQ(different.size(), asked.changes.size());
}

// What needs least is all that there is time for.
TEST(SmallerPlan, WithoutTime) {
  const std::string least =
      "--precision bf16 " + all +
      " --place optimizer=file,gradients=file,parameters=file,activations=file";
  for (bool fits : {true, false}) {
    Asked asked(fits ? Asked::Fitting{{least, 1}} : Asked::Fitting(),
                std::chrono::seconds(0));
    EXPECT_EQ(asked.changes, std::vector<std::string>{least});
    EXPECT_EQ(asked.found.flags, fits ? least : "");
    EXPECT_FALSE(asked.found.isCheapest);
  }
}

// Its times say nothing of which is cheaper: the order does.
TEST(SmallerPlan, Serving) {
  config::Settings settings;
  settings.mode = config::Mode::Serve;
  settings.maxBatch = 4;
  Asked asked({{"--max-batch 2", 0}, {"--precision bf16", 0}}, searchTime,
              settings);
  EXPECT_EQ(asked.found.flags, "--max-batch 2");
  EXPECT_EQ(asked.changes, std::vector<std::string>{"--max-batch 2"});
  asked = Asked({}, std::chrono::seconds(0), settings);
  EXPECT_EQ(asked.changes.size(), 1u);
  EXPECT_FALSE(asked.found.isCheapest);
  // Groups of ranks share the texts. What is said already is not asked for.
  settings.data = 2;
  settings.precision = config::Precision::BF16;
  EXPECT_EQ(Asked({}, searchTime, settings).changes,
            (std::vector<std::string>{
                "--max-batch 2", "--kv-type int8", "--quantize int8",
                "--max-batch 2 --kv-type int8",
                "--max-batch 2 --kv-type int8 --quantize int8",
                "--max-batch 2 --kv-type int8 --quantize int4"}));
}
