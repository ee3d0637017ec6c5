//===- ScheduleChartTest.cpp - Tests of the chart of a schedule -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/heddle/ScheduleChart.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace heddle::driver;
using Rows = std::vector<std::string>;

static std::vector<LineEntry> lineOf(const std::string &text) {
  std::vector<LineEntry> line;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    line.push_back(*readEntry(word));
  return line;
}

static std::vector<StageLine> lines(const Rows &texts, double forward = 1,
                                    double backward = 2) {
  std::vector<StageLine> stages;
  for (const std::string &text : texts)
    stages.push_back({lineOf(text), {{"F", forward}, {"B", backward}}});
  return stages;
}

TEST(ScheduleChart, NamesAndWaits) {
  Timetable table = replayLines(lines({"F0 F1 B0 B1", "F0 B0 F1 B1"}));
  EXPECT_EQ(table.makespan, 9);
  EXPECT_NEAR(table.idle[0], 1.0 / 3, 1e-12);
  EXPECT_NEAR(table.meanIdle(), 1.0 / 3, 1e-12);
  EXPECT_EQ(drawChart(table, 80), (Rows{"F0-F1-......B0----...B1----",
                                        "...F0-B0----F1-B1----......"}));
}

TEST(ScheduleChart, TransfersAndChunks) {
  StageLine line = {lineOf("F0 F0/1 B0/1 B0"),
                    {{"F", 1}, {"F/1", 1}, {"B", 1}, {"B/1", 1}},
                    1};
  std::vector<StageLine> stages = {line, line};
  Rows rows = drawChart(replayLines(stages), 80);
  EXPECT_EQ(rows[0].substr(0, 25), "F0---...............F0/1-");
  EXPECT_EQ(rows[1].substr(0, 25), "..........F0---..........");
  EXPECT_EQ(replayLines(stages).makespan, 8 + 6);
}

TEST(ScheduleChart, LettersWhereNamesDoNotFit) {
  Timetable table = replayLines(lines({"F0 F1 B0 B1", "F0 B0 F1 B1"}));
  EXPECT_EQ(drawChart(table, 9), (Rows{"FF..B0.B1", ".FB0FB1.."}));
}

TEST(ScheduleChart, TheMiddleIsLeftOut) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "F" + std::to_string(i) + " B" + std::to_string(i) + " ";
  Timetable table = replayLines(lines({text, text}, 1, 1));
  for (const std::string &row : drawChart(table, 21)) {
    EXPECT_EQ(row.size(), 21u);
    EXPECT_EQ(row.substr(8, 5), " ... ");
  }
}

TEST(ScheduleChart, WhatIsNoSchedule) {
  EXPECT_TRUE(replayLines({}).stages.empty());
  EXPECT_TRUE(replayLines(lines({"F0 B0", "B0 F0"})).stages.empty());
  EXPECT_TRUE(replayLines(lines({"F0"})).stages.empty());
  EXPECT_FALSE(readEntry("X0"));
  EXPECT_TRUE(drawChart(Timetable(), 80).empty());
  EXPECT_TRUE(drawChart(replayLines(lines({"F0 B0"}, 0, 0)), 80).empty());
}
