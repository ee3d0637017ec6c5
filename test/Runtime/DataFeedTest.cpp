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
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

/// A file in llm.c's format whose token i is i.
static std::string countingFile(int64_t tokens) {
  // Tests run beside each other.
  std::string path =
      testing::TempDir() + "/counting-" + std::to_string(getpid()) + ".bin";
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

/// Reads `rows` whole rows.
static void read(DataFeed &feed, int64_t first, int64_t rows, int32_t *ids,
                 int32_t *labels) {
  std::vector<Run> all = {{0, 0, rows * shape.seq}};
  feed.read(first, all, DataFeed::What::Inputs, ids);
  feed.read(first, all, DataFeed::What::Labels, labels);
}

TEST(DataFeed, RowsFollowEachOther) {
  DataFeed feed(countingFile(30), shape); // floor(29 / 12) batches.
  EXPECT_EQ(feed.batches(), 2);
  std::vector<int32_t> ids(12), labels(12);
  read(feed, 1 * 3, 3, ids.data(), labels.data());
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(ids[i], 12 + i);
    EXPECT_EQ(labels[i], 13 + i);
  }
}

TEST(DataFeed, BeginsAgainAfterTheLastBatch) {
  DataFeed feed(countingFile(30), shape);
  std::vector<int32_t> ids(12), labels(12);
  read(feed, 2 * 3, 3, ids.data(), labels.data());
  EXPECT_EQ(ids[0], 0);
  read(feed, 5 * 3, 3, ids.data(), labels.data());
  EXPECT_EQ(ids[0], 12);
}

TEST(DataFeed, MicroBatchesAreRowsInOrder) {
  DataFeed feed(countingFile(30), shape);
  std::vector<int32_t> whole(12), parts(12), labels(12);
  read(feed, 3, 3, whole.data(), labels.data());
  for (int row = 0; row < 3; ++row)
    read(feed, 3 + row, 1, parts.data() + 4 * row, labels.data());
  EXPECT_EQ(whole, parts);
}

TEST(DataFeed, PartsAreRowsAndColumnsOfTheWhole) {
  // Two micro-batches of four rows; of each, data rank 1 of 2 holds the last
  // two, of which sequence rank 0 of 2 holds the first two columns.
  BatchShape wide = {8, 4, 100};
  DataFeed feed(countingFile(40), wide);
  plan::Mesh mesh;
  mesh.data = mesh.seq = 2;
  plan::Placement placement;
  placement.whole = {2, 4, 4};
  placement.split = {{}, {"data"}, {"seq"}};
  Part part(placement, {2, 2, 2}, mesh, /*rank=*/2);
  std::vector<int32_t> ids(8), labels(8);
  feed.read(0, part.runs(), DataFeed::What::Inputs, ids.data());
  feed.read(0, part.runs(), DataFeed::What::Labels, labels.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{8, 9, 12, 13, 24, 25, 28, 29}));
  EXPECT_EQ(labels, (std::vector<int32_t>{9, 10, 13, 14, 25, 26, 29, 30}));
}

TEST(DataFeed, ShuffleVisitsEveryRowOfAPass) {
  DataFeed feed(countingFile(97), shape); // 8 batches of 3 rows.
  feed.shuffle(9);
  std::vector<int32_t> order[2];
  for (int pass = 0; pass < 2; ++pass) {
    std::set<int32_t> seen;
    for (int64_t row = 0; row < 24; ++row) {
      std::vector<int32_t> ids(4), labels(4);
      read(feed, pass * 24 + row, 1, ids.data(), labels.data());
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
  read(feed, 0, 3, ids.data(), labels.data());
  try {
    read(feed, 8 * 3, 3, ids.data(), labels.data()); // Tokens 96 to 108.
    FAIL();
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0346");
    EXPECT_EQ(error.diagnostic.exitCode(), 3);
  }
}
