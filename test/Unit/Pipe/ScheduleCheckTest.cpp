//===- ScheduleCheckTest.cpp - Tests of the check of schedules ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeTest.h"
#include <ctime>
#include <map>
#include <tuple>

static Schedule parse(std::initializer_list<const char *> lines) {
  Schedule schedule;
  for (const char *line : lines) {
    auto read = parseStage(line);
    EXPECT_TRUE(read) << line;
    schedule.push_back(read.value_or(Line()));
  }
  return schedule;
}

TEST(ScheduleCheck, GeneratedSchedulesArePossible) {
  for (const Case &c : allCases())
    EXPECT_EQ(checkSchedule(c.schedule, c.microBatches), "") << c;
}

TEST(ScheduleCheck, EveryActionIsNeeded) {
  for (const Schedule &good :
       {make("1f1b", 3, 4), make("zb-h1", 3, 4), make("interleaved", 2, 4, 2)})
    for (size_t stage = 0; stage < good.size(); ++stage)
      for (size_t place = 0; place < good[stage].size(); ++place) {
        Schedule without = good, doubled = good;
        without[stage].erase(without[stage].begin() + place);
        EXPECT_NE(checkSchedule(without, 4), "");
        doubled[stage].insert(doubled[stage].begin() + place,
                              good[stage][place]);
        EXPECT_NE(checkSchedule(doubled, 4), "");
      }
}

TEST(ScheduleCheck, NamesWhatIsWrongInALine) {
  EXPECT_EQ(checkSchedule(parse({"F0 W0 I0 O"}), 1),
            "stage 0 runs W0 before I0");
  EXPECT_EQ(checkSchedule(parse({"I0 F0 W0 O"}), 1),
            "stage 0 runs I0 before F0");
  EXPECT_EQ(checkSchedule(parse({"F0 I0 B0 W0 O"}), 1),
            "stage 0 runs B0 after I0; one of them is right");
  EXPECT_EQ(checkSchedule(parse({"F0 B0 I0 W0 O"}), 1),
            "stage 0 runs I0 after B0; one of them is right");
  EXPECT_EQ(checkSchedule(parse({"F0 I0 O"}), 1),
            "stage 0 does not finish micro-batch 0");
  EXPECT_EQ(checkSchedule(parse({"F0 F0/1 B0/1 B0 O", "F0 F0/1 B0/1 O"}), 1),
            "stage 1 does not finish micro-batch 0");
  EXPECT_EQ(checkSchedule(parse({"F0 F0/1 B0/1 B0 O", "F0 B0 F0/1 O"}), 1),
            "stage 1 does not finish micro-batch 0 of chunk 1");
  EXPECT_EQ(checkSchedule(parse({"F0 B0/4000000000 O"}), 1),
            "stage 0 has 3 fragments; 4000000001 chunks of 1 micro-batches "
            "have at least 8000000003");
  EXPECT_EQ(checkSchedule(parse({""}), 1),
            "stage 0 does not finish micro-batch 0");
  // Whole and halved backward passes can stand side by side.
  EXPECT_EQ(checkSchedule(parse({"F0 F1 I0 W0 B1 O", "F0 B0 F1 I1 W1 O"}), 2),
            "");
}

