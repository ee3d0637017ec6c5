//===- CutTest.cpp - Tests of the cut into stages -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Pipe/Cut.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace heddle::pipe;

static std::string cutOf(const LayerCosts &costs, int64_t stages) {
  return printCut(cutByCost(costs, stages));
}

static LayerCosts equal(int64_t layers, double first = 0, double last = 0) {
  LayerCosts costs;
  costs.layers.assign(layers, 1e9);
  costs.first = first * 1e9;
  costs.last = last * 1e9;
  return costs;
}

TEST(Cut, EqualLayers) {
  EXPECT_EQ(cutOf(equal(12), 4), "3,3,3,3");
  EXPECT_EQ(cutOf(equal(4), 4), "1,1,1,1");
  EXPECT_EQ(cutOf(equal(5), 1), "5");
  EXPECT_EQ(cutOf(equal(0), 1), "0");
  // The front holds the most micro-batches: it gets the fewest layers.
  EXPECT_EQ(cutOf(equal(7), 4), "1,2,2,2");
}

TEST(Cut, HeadAndEmbeddingCount) {
  EXPECT_EQ(cutOf(equal(8, 0, 2), 2), "5,3");
  EXPECT_EQ(cutOf(equal(8, 2, 0), 2), "3,5");
  EXPECT_EQ(cutOf(equal(12, 0.5, 2.5), 4), "3,4,4,1");
  // A head that is the bottleneck: the others share evenly.
  EXPECT_EQ(cutOf(equal(10, 0, 20), 4), "3,3,3,1");
}

TEST(Cut, WithoutCostsByNumber) {
  LayerCosts costs;
  costs.layers.assign(6, 0);
  EXPECT_EQ(cutOf(costs, 3), "2,2,2");
}

/// The cheapest bottleneck, from all cuts.
static double bottleneck(const LayerCosts &costs, int64_t stages) {
  std::function<double(size_t, int64_t)> search = [&](size_t from,
                                                      int64_t stage) {
    double best = 1e300, cost = stage == 0 ? costs.first : 0;
    for (size_t to = from; to < costs.layers.size(); ++to) {
      cost += costs.layers[to];
      if (stage + 1 == stages && to + 1 == costs.layers.size())
        best = std::min(best, cost + costs.last);
      if (stage + 1 < stages)
        best = std::min(best, std::max(cost, search(to + 1, stage + 1)));
    }
    return best;
  };
  return search(0, 0);
}

TEST(Cut, IsTheBestOfAll) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    LayerCosts costs;
    int64_t stages = 1 + random() % 5, layers = stages + random() % 6;
    for (int64_t layer = 0; layer < layers; ++layer)
      costs.layers.push_back(1 + random() % 20);
    costs.first = random() % 10;
    costs.last = random() % 40;
    Cut cut = cutByCost(costs, stages);
    ASSERT_EQ(std::accumulate(cut.begin(), cut.end(), int64_t(0)), layers);
    double most = 0;
    auto layer = costs.layers.begin();
    for (int64_t stage = 0; stage < stages; ++stage) {
      EXPECT_GE(cut[stage], 1);
      double cost = std::accumulate(layer, layer + cut[stage], 0.0) +
                    (stage == 0 ? costs.first : 0) +
                    (stage + 1 == stages ? costs.last : 0);
      layer += cut[stage];
      most = std::max(most, cost);
    }
    EXPECT_EQ(most, bottleneck(costs, stages)) << trial;
  }
}

static std::string read(const char *layout, int64_t layers, int64_t stages) {
  std::string why;
  auto cut = readCut(layout, layers, stages, why);
  EXPECT_EQ(why.empty(), cut.has_value());
  return cut ? printCut(*cut) : why;
}

TEST(Cut, ReadsNumbers) {
  EXPECT_EQ(read("3,4,5", 12, 3), "3,4,5");
  EXPECT_EQ(read(" 3, 4 ,5 ", 12, 3), "3,4,5");
  EXPECT_EQ(read("0,4,0", 4, 3), "0,4,0");
  EXPECT_EQ(read("4", 4, 1), "4");
}

TEST(Cut, ReadsMegatronsLayout) {
  EXPECT_EQ(read("E|t*3|t*3|tL", 7, 4), "0,3,3,1");
  EXPECT_EQ(read("Et*3|(tt|)*29,t|L", 62, 32),
            "3,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,1,0");
  EXPECT_EQ(read("Ettt|(t|tt|)*2t*2,L", 11, 6), "3,1,2,1,2,2");
  EXPECT_EQ(read("E(t|t*2)*2 L", 6, 3), "1,3,2");
  EXPECT_EQ(read("E((t)*2|)*2tL", 5, 3), "2,2,1");
  EXPECT_EQ(read("EttL", 2, 1), "2");
}

TEST(Cut, SaysWhyALayoutIsRefused) {
  EXPECT_EQ(read("3,4", 7, 4), "has 2 stages, not 4");
  EXPECT_EQ(read("3,4", 8, 2), "has 7 layers; the model has 8");
  EXPECT_EQ(read("3,0,4", 7, 3), "has no layer in stage 1");
  EXPECT_EQ(read("3,x", 7, 2), "has \"x\", which is not a number");
  EXPECT_EQ(read("3,-1", 2, 2), "has \"-1\", which is not a number");
  EXPECT_EQ(read("3,,4", 7, 3), "has \"\", which is not a number");
  EXPECT_EQ(read("t|Et|tL", 3, 3),
            "has not one E, at the beginning, and one L, at the end");
  EXPECT_EQ(read("Et|t", 2, 2),
            "has not one E, at the beginning, and one L, at the end");
  EXPECT_EQ(read("Et|EtL", 2, 2),
            "has not one E, at the beginning, and one L, at the end");
  EXPECT_EQ(read("Et|m|L", 1, 3),
            "has 'm'; E, t, L, |, *, parentheses and commas are possible");
  EXPECT_EQ(read("Et)|L", 1, 2), "has a ) without a (");
  EXPECT_EQ(read("E(t|L", 1, 2), "has a ( without a )");
  EXPECT_EQ(read("Et*|L", 1, 2),
            "has a count that is not possible before \"|L\"");
  EXPECT_EQ(read("Et*0|L", 1, 2),
            "has a count that is not possible before \"|L\"");
  EXPECT_EQ(read("Et*9999999|L", 1, 2),
            "has a count that is not possible before \"|L\"");
  EXPECT_EQ(read("E((((t)*999)*999)*999)*999|L", 1, 2),
            "has a count that is not possible before \")*999)*999|L\"");
}
