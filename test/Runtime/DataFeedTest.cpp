//===- DataFeedTest.cpp - Tests of the order of data ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/DataFeed.h"
#include "Io/IoTestSupport.h"
#include "Meshes.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

using namespace heddle;
using namespace heddle::rt;

/// A file in llm.c's format whose token i is `from` + i.
static std::string countingFile(int64_t tokens, int64_t from = 0) {
  static const io::TestDirectory directory;
  std::string path = directory / ("counting-" + std::to_string(from) + ".bin");
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = int32_t(tokens);
  std::vector<uint16_t> values(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    values[i] = uint16_t(from + i);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<char *>(header.data()), 1024);
  file.write(reinterpret_cast<char *>(values.data()), 2 * tokens);
  return path;
}

static const BatchShape shape = {/*rows=*/3, /*seq=*/4, /*vocab=*/100};

/// Reads `rows` whole rows.
static void read(DataFeed &feed, int64_t first, int64_t rows, int32_t *ids,
                 int32_t *labels) {
  std::vector<ElementRange> all = {{0, 0, rows * shape.seq}};
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
  plan::Mesh mesh = test::meshOf(1, 2, 2);
  plan::Placement placement;
  placement.whole = {2, 4, 4};
  placement.split = {{}, {"data"}, {"seq"}};
  RankShard part(placement, {2, 2, 2}, mesh, /*rank=*/2);
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

//===----------------------------------------------------------------------===//
// Several files
//===----------------------------------------------------------------------===//

static const BatchShape wideShape = {/*rows=*/3, /*seq=*/4, /*vocab=*/60000};

/// The first tokens of the rows that `steps` batches read.
static std::vector<int32_t> firstTokens(DataFeed &feed, int64_t steps,
                                        BatchShape batch) {
  std::vector<int32_t> found;
  std::vector<int32_t> ids(batch.rows * batch.seq);
  for (int64_t step = 0; step < steps; ++step) {
    feed.read(step * batch.rows, {{0, 0, batch.rows * batch.seq}},
              DataFeed::What::Inputs, ids.data());
    for (int64_t row = 0; row < batch.rows; ++row)
      found.push_back(ids[row * batch.seq]);
  }
  return found;
}

static DataFeed threeFiles(std::vector<double> weights = {0.5, 0.3, 0.2}) {
  return DataFeed({{countingFile(50), weights[0]},
                   {countingFile(1000, 10000), weights[1]},
                   {countingFile(90, 20000), weights[2]}},
                  wideShape);
}

TEST(DataFeed, FilesTakeTurnsByTheirWeights) {
  DataFeed feed = threeFiles();
  std::vector<int32_t> rows = firstTokens(feed, 100, wideShape);
  int64_t counts[3] = {0, 0, 0};
  const double shares[] = {0.5, 0.3, 0.2};
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t source = rows[i] / 10000;
    // Every file in its own order: of the first, 12 rows are a pass.
    int64_t pass = source == 0 ? 12 : source == 1 ? 249 : 22;
    EXPECT_EQ(rows[i] % 10000, 4 * (counts[source] % pass));
    ++counts[source];
    for (int j = 0; j < 3; ++j)
      EXPECT_LT(std::abs(counts[j] - shares[j] * double(i + 1)), 1.0);
  }
}

TEST(DataFeed, WithoutWeightsFilesCountByTheirRows) {
  DataFeed feed = threeFiles({0, 0, 0});
  std::vector<int32_t> rows = firstTokens(feed, 100, wideShape);
  int64_t counts[3] = {0, 0, 0};
  for (int64_t i = 0; i < 283; ++i) // 12 + 249 + 22: all are read once.
    ++counts[rows[i] / 10000];
  EXPECT_EQ(counts[0], 12);
  EXPECT_EQ(counts[1], 249);
  EXPECT_EQ(counts[2], 22);
}

TEST(DataFeed, APartOfAMixtureIsThatOfTheWhole) {
  DataFeed feed = threeFiles(), other = threeFiles();
  std::vector<int32_t> whole(12), half(4), labels(4);
  for (int64_t step : {0, 1, 5, 3}) { // Backwards too.
    feed.read(step * 3, {{0, 0, 12}}, DataFeed::What::Inputs, whole.data());
    other.read(step * 3, {{6, 0, 4}}, DataFeed::What::Inputs, half.data());
    other.read(step * 3, {{6, 0, 4}}, DataFeed::What::Labels, labels.data());
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(half[i], whole[6 + i]);
      EXPECT_EQ(labels[i], half[i] + 1);
    }
  }
}

