//===- CommLogTest.cpp - Tests of the log of communication ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/CommLog.h"

#include <gtest/gtest.h>
#include <thread>

using namespace heddle;
using namespace heddle::rt;

static plan::CollectiveShape shapeOf(plan::CollectiveKind kind, int64_t count,
                                     plan::DType wire = plan::DType::F32) {
  plan::CollectiveShape shape;
  shape.kind = kind;
  shape.wire = wire;
  shape.ranks = 4;
  shape.count = count;
  return shape;
}

TEST(CommLog, CountsByOperationAxesAndSize) {
  CommLog log;
  log.add(shapeOf(plan::CollectiveKind::AllReduce, 100), "data", 0.5);
  log.add(shapeOf(plan::CollectiveKind::AllReduce, 100), "data", 0.25);
  log.add(shapeOf(plan::CollectiveKind::AllReduce, 100), "tensor", 2);
  log.add(shapeOf(plan::CollectiveKind::AllReduce, 200), "data", 4);
  log.add(shapeOf(plan::CollectiveKind::AllGather, 100, plan::DType::BF16),
          "data", 8);
  std::vector<CommSummary> all = summarize({log.text()});
  ASSERT_EQ(all.size(), 4u);
  // The longest first.
  EXPECT_EQ(all[0].operation.name, "all_gather");
  EXPECT_EQ(all[0].operation.bytes, 200);
  EXPECT_EQ(all[1].operation.bytes, 800);
  EXPECT_EQ(all[2].operation.axes, "tensor");
  EXPECT_EQ(all[3].count, 2);
  EXPECT_EQ(all[3].seconds, 0.75);
  EXPECT_EQ(all[3].operation.ranks, 4);
}

TEST(CommLog, BandwidthIsThatOfNcclsTests) {
  struct {
    plan::CollectiveKind kind;
    double factor;
  } cases[] = {{plan::CollectiveKind::AllReduce, 1.5},
               {plan::CollectiveKind::AllGather, 0.75},
               {plan::CollectiveKind::ReduceScatter, 0.75},
               {plan::CollectiveKind::AllToAll, 0.75},
               {plan::CollectiveKind::Rotate, 1}};
  for (const auto &each : cases) {
    CommLog log;
    for (int i = 0; i < 2; ++i)
      log.add(shapeOf(each.kind, 1000), "data", 0.5);
    EXPECT_EQ(summarize({log.text()}).front().busBandwidth(),
              each.factor * 4000 / 0.5);
  }
}

TEST(CommLog, NamesTheSlowestRank) {
  std::vector<std::string> texts;
  for (double seconds : {3.0, 5.0, 1.0}) {
    CommLog log;
    log.add({"receive", "pipe", 2, 10}, seconds);
    texts.push_back(log.text());
  }
  texts.emplace_back(); // A rank that receives nothing.
  CommSummary summary = summarize(texts).front();
  EXPECT_EQ(summary.slowestRank, 1);
  EXPECT_EQ(summary.slowestSeconds, 5);
  EXPECT_EQ(summary.seconds, 3);
  EXPECT_EQ(summary.straggling, 2 + 4);
}

TEST(CommLog, SendsHaveNoBandwidth) {
  CommLog log;
  log.add({"send", "pipe", 2, 10}, 0);
  EXPECT_EQ(summarize({log.text()}).front().busBandwidth(), 0);
}

TEST(CommLog, IsThreadSafe) {
  CommLog log;
  auto add = [&] {
    for (int i = 0; i < 1000; ++i)
      log.add({"send", "pipe", 2, i % 7}, 0);
  };
  std::thread other(add);
  add();
  other.join();
  int64_t count = 0;
  for (const CommSummary &summary : summarize({log.text()}))
    count += summary.count;
  EXPECT_EQ(count, 2000);
}
