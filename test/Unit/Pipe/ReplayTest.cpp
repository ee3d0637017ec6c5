//===- ReplayTest.cpp - Tests of the time that schedules take -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeTest.h"

/// Equal times on all stages.
static Replay replay(const Schedule &schedule, const ChunkTimes &times,
                     double optimizer = 0) {
  StageTimes stage;
  stage.chunks.assign(chunksOf(schedule), times);
  stage.optimizer = optimizer;
  return replaySchedule(schedule,
                        std::vector<StageTimes>(schedule.size(), stage));
}

// The bubble of gpipe and 1f1b is p - 1 of m + p - 1 slots.
TEST(Replay, BubbleOfOneChunk) {
  for (const Case &c : allCases()) {
    if (c.kind != "gpipe" && c.kind != "1f1b")
      continue;
    for (double backward : {1.0, 2.0, 3.0}) {
      Replay result = replay(c.schedule, {1, backward});
      double p = c.stages, m = c.microBatches;
      EXPECT_EQ(result.makespan, (m + p - 1) * (1 + backward)) << c;
      for (int64_t stage = 0; stage < c.stages; ++stage)
        EXPECT_NEAR(result.idleShare(stage), (p - 1) / (m + p - 1), 1e-15) << c;
    }
  }
}

// Section 2.2 of arXiv 2104.04473: v chunks divide the bubble by v.
TEST(Replay, BubbleOfInterleaved) {
  for (const Case &c : allCases()) {
    if (c.kind != "interleaved")
      continue;
    for (double backward : {1.0, 2.0}) {
      Replay result = replay(c.schedule, {1, backward});
      double p = c.stages, work = c.chunks * c.microBatches;
      EXPECT_EQ(result.makespan, (work + p - 1) * (1 + backward)) << c;
      for (int64_t stage = 0; stage < c.stages; ++stage)
        EXPECT_NEAR(result.idleShare(stage), (p - 1) / (work + p - 1), 1e-15)
            << c;
    }
  }
}

// Table 1 of arXiv 2401.10241: (p - 1) (F + I - W), where the halves of the
// backward pass are I and W; 1f1b's is (p - 1) (F + I + W).
TEST(Replay, BubbleOfZeroBubble) {
  for (const Case &c : allCases()) {
    if (c.kind != "zb-h1" || c.microBatches < c.stages)
      continue;
    double p = c.stages, m = c.microBatches;
    for (auto [f, i, w] : {std::tuple(1.0, 1.0, 1.0), std::tuple(3.0, 3.0, 2.0),
                           std::tuple(2.0, 3.0, 1.0), std::tuple(4.0, 5.0, 4.0),
                           std::tuple(2.0, 2.0, 0.0)}) {
      ChunkTimes times{f, i + w, i, w};
      EXPECT_EQ(replay(c.schedule, times).makespan,
                m * (f + i + w) + (p - 1) * (f + i - w))
          << c << " " << f << " " << i << " " << w;
      EXPECT_EQ(replay(make("1f1b", c.stages, c.microBatches), times).makespan,
                m * (f + i + w) + (p - 1) * (f + i + w));
    }
  }
}

TEST(Replay, FewMicroBatchesWithZeroBubble) {
  for (const Case &c : allCases())
    if (c.kind == "zb-h1") {
      ChunkTimes times;
      EXPECT_LE(replay(c.schedule, times).makespan,
                replay(make("1f1b", c.stages, c.microBatches), times).makespan)
          << c;
    }
}

TEST(Replay, TransfersAreBetweenStagesOnly) {
  ChunkTimes times{1, 2, 1, 1, /*transfer=*/10};
  EXPECT_EQ(replay(make("1f1b", 2, 1), times).makespan, 26);
  EXPECT_EQ(replay(make("1f1b", 1, 1), times).makespan, 3);
  EXPECT_EQ(replay(make("interleaved", 1, 1, 3), times).makespan, 9);
  // F0 and F0/1 of both stages, and back: 3 transfers each way.
  Schedule ring = {*parseStage("F0 F0/1 B0/1 B0 O"),
                   *parseStage("F0 F0/1 B0/1 B0 O")};
  EXPECT_EQ(replay(ring, times).makespan, 4 * 3 + 6 * 10);
}

TEST(Replay, TheSlowestStageDecides) {
  Schedule schedule = make("1f1b", 3, 100);
  std::vector<StageTimes> times(3, {{{1, 2}}, 5});
  times[1].chunks[0] = {2, 4};
  Replay result = replaySchedule(schedule, times);
  EXPECT_EQ(result.busy, (std::vector<double>{305, 605, 305}));
  // Stage 1 starts after one forward pass and waits once, for 1, for its first
  // gradient. Stage 0 still has a backward pass to do then, and its optimizer.
  EXPECT_EQ(result.makespan, 1 + 600 + 1 + 2 + 5);
}
