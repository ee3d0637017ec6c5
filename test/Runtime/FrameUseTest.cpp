//===- FrameUseTest.cpp - Which bytes of a frame are in use ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/FrameUse.h"
#include <gtest/gtest.h>

using namespace heddle::plan;
using Owners = std::map<std::string, int64_t>;

TEST(FrameUse, CountsLiveRangesByOwner) {
  std::vector<FrameRange> ranges = {{"activations", 0, 64, 0, 3},
                                    {"layers", 64, 128, 2, 2},
                                    {"activations", 192, 64, 2, 5}};
  EXPECT_EQ(ownersAt(0, ranges), (Owners{{"activations", 64}}));
  EXPECT_EQ(ownersAt(2, ranges),
            (Owners{{"activations", 128}, {"layers", 128}}));
  EXPECT_EQ(ownersAt(6, ranges), Owners());
  EXPECT_EQ(peakCommand(ranges), 2);
}

TEST(FrameUse, PeakIsWhereTheEarliestEntryBegins) {
  EXPECT_EQ(peakCommand({}), 0);
  // Both are in use at commands 4 and 7, and the first entry begins at 7.
  EXPECT_EQ(peakCommand({{"a", 0, 64, 7, 7}, {"b", 0, 64, 4, 4}}), 7);
}

TEST(FrameUse, CountsWhatThePreviousRunLeftOnce) {
  // The store of the previous run reads the bytes until command 3; at command 2
  // another buffer takes half of them.
  std::vector<FrameRange> ranges = {{"stored", 0, 128, 8, 9, 3},
                                    {"activations", 0, 64, 2, 4}};
  EXPECT_EQ(ownersAt(1, ranges), (Owners{{"stored", 128}}));
  EXPECT_EQ(ownersAt(2, ranges), (Owners{{"activations", 64}, {"stored", 64}}));
  EXPECT_EQ(ownersAt(4, ranges), (Owners{{"activations", 64}}));
}