TEST(ScheduleCheck, NamesTheCircle) {
  EXPECT_EQ(checkSchedule(parse({"F0 B0 F1 B1 O", "F0 F1 B0 B1 O"}), 2),
            "stage 0 waits forever at B0 for B0 of stage 1, which waits at F1 "
            "for F1 of stage 0");
  EXPECT_EQ(checkSchedule(parse({"F1 F0 B0 B1 O", "F0 B0 F1 B1 O"}), 2), "");
  EXPECT_EQ(checkSchedule(parse({"F0 F1 B1 B0 O", "F0 B0 F1 B1 O"}), 2), "");
  EXPECT_EQ(checkSchedule(parse({"F0 B0 F1 B1 O", "F1 F0 I0 W0 B1 O"}), 2),
            "stage 0 waits forever at B0 for I0 of stage 1, which waits at F1 "
            "for F1 of stage 0");
  // Stage 0 waits too, but the circle is of the other two.
  EXPECT_EQ(checkSchedule(
                parse({"F0 F1 B0 B1 O", "F0 B0 F1 B1 O", "F0 F1 B0 B1 O"}), 2),
            "stage 1 waits forever at B0 for B0 of stage 2, which waits at F1 "
            "for F1 of stage 1");
  EXPECT_EQ(checkSchedule(parse({"F0/1 F0 B0 B0/1 O"}), 1),
            "stage 0 waits forever at F0/1 for F0 of stage 0");
  EXPECT_EQ(checkSchedule(
                parse({"F0 B0 F1 B1 O", "F0 B0 F1 B1 O", "F1 F0 B0 B1 O"}), 2),
            "stage 1 waits forever at B0 for B0 of stage 2, which waits at F1 "
            "for F1 of stage 1");
  EXPECT_EQ(checkSchedule(parse({"F0 F0/1 B0/1 B0 O", "F0/1 F0 B0/1 B0 O",
                                 "F0/1 F0 B0/1 B0 O"}),
                          1),
            "stage 0 waits forever at F0/1 for F0 of stage 2, which waits at "
            "F0/1 for F0/1 of stage 1, which waits at F0/1 for F0/1 of stage "
            "0");
}

/// Whether the stages finish when they are run one action at a time in random
/// order: a check that shares nothing with `checkSchedule`.
static bool finishes(const Schedule &schedule, int64_t chunks,
                     std::mt19937 &random) {
  int64_t stages = schedule.size();
  std::vector<size_t> next(stages);
  std::map<std::tuple<bool, int64_t, int64_t>, bool> done;
  for (int idle = 0; idle < 500; ++idle) {
    size_t stage = random() % stages;
    if (next[stage] == schedule[stage].size())
      continue;
    const Action &action = schedule[stage][next[stage]];
    int64_t self = action.chunk * stages + stage, batch = action.microBatch;
    bool forward = action.kind == Kind::Forward;
    if (forward && self > 0 && !done[{true, self - 1, batch}])
      continue;
    if (action.givesGradient() && self + 1 < stages * chunks &&
        !done[{false, self + 1, batch}])
      continue;
    if (forward || action.givesGradient())
      done[{forward, self, batch}] = true;
    ++next[stage];
    idle = 0;
  }
  for (int64_t stage = 0; stage < stages; ++stage)
    if (next[stage] != schedule[stage].size())
      return false;
  return true;
}

TEST(ScheduleCheck, AgreesWithRandomExecution) {
  std::mt19937 random(7);
  for (const Case &c :
       {Case{"1f1b", 3, 3, 1, {}}, Case{"zb-h1", 3, 4, 1, {}},
        Case{"interleaved", 2, 4, 2, {}}, Case{"interleaved", 3, 3, 2, {}}}) {
    int possible = 0, impossible = 0;
    for (int trial = 0; trial < 300; ++trial) {
      // Any order of a stage in which each micro-batch's own order is kept.
      Schedule schedule = make(c.kind, c.stages, c.microBatches, c.chunks);
      for (auto &stage : schedule)
        for (int swaps = random() % 5; swaps > 0; --swaps) {
          size_t at = random() % (stage.size() - 2);
          if (stage[at].microBatch != stage[at + 1].microBatch ||
              stage[at].chunk != stage[at + 1].chunk)
            std::swap(stage[at], stage[at + 1]);
        }
      bool ends = finishes(schedule, c.chunks, random);
      std::string wrong = checkSchedule(schedule, c.microBatches);
      EXPECT_EQ(wrong.empty(), ends) << c << ", trial " << trial << wrong;
      ++(ends ? possible : impossible);
    }
    EXPECT_GT(possible, 20) << c;
    EXPECT_GT(impossible, 10) << c;
  }
}

TEST(ScheduleCheck, IsFast) {
  for (const char *kind : {"gpipe", "1f1b", "zb-h1"}) {
    Schedule schedule = make(kind, 64, 512);
    std::clock_t begin = std::clock();
    EXPECT_EQ(checkSchedule(schedule, 512), "");
    double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
    // Some milliseconds; quadratic time would be seconds.
    EXPECT_LT(seconds, 0.5) << kind;
    RecordProperty(kind, std::to_string(seconds));
  }
}
