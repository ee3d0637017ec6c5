//===- DataFeedTest.cpp - Tests of the order of data ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/DataFeed.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <fstream>
#include <gtest/gtest.h>
#include <set>

using namespace heddle;
using namespace heddle::rt;

/// A file in llm.c's format whose token i is i.
static std::string countingFile(int64_t tokens) {
  std::string path = testing::TempDir() + "/counting.bin";
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = int32_t(tokens);
  std::vector<uint16_t> values(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    values[i] = uint16_t(i);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<char *>(header.data()), 1024);
  file.write(reinterpret_cast<char *>(values.data()), 2 * tokens);
  return path;
}

static const BatchShape shape = {/*rows=*/3, /*seq=*/4, /*vocab=*/100};

TEST(DataFeed, RowsFollowEachOther) {
  DataFeed feed(countingFile(30), shape); // floor(29 / 12) batches.
  EXPECT_EQ(feed.batches(), 2);
  std::vector<int32_t> ids(12), labels(12);
  feed.read(1 * 3, 3, ids.data(), labels.data());
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(ids[i], 12 + i);
    EXPECT_EQ(labels[i], 13 + i);
  }
}

TEST(DataFeed, BeginsAgainAfterTheLastBatch) {
  DataFeed feed(countingFile(30), shape);
  std::vector<int32_t> ids(12), labels(12);
  feed.read(2 * 3, 3, ids.data(), labels.data());
  EXPECT_EQ(ids[0], 0);
  feed.read(5 * 3, 3, ids.data(), labels.data());
  EXPECT_EQ(ids[0], 12);
}

TEST(DataFeed, MicroBatchesAreRowsInOrder) {
  DataFeed feed(countingFile(30), shape);
  std::vector<int32_t> whole(12), parts(12), labels(12);
  feed.read(3, 3, whole.data(), labels.data());
  for (int row = 0; row < 3; ++row)
    feed.read(3 + row, 1, parts.data() + 4 * row, labels.data());
  EXPECT_EQ(whole, parts);
}

TEST(DataFeed, ShuffleVisitsEveryRowOfAPass) {
  DataFeed feed(countingFile(97), shape); // 8 batches of 3 rows.
  feed.shuffle(9);
  std::vector<int32_t> order[2];
  for (int pass = 0; pass < 2; ++pass) {
    std::set<int32_t> seen;
    for (int64_t row = 0; row < 24; ++row) {
      std::vector<int32_t> ids(4), labels(4);
      feed.read(pass * 24 + row, 1, ids.data(), labels.data());
      EXPECT_EQ(ids[0] % 4, 0);
      EXPECT_EQ(labels[0], ids[1]);
      seen.insert(ids[0]);
      order[pass].push_back(ids[0]);
    }
    EXPECT_EQ(seen.size(), 24u);
  }
  EXPECT_NE(order[0], order[1]);
}

TEST(DataFeed, RefusesShortFilesAndForeignTokens) {
  try {
    DataFeed feed(countingFile(12), shape);
    FAIL();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0347");
  }
  DataFeed feed(countingFile(200), shape);
  std::vector<int32_t> ids(12), labels(12);
  feed.read(0, 3, ids.data(), labels.data());
  try {
    feed.read(8 * 3, 3, ids.data(), labels.data()); // Tokens 96 to 108.
    FAIL();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0346");
    EXPECT_EQ(error.diagnostic.exitCode(), 3);
  }
}
