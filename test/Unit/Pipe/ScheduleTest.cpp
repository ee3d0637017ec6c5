//===- ScheduleTest.cpp - Tests of pipeline schedules ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace heddle::pipe;
using Kind = Action::Kind;

static std::string lineOf(const std::vector<Action> &stage) {
  std::string line;
  for (const Action &action : stage)
    line += (line.empty() ? "" : " ") + action.str();
  return line;
}

/// The order of one stage in DeepSpeed's TrainSchedule: of its 2 (M + S - 1)
/// steps, those whose parity is the stage's go forward, the others backward.
static std::string deepSpeedOrder(int64_t stages, int64_t stage,
                                  int64_t microBatches) {
  std::string line;
  for (int64_t step = 0; step < 2 * (microBatches + stages - 1); ++step) {
    bool forward = step % 2 == stage % 2;
    int64_t batch = forward         ? step / 2 - stage / 2
                    : step % 2 == 0 ? step / 2 - stages + (stage + 1) / 2
                                    : (step - 1) / 2 - stages + 1 + stage / 2;
    if (batch >= 0 && batch < microBatches)
      line += (forward ? "F" : "B") + std::to_string(batch) + " ";
  }
  return line + "O";
}

TEST(Schedule, OneForwardOneBackward) {
  auto schedule = makeSchedule("1f1b", 3, 4);
  ASSERT_TRUE(schedule);
  ASSERT_EQ(schedule->size(), 3u);
  EXPECT_EQ(lineOf((*schedule)[0]), "F0 F1 F2 B0 F3 B1 B2 B3 O");
  EXPECT_EQ(lineOf((*schedule)[1]), "F0 F1 B0 F2 B1 F3 B2 B3 O");
  EXPECT_EQ(lineOf((*schedule)[2]), "F0 B0 F1 B1 F2 B2 F3 B3 O");
}

TEST(Schedule, AllForwardAllBackward) {
  auto schedule = makeSchedule("gpipe", 2, 3);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(lineOf((*schedule)[0]), "F0 F1 F2 B0 B1 B2 O");
  EXPECT_EQ(lineOf((*schedule)[1]), "F0 F1 F2 B0 B1 B2 O");
}

TEST(Schedule, OneStageHoldsOneMicroBatch) {
  for (const char *kind : {"gpipe", "1f1b"}) {
    auto schedule = makeSchedule(kind, 1, 3);
    ASSERT_TRUE(schedule);
    EXPECT_EQ(lineOf((*schedule)[0]), "F0 B0 F1 B1 F2 B2 O");
  }
}

TEST(Schedule, UnknownKind) { EXPECT_FALSE(makeSchedule("zb-h1", 2, 2)); }

TEST(Schedule, AgreesWithDeepSpeedsOrder) {
  for (int64_t stages = 1; stages <= 6; ++stages)
    for (int64_t microBatches = 1; microBatches <= 9; ++microBatches) {
      auto schedule = makeSchedule("1f1b", stages, microBatches);
      ASSERT_TRUE(schedule);
      for (int64_t stage = 0; stage < stages; ++stage)
        EXPECT_EQ(lineOf((*schedule)[stage]),
                  deepSpeedOrder(stages, stage, microBatches))
            << stage << " of " << stages << ", " << microBatches;
    }
}

TEST(Schedule, IsPossibleAndBounded) {
  for (const char *kind : {"gpipe", "1f1b"})
    for (int64_t stages = 1; stages <= 6; ++stages)
      for (int64_t microBatches = 1; microBatches <= 9; ++microBatches) {
        auto schedule = makeSchedule(kind, stages, microBatches);
        ASSERT_TRUE(schedule);
        EXPECT_EQ(checkSchedule(*schedule, microBatches), "");
        for (int64_t stage = 0; stage < stages; ++stage) {
          bool all = std::string(kind) == "gpipe" && stages > 1;
          EXPECT_EQ(liveMicroBatches((*schedule)[stage]),
                    all ? microBatches
                        : std::min(stages - stage, microBatches));
        }
      }
}

