//===- SchedulerDraftTest.cpp - Tests of texts with a draft ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SchedulerFixture.h"

using namespace heddle::rt;

TEST_F(SchedulerTest, ADraftMayHaveLogitsThatAreNotFinite) {
  begin(roomy, 4, /*strays=*/0);
  draft->poison = 4;
  SequenceRequest one = request({3, 1, 4}, 20);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[one.id], alone(one));
}

TEST_F(SchedulerTest, ADraftSavesRuns) {
  begin(roomy, 4, /*strays=*/0);
  SequenceRequest one = request({3, 1, 4}, 20);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[1], alone(one));
  // The prompt with one token, then five a run.
  EXPECT_EQ(engine->runs, 5);
  EXPECT_EQ(scheduler->counts().guesses, 15);
  EXPECT_EQ(scheduler->counts().rightGuesses, 15);
}

TEST_F(SchedulerTest, AWrongDraftGuessesOneTokenAtATime) {
  begin(roomy, 8, /*strays=*/100);
  SequenceRequest one = request({3, 1, 4}, 60);
  scheduler->submit(one);
  finish();
  EXPECT_EQ(heard.texts[1], alone(one));
  const SchedulerCounts &counts = scheduler->counts();
  EXPECT_LT(counts.rightGuesses, 10);
  // From eight at first down to one, but where it was right by chance.
  EXPECT_LT(counts.guesses, 36 + 60 + 2 * counts.rightGuesses);
}

TEST_F(SchedulerTest, TextsEndWithinGuesses) {
  begin(roomy, 6, /*strays=*/10);
  auto [ended, stopped] = submitTextsThatStop();
  SequenceRequest three = request(count(90), 40);
  three.logprobs = 2;
  scheduler->submit(three);
  finish();
  EXPECT_EQ(heard.texts[1], ended);
  EXPECT_EQ(heard.ends[1], FinishReason::Stop);
  EXPECT_EQ(heard.texts[2], stopped);
  Tokens full = alone(three);
  full.resize(10);
  EXPECT_EQ(heard.texts[3], full);
  EXPECT_EQ(heard.ends[3], FinishReason::Length);
  for (size_t i = 0; i < full.size(); ++i)
    EXPECT_EQ(heard.logprobs[3][i].at(0).token, full[i]);
}
