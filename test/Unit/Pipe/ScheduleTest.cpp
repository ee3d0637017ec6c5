//===- ScheduleTest.cpp - Tests of pipeline schedules ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeTest.h"

static std::string whyNot(const char *kind, int64_t stages,
                          int64_t microBatches, int64_t chunks) {
  std::string why;
  EXPECT_FALSE(makeSchedule(kind, stages, microBatches, chunks, why));
  return why;
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
  Schedule schedule = make("1f1b", 3, 4);
  ASSERT_EQ(schedule.size(), 3u);
  EXPECT_EQ(printStage(schedule[0]), "F0 F1 F2 B0 F3 B1 B2 B3 O");
  EXPECT_EQ(printStage(schedule[1]), "F0 F1 B0 F2 B1 F3 B2 B3 O");
  EXPECT_EQ(printStage(schedule[2]), "F0 B0 F1 B1 F2 B2 F3 B3 O");
}

TEST(Schedule, AllForwardAllBackward) {
  Schedule schedule = make("gpipe", 2, 3);
  EXPECT_EQ(printStage(schedule[0]), "F0 F1 F2 B0 B1 B2 O");
  EXPECT_EQ(printStage(schedule[1]), "F0 F1 F2 B0 B1 B2 O");
}

TEST(Schedule, OneStageHoldsOneMicroBatch) {
  for (const char *kind : {"gpipe", "1f1b"})
    EXPECT_EQ(printStage(make(kind, 1, 3)[0]), "F0 B0 F1 B1 F2 B2 O");
  EXPECT_EQ(printStage(make("zb-h1", 1, 2)[0]), "F0 I0 W0 F1 I1 W1 O");
}

// Figure 4 of arXiv 2104.04473 has this order for 4 stages; here are 2.
TEST(Schedule, Interleaved) {
  Schedule schedule = make("interleaved", 2, 4, 2);
  EXPECT_EQ(printStage(schedule[0]),
            "F0 F1 F0/1 F1/1 F2 B0/1 F3 B1/1 F2/1 B0 F3/1 B1 B2/1 B3/1 B2 B3 "
            "O");
  EXPECT_EQ(printStage(schedule[1]),
            "F0 F1 F0/1 B0/1 F1/1 B1/1 F2 B0 F3 B1 F2/1 B2/1 F3/1 B3/1 B2 B3 "
            "O");
}