TEST(DataFeed, AWeightIsNoPartOfAName) {
  std::string path = countingFile(50), odd = path + ":0.5";
  EXPECT_EQ(parseData({odd})[0].path, path);
  EXPECT_EQ(parseData({odd})[0].weight, 0.5);
  std::ofstream(odd) << "x";
  EXPECT_EQ(parseData({odd})[0].path, odd);
  EXPECT_EQ(parseData({odd})[0].weight, 0);
  EXPECT_EQ(parseData({odd + ":2e-1"})[0].path, odd);
  EXPECT_EQ(parseData({odd + ":2e-1"})[0].weight, 0.2);
  unlink(odd.c_str());
  EXPECT_EQ(parseData({path + ":x"})[0].path, path + ":x");
  std::vector<std::string> wrong[] = {{path + ":0"},
                                      {path + ":-1"},
                                      {path + ":nan"},
                                      {path + ":inf"},
                                      {path, path + ":1"}};
  for (const auto &arguments : wrong)
    EXPECT_THROW(parseData(arguments), UserError) << arguments.back();
}

//===----------------------------------------------------------------------===//
// Resumption
//===----------------------------------------------------------------------===//

TEST(DataFeed, GoesOnWhereItStood) {
  for (bool shuffled : {false, true})
    for (bool mixed : {false, true}) {
      auto make = [&] {
        DataFeed feed =
            mixed ? threeFiles() : DataFeed(countingFile(50), wideShape);
        if (shuffled)
          feed.shuffle(5);
        return feed;
      };
      DataFeed whole = make();
      std::vector<int32_t> expected = firstTokens(whole, 40, wideShape);
      for (int64_t steps : {0, 1, 3, 4, 5, 17}) {
        DataFeed first = make(), second = make(), third = make();
        firstTokens(first, steps, wideShape);
        second.resume(first.state(steps * 3), true);
        firstTokens(second, 9, wideShape);
        io::DataState state = second.state(9 * 3);
        EXPECT_EQ(state.rows, (steps + 9) * 3);
        EXPECT_EQ(state.tokens, (steps + 9) * 12);
        third.resume(state, true);
        std::vector<int32_t> rest = firstTokens(third, 10, wideShape);
        std::vector<int32_t> wanted(expected.begin() + (steps + 9) * 3,
                                    expected.begin() + (steps + 19) * 3);
        EXPECT_EQ(rest, wanted) << shuffled << mixed << steps;
      }
    }
}

TEST(DataFeed, AnotherBatchGoesOnWithTheNextToken) {
  DataFeed feed(countingFile(100), wideShape); // 8 batches of 12 tokens.
  io::DataState state = feed.state(5 * 3);     // Tokens 0 to 59 are read.
  BatchShape other = {2, 7, 60000};
  DataFeed next(countingFile(100), other);
  next.resume(state, true);
  // Two batches of 14 are left of the pass; the next one begins at 0.
  EXPECT_EQ(firstTokens(next, 4, other),
            (std::vector<int32_t>{60, 67, 74, 81, 0, 7, 14, 21}));
  // Back again, in the middle of the pass.
  DataFeed last(countingFile(100), wideShape);
  last.resume(next.state(2), true);
  EXPECT_EQ(firstTokens(last, 3, wideShape),
            (std::vector<int32_t>{74, 78, 82, 86, 90, 94, 0, 4, 8}));
}

TEST(DataFeed, ALargerBatchGoesOnWithPermutedRows) {
  DataFeed feed(countingFile(100), wideShape);
  feed.shuffle(3);
  std::vector<int32_t> expected = firstTokens(feed, 8, wideShape);
  BatchShape other = {5, 4, 60000};
  DataFeed next(countingFile(100), other);
  next.shuffle(3);
  next.resume(feed.state(4 * 3), true);
  // Two batches of 5 are left of its 24 rows.
  std::vector<int32_t> wanted(expected.begin() + 12, expected.begin() + 22);
  EXPECT_EQ(firstTokens(next, 2, other), wanted);
}

TEST(DataFeed, AStateThatDoesNotFitLeadsToTheNextPass) {
  constexpr int64_t much = int64_t(1) << 53;
  for (bool shuffled : {false, true}) {
    DataFeed feed(countingFile(100), wideShape);
    if (shuffled)
      feed.shuffle(1);
    io::DataState state = feed.state(3);
    state.sources[0].origin = state.sources[0].passRows = much;
    state.sources[0].taken = much;
    feed.resume(state, true);
    EXPECT_EQ(feed.state(0).sources[0].pass, 1);
    firstTokens(feed, 20, wideShape);
  }
}