TEST(Schedule, TextRoundTrip) {
  auto schedule = makeSchedule("1f1b", 4, 6);
  ASSERT_TRUE(schedule);
  for (const auto &stage : *schedule) {
    auto read = parseStage(lineOf(stage));
    ASSERT_TRUE(read);
    EXPECT_EQ(lineOf(*read), lineOf(stage));
  }
  for (const char *wrong : {"F", "X0", "F0 b0", "F0x", "O1", "F-"})
    EXPECT_FALSE(parseStage(wrong)) << wrong;
}

/// `schedule` without the action at `place` of `stage`.
static Schedule without(Schedule schedule, int64_t stage, int64_t place) {
  schedule[stage].erase(schedule[stage].begin() + place);
  return schedule;
}

TEST(Schedule, EveryActionIsNeeded) {
  Schedule good = *makeSchedule("1f1b", 3, 4);
  for (size_t stage = 0; stage < good.size(); ++stage)
    for (size_t place = 0; place < good[stage].size(); ++place) {
      EXPECT_NE(checkSchedule(without(good, stage, place), 4), "");
      Schedule doubled = good;
      doubled[stage].insert(doubled[stage].begin() + place, good[stage][place]);
      EXPECT_NE(checkSchedule(doubled, 4), "");
    }
}

TEST(Schedule, RefusesWhatNeverEnds) {
  auto parse = [](const char *first, const char *second) {
    return Schedule{*parseStage(first), *parseStage(second)};
  };
  EXPECT_EQ(checkSchedule(parse("F0 B0 F1 B1 O", "F0 F1 B0 B1 O"), 2),
            "stage 0 waits forever at B0");
  EXPECT_EQ(checkSchedule(parse("F1 F0 B0 B1 O", "F0 B0 F1 B1 O"), 2), "");
  EXPECT_EQ(checkSchedule(parse("F0 F1 B1 B0 O", "F0 B0 F1 B1 O"), 2), "");
  EXPECT_EQ(checkSchedule(parse("F0 B0 F1 B1 O", "F1 F0 B0 B1 O"), 2),
            "stage 0 waits forever at B0");
}

/// Whether the stages finish when they are run one action at a time in random
/// order: a check that shares nothing with `checkSchedule`.
static bool finishes(const Schedule &schedule, std::mt19937 &random) {
  std::vector<size_t> next(schedule.size());
  std::vector<std::pair<char, std::pair<size_t, int64_t>>> done;
  auto isDone = [&](char what, size_t stage, int64_t batch) {
    return std::count(done.begin(), done.end(),
                      std::make_pair(what, std::make_pair(stage, batch))) > 0;
  };
  for (int idle = 0; idle < 500; ++idle) {
    size_t stage = random() % schedule.size();
    if (next[stage] == schedule[stage].size())
      continue;
    const Action &action = schedule[stage][next[stage]];
    char what = action.str()[0];
    if (what == 'F' && stage > 0 && !isDone('F', stage - 1, action.microBatch))
      continue;
    if (what == 'B' && stage + 1 < schedule.size() &&
        !isDone('B', stage + 1, action.microBatch))
      continue;
    done.push_back({what, {stage, action.microBatch}});
    ++next[stage];
    idle = 0;
  }
  for (size_t stage = 0; stage < schedule.size(); ++stage)
    if (next[stage] != schedule[stage].size())
      return false;
  return true;
}

TEST(Schedule, AgreesWithRandomExecution) {
  std::mt19937 random(7);
  int possible = 0, impossible = 0;
  for (int trial = 0; trial < 300; ++trial) {
    // Any order of a stage in which each backward follows its forward.
    Schedule schedule = *makeSchedule("1f1b", 3, 3);
    for (auto &stage : schedule)
      for (int swaps = random() % 3; swaps > 0; --swaps) {
        size_t at = random() % (stage.size() - 2);
        if (stage[at].microBatch != stage[at + 1].microBatch)
          std::swap(stage[at], stage[at + 1]);
      }
    bool ends = finishes(schedule, random);
    EXPECT_EQ(checkSchedule(schedule, 3).empty(), ends) << trial;
    ++(ends ? possible : impossible);
  }
  EXPECT_GT(possible, 20);
  EXPECT_GT(impossible, 20);
}
