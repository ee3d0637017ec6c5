//===- PhiloxTest.cpp - Tests of counter-based random numbers -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Philox.h"

#include <gtest/gtest.h>
#include <set>

using namespace heddle::rt;

TEST(Philox, GivesThePublishedValues) {
  EXPECT_EQ(philox(0, PhiloxWords{0, 0, 0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX,
                   PhiloxWords{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822,
                   PhiloxWords{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SplitsTheIndex) {
  EXPECT_EQ(philox(1, uint64_t(5) << 32 | 7, 2, 3),
            philox(1, PhiloxWords{7, 5, 2, 3}));
}

TEST(Philox, PermutesWithoutATable) {
  for (uint64_t count : {1, 2, 3, 7, 64, 1000}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < count; ++i)
      seen.insert(permute(i, count, 42, 0));
    EXPECT_EQ(seen.size(), count);
    EXPECT_LT(*seen.rbegin(), count);
  }
}

TEST(Philox, PermutationsDiffer) {
  int moved = 0, other = 0, seeded = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    moved += permute(i, 100, 1, 0) != i;
    other += permute(i, 100, 1, 0) != permute(i, 100, 1, 1);
    seeded += permute(i, 100, 1, 0) != permute(i, 100, 2, 0);
  }
  EXPECT_GT(moved, 90);
  EXPECT_GT(other, 90);
  EXPECT_GT(seeded, 90);
}