TEST(Schedule, ZeroBubble) {
  Schedule schedule = make("zb-h1", 3, 4);
  EXPECT_EQ(printStage(schedule[0]), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3 O");
  EXPECT_EQ(printStage(schedule[1]), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 O");
  EXPECT_EQ(printStage(schedule[2]), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 O");
}

TEST(Schedule, SaysWhatIsPossible) {
  EXPECT_EQ(whyNot("zb-v", 2, 2, 1),
            "unknown schedule \"zb-v\"; known are gpipe, 1f1b, interleaved, "
            "zb-h1");
  EXPECT_EQ(whyNot("1f1b", 2, 2, 2),
            "the schedule 1f1b has 1 virtual stage per rank, not 2; "
            "interleaved has several");
  EXPECT_EQ(whyNot("interleaved", 2, 2, 1),
            "the schedule interleaved needs 2 or more virtual stages per rank; "
            "with 1 it is 1f1b");
  EXPECT_EQ(whyNot("interleaved", 4, 6, 2),
            "the schedule interleaved needs micro-batches in a multiple of the "
            "4 stages: 4 or 8, not 6");
  EXPECT_EQ(whyNot("interleaved", 4, 3, 2),
            "the schedule interleaved needs micro-batches in a multiple of the "
            "4 stages: 4, not 3");
}

TEST(Schedule, AgreesWithDeepSpeedsOrder) {
  for (int64_t stages = 1; stages <= 6; ++stages)
    for (int64_t microBatches = 1; microBatches <= 9; ++microBatches) {
      Schedule schedule = make("1f1b", stages, microBatches);
      for (int64_t stage = 0; stage < stages; ++stage)
        EXPECT_EQ(printStage(schedule[stage]),
                  deepSpeedOrder(stages, stage, microBatches))
            << stage << " of " << stages << ", " << microBatches;
    }
}

TEST(Schedule, TextRoundTrip) {
  for (const Case &c : allCases())
    for (const Line &line : c.schedule) {
      auto read = parseStage(printStage(line));
      ASSERT_TRUE(read);
      EXPECT_EQ(printStage(*read), printStage(line));
      ASSERT_EQ(read->size(), line.size());
      for (size_t i = 0; i < line.size(); ++i) {
        EXPECT_EQ((*read)[i].kind, line[i].kind);
        EXPECT_EQ((*read)[i].microBatch, line[i].microBatch);
        EXPECT_EQ((*read)[i].chunk, line[i].chunk);
      }
    }
  EXPECT_EQ(printStage(*parseStage(" F0/0  W12/3 ")), "F0 W12/3");
  EXPECT_EQ((*parseStage("W12/3"))[0].name(), "W/3");
  EXPECT_EQ(printStage(kindsOf(*parseStage("F0/1 F0 F1 I1 B2 W1 I0 O"))),
            "F0 F0/1 B0 I0 W0 O");
  for (const char *wrong :
       {"F", "X0", "F0 b0", "F0x", "O1", "F-", "F-1", "F0/", "F0/x", "F/1",
        "F0/1/2", "F0/-1", "O/1", "F1048576", "F99999999999999999999"})
    EXPECT_FALSE(parseStage(wrong)) << wrong;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST(Schedule, HoldsAsManyMicroBatchesAsThePapersSay) {
  for (const Case &c : allCases())
    for (int64_t stage = 0; stage < c.stages; ++stage) {
      int64_t live = liveMicroBatches(c.schedule[stage]), most = 0;
      if (c.kind == "gpipe")
        most = c.stages > 1 ? c.microBatches : 1;
      else if (c.kind == "1f1b")
        most = std::min(c.stages - stage, c.microBatches);
      else if (c.kind == "zb-h1")
        most = std::min(c.stages, c.microBatches);
      else
        most =
            std::min(2 * (c.stages - 1 - stage) + (c.chunks - 1) * c.stages + 1,
                     c.microBatches * c.chunks);
      EXPECT_EQ(live, most) << c << " stage " << stage;
    }
}

TEST(Schedule, WeightGradientsKeepWhatTheyNeed) {
  Line line = *parseStage("F0 I0 F1 I1 W0 W1 O");
  EXPECT_EQ(liveMicroBatches(line), 2);
  line = *parseStage("F0 F0/1 I0/1 F1 W0/1 I0 F1/1 W0 B1/1 B1 O");
  EXPECT_EQ(liveMicroBatches(line), 3);
  EXPECT_EQ(liveMicroBatches(line, 0), 2);
  EXPECT_EQ(liveMicroBatches(line, 1), 1);
  EXPECT_EQ(liveMicroBatches(line, 2), 0);
}

/// As `slotsNeeded`, from its definition: every pair of micro-batches.
static int64_t slotsByPairs(const Line &line, int64_t chunk) {
  std::vector<int64_t> live, apart;
  for (const Action &action : line) {
    if (action.chunk != chunk)
      continue;
    if (action.kind == Kind::Forward) {
      for (int64_t other : live)
        apart.push_back(std::abs(other - action.microBatch));
      live.push_back(action.microBatch);
    }
    if (action.releases())
      live.erase(std::find(live.begin(), live.end(), action.microBatch));
  }
  for (int64_t count = 1;; ++count)
    if (std::all_of(apart.begin(), apart.end(),
                    [&](int64_t distance) { return distance % count != 0; }))
      return count;
}

TEST(Schedule, SlotsKeepMicroBatchesApart) {
  EXPECT_EQ(slotsNeeded(*parseStage("F0 F2 B0 F1 B2 B1 O"), 0), 3);
  EXPECT_EQ(slotsNeeded(*parseStage("F0 F4 B0 B4 O"), 0), 3);
  EXPECT_EQ(slotsNeeded(*parseStage("F0 B0 F1 I1 W1 O"), 0), 1);
  for (const Case &c : allCases())
    for (const Line &line : c.schedule)
      for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
        int64_t slots = slotsNeeded(line, chunk);
        EXPECT_EQ(slots, slotsByPairs(line, chunk)) << c;
        // Generated lines run micro-batches in order: no slot stays empty.
        EXPECT_EQ(slots, liveMicroBatches(line, chunk)) << c;
      }
}

TEST(Schedule, SlotsOfAnyOrder) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    Schedule schedule = make("gpipe", 2, 6);
    Line &line = schedule[0];
    std::shuffle(line.begin(), line.begin() + 6, random);
    std::shuffle(line.begin() + 6, line.begin() + 12, random);
    for (int moves = random() % 6; moves > 0; --moves) {
      size_t at = random() % (line.size() - 2);
      if (line[at].microBatch != line[at + 1].microBatch)
        std::swap(line[at], line[at + 1]);
    }
    EXPECT_EQ(slotsNeeded(line, 0), slotsByPairs(line, 0)) << printStage(line);
  }
}
