//===- TrafficTest.cpp - Our counts against those of a preloaded library --===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Tags.h"
#include "test/Runtime/AllocationCount.h"
#include "test/Runtime/Comm/JobRun.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

namespace {
/// Bytes by rank and tag; all channels are one.
using Sent = std::map<std::pair<int, int>, int64_t>;
} // namespace

/// The lines "COUNT rank group kind bytes" that the ranks said.
static Sent readCounts(const std::string &output) {
  Sent sent;
  std::istringstream text(output);
  std::string line;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    std::string word, group;
    int rank = 0, kind = 0;
    int64_t bytes = 0;
    if (!(words >> word >> rank >> group >> kind >> bytes) || word != "COUNT")
      continue;
    int tag = group == "p2p" ? channelTag
                             : tagOf(static_cast<plan::CollectiveKind>(kind),
                                     std::stoi(group));
    sent[{rank, tag}] = bytes;
  }
  return sent;
}

static Sent readInterposed(const std::string &directory, int ranks,
                           int64_t &controlBytes) {
  Sent sent;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ifstream file(directory + "/" + std::to_string(rank));
    int peer = 0, tag = 0;
    int64_t messages = 0, bytes = 0;
    while (file >> peer >> tag >> messages >> bytes) {
      if (tag < collectiveTag)
        controlBytes += bytes;
      else
        sent[{rank, std::min(tag, channelTag)}] += bytes;
    }
  }
  return sent;
}

class TrafficCounts : public testing::TestWithParam<Starter> {};

TEST_P(TrafficCounts, AgreeToTheByte) {
  if (!isInstalled(GetParam()))
    GTEST_SKIP() << "no mpirun of " << nameOf(GetParam());
  if (allocationCount() < 0)
    GTEST_SKIP() << "a sanitizer must be loaded before any other library";
  char directory[] = "/tmp/heddle-traffic-XXXXXX";
  ASSERT_TRUE(mkdtemp(directory));
  Outcome job = runJob(
      GetParam(), 6, {"traffic", "1", "3", "1", "2"},
      {{"LD_PRELOAD", HEDDLE_TEST_INTERPOSER}, {"HEDDLE_TRAFFIC", directory}});
  EXPECT_EQ(job.status, 0) << job.output;
  int64_t controlBytes = 0;
  Sent counted = readCounts(job.output);
  EXPECT_EQ(counted, readInterposed(directory, 6, controlBytes));
  std::filesystem::remove_all(directory);
  EXPECT_GT(controlBytes, 0);
  // Three groups of five kinds each, and the messages, on each of six ranks.
  EXPECT_EQ(counted.size(), 6u * (3 * plan::numCollectiveKinds + 1));
}

INSTANTIATE_TEST_SUITE_P(Comm, TrafficCounts,
                         testing::Values(Starter::OpenMpi, Starter::Mpich),
                         [](const auto &info) { return nameOf(info.param); });
