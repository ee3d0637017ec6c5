//===- ArenaTest.cpp - Tests of mapped regions ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;

/// The bytes that this process may touch, by the kernel's own account.
static int64_t accessibleBytes() {
  std::ifstream maps("/proc/self/maps");
  std::string range, access, rest;
  int64_t sum = 0;
  while (maps >> range >> access && std::getline(maps, rest)) {
    if (access.find('w') == std::string::npos)
      continue;
    size_t dash = range.find('-');
    sum += std::stoull(range.substr(dash + 1), nullptr, 16) -
           std::stoull(range.substr(0, dash), nullptr, 16);
  }
  return sum;
}

TEST(Arena, MapsExactlyItsBytes) {
  for (int64_t bytes : {int64_t(4096), int64_t(3) << 20, int64_t(8) << 20}) {
    accessibleBytes(); // The file's buffer is made before it counts.
    int64_t before = accessibleBytes();
    Arena arena(bytes, "test");
    EXPECT_EQ(accessibleBytes() - before, bytes);
    EXPECT_EQ(arena.size(), bytes);
  }
}

TEST(Arena, IsZeroedAndAligned) {
  Arena arena(int64_t(4) << 20, "test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % (2 << 20), 0u);
  for (int64_t i = 0; i < arena.size(); i += 4096)
    EXPECT_EQ(arena.data()[i], 0);
}

TEST(Arena, DiscardsWholePages) {
  Arena arena(4 * 4096, "test");
  memset(arena.data(), 1, arena.size());
  arena.discard(100, 3 * 4096);
  for (int64_t i = 0; i < arena.size(); ++i)
    ASSERT_EQ(arena.data()[i], i < 4096 || i >= 3 * 4096) << i;
}

TEST(Arena, MovesWithItsMemory) {
  Arena first(4096, "test");
  char *data = first.data();
  Arena second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
}

TEST(Arena, EmptyIsNothing) {
  Arena arena(0, "test");
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_EQ(arena.size(), 0);
}

static std::string codeOf(int64_t bytes) {
  try {
    Arena arena(bytes, "test");
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "";
}

TEST(Arena, RefusesWhatCannotBe) {
  EXPECT_EQ(codeOf(100), "H0385");
  EXPECT_EQ(codeOf(-4096), "H0385");
  EXPECT_EQ(codeOf(int64_t(1) << 50), "H0292");
}

TEST(ArenaDeathTest, GuardPagesFault) {
  Arena arena(2 * Arena::pageSize(), "test", /*guarded=*/true);
  memset(arena.data(), 1, arena.size());
  EXPECT_DEATH(arena.data()[arena.size()] = 1, "");
  EXPECT_DEATH(arena.data()[-1] = 1, "");
}
