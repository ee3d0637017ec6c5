//===- PackingTest.cpp - Tests of offsets from lifetimes ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Memory/Packing.h"
#include "gtest/gtest.h"
#include <random>
#include <vector>

using namespace heddle::memory;

static constexpr int64_t alignment = 64;

static std::vector<Interval> randomIntervals(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Interval> intervals(1 + random() % 60);
  for (Interval &interval : intervals) {
    interval.bytes = random() % 5 == 0 ? random() % 64 : random() % 10000;
    interval.first = random() % 40;
    interval.last = interval.first + random() % 12;
  }
  return intervals;
}

static void expectApart(const std::vector<Interval> &intervals, int64_t size) {
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval &a = intervals[i];
    EXPECT_GE(a.offset, 0);
    EXPECT_EQ(a.offset % alignment, 0);
    EXPECT_LE(a.offset + a.bytes, size);
    for (size_t j = 0; j < i; ++j) {
      const Interval &b = intervals[j];
      bool together = a.first <= b.last && b.first <= a.last;
      bool overlap =
          a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(Packing, NothingNeedsNothing) {
  std::vector<Interval> none;
  EXPECT_EQ(pack(none, alignment), 0);
  EXPECT_EQ(lowerBound(none, alignment), 0);
}

TEST(Packing, BytesAreUsedAgain) {
  // The second begins after the first has ended; the third lives with both.
  std::vector<Interval> intervals = {{1000, 0, 1}, {900, 2, 3}, {100, 1, 2}};
  EXPECT_EQ(pack(intervals, alignment), 1024 + 128);
  EXPECT_EQ(intervals[0].offset, intervals[1].offset);
  EXPECT_EQ(intervals[2].offset, 1024);
}

TEST(Packing, LastCommandIsIncluded) {
  // A launch reads one and writes the other: they must be apart.
  std::vector<Interval> intervals = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(pack(intervals, alignment), 128);
  EXPECT_NE(intervals[0].offset, intervals[1].offset);
}

TEST(Packing, FillsGaps) {
  // A small one fits into the hole between two that live on.
  std::vector<Interval> intervals = {
      {640, 0, 9}, {576, 0, 1}, {512, 0, 9}, {64, 2, 9}};
  int64_t size = pack(intervals, alignment);
  expectApart(intervals, size);
  EXPECT_EQ(size, 640 + 576 + 512);
  EXPECT_EQ(intervals[3].offset, 640);
}

TEST(Packing, RandomLifetimes) {
  int64_t bound = 0, packed = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::vector<Interval> intervals = randomIntervals(seed);
    int64_t size = pack(intervals, alignment);
    expectApart(intervals, size);
    EXPECT_GE(size, lowerBound(intervals, alignment));
    packed += size;
    bound += lowerBound(intervals, alignment);
  }
  // What greedy packing loses on such lifetimes is a few per cent.
  EXPECT_LE(packed, bound * 1.1);
}

TEST(Packing, IsDeterministic) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<Interval> first = randomIntervals(seed);
    std::vector<Interval> second = randomIntervals(seed);
    EXPECT_EQ(pack(first, alignment), pack(second, alignment));
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(first[i].offset, second[i].offset);
  }
}

TEST(Packing, LowerBoundIsTheMostThatIsLive) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::vector<Interval> intervals = randomIntervals(seed);
    int64_t most = 0;
    for (int64_t command = 0; command < 64; ++command) {
      int64_t live = 0;
      for (const Interval &interval : intervals)
        if (interval.first <= command && command <= interval.last)
          live += alignTo(interval.bytes, alignment);
      most = std::max(most, live);
    }
    EXPECT_EQ(lowerBound(intervals, alignment), most);
  }
}
