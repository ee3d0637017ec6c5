//===- SchedulerGroupsTest.cpp - Tests of several groups' texts -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SchedulerFixture.h"

using namespace heddle::rt;

TEST_F(SchedulerTest, GroupsWithMorePagesGetTheNextText) {
  EngineLimits limits = roomy;
  limits.groups = 2;
  begin(limits);
  noteGroups();
  // Of unequal lengths: the long one counts for the short ones.
  std::vector<SequenceRequest> texts = {request(count(40), 5), request({1}, 30),
                                        request({2}, 30), request({3}, 30)};
  for (const SequenceRequest &text : texts)
    scheduler->submit(text);
  scheduler->step(now);
  EXPECT_EQ(scheduler->numRunning(0), 1);
  EXPECT_EQ(scheduler->numRunning(1), 3);
  EXPECT_EQ(scheduler->numRunning(), 4);
  finish();
  for (const SequenceRequest &text : texts) {
    EXPECT_EQ(heard.texts[text.id], alone(text));
    EXPECT_EQ(groups[text.id].size(), 1u);
  }
}

TEST_F(SchedulerTest, GroupsAreFullBeforeATextWaits) {
  EngineLimits limits = {29, 1, 16, 4, 64, 100};
  limits.groups = 2;
  begin(limits);
  for (int i = 0; i < 3; ++i)
    scheduler->submit(request({i}, 9));
  scheduler->step(now);
  EXPECT_EQ(scheduler->numRunning(0), 1);
  EXPECT_EQ(scheduler->numRunning(1), 1);
  EXPECT_EQ(scheduler->numWaiting(), 1);
  scheduler->cancel(2);
  scheduler->step(now);
  EXPECT_EQ(scheduler->numRunning(1), 1);
  EXPECT_EQ(scheduler->numWaiting(), 0);
  finish();
  EXPECT_EQ(heard.texts[3].size(), 9u);
}

TEST_F(SchedulerTest, TextsGoWhereTheirBeginningsAre) {
  EngineLimits limits = {29, 2, 16, 4, 64, 100};
  limits.groups = 2;
  begin(limits);
  noteGroups();
  // Text 1 leaves pages in group 0, text 2 in group 1.
  scheduler->submit(request(count(17), 4));
  scheduler->submit(request(count(17, 9), 20));
  finish();
  // Group 1 has fewer pages left, and the first ones of these texts; the third
  // finds no room there.
  for (int i = 0; i < 3; ++i)
    scheduler->submit(request(count(18, 9), 5));
  finish();
  EXPECT_EQ(groups[1], std::set<int64_t>{0});
  EXPECT_EQ(groups[2], std::set<int64_t>{1});
  EXPECT_EQ(groups[3], std::set<int64_t>{1});
  EXPECT_EQ(groups[4], std::set<int64_t>{1});
  EXPECT_EQ(groups[5], std::set<int64_t>{0});
  EXPECT_EQ(scheduler->counts().sharedTokens, 2 * 16);
}
