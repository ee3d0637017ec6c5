//===- RankShardTest.cpp - Tests of how parts lie in a whole --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/RankShard.h"
#include "Meshes.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <gtest/gtest.h>
#include <map>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;

/// The index along one dimension of the whole at `local`; -1: padding.
static int64_t wholeIndex(int64_t local, std::vector<int64_t> segments,
                          int64_t parts, int64_t number) {
  int64_t begin = 0;
  for (int64_t segment : segments) {
    int64_t extent = (segment + parts - 1) / parts;
    if (local < extent) {
      int64_t index = number * extent + local;
      return index < segment ? begin + index : -1;
    }
    local -= extent;
    begin += segment;
  }
  return -1;
}

static int64_t productOf(const std::vector<int64_t> &shape) {
  int64_t product = 1;
  for (int64_t extent : shape)
    product *= extent;
  return product;
}

namespace {

/// One rank's part, worked out element by element.
struct Reference {
  Reference(const Placement &placement, const Mesh &mesh, int64_t rank);
  std::vector<int64_t> shape;
  std::map<int64_t, int64_t> places; ///< Whole index to index in memory.
};

} // namespace

Reference::Reference(const Placement &placement, const Mesh &mesh,
                     int64_t rank) {
  size_t dims = placement.whole.size();
  std::vector<std::vector<int64_t>> segments(dims);
  for (size_t i = 0; i < dims; ++i) {
    bool last = i + 1 == dims && !placement.segments.empty();
    segments[i] =
        last ? placement.segments : std::vector<int64_t>{placement.whole[i]};
    int64_t parts = mesh.groupSize(placement.split[i]), extent = 0;
    for (int64_t segment : segments[i])
      extent += (segment + parts - 1) / parts;
    shape.push_back(extent);
  }
  for (int64_t local = 0; local < productOf(shape); ++local) {
    int64_t rest = local, whole = 0, stride = 1;
    bool isPadding = false;
    for (size_t i = dims; i-- > 0;) {
      int64_t index = wholeIndex(rest % shape[i], segments[i],
                                 mesh.groupSize(placement.split[i]),
                                 mesh.coordinate(rank, placement.split[i]));
      isPadding |= index < 0;
      whole += index * stride;
      stride *= placement.whole[i];
      rest /= shape[i];
    }
    int64_t at = local;
    if (!placement.flatAxes.empty()) {
      int64_t ranks = mesh.groupSize(placement.flatAxes);
      int64_t run = (placement.flatElements + ranks - 1) / ranks;
      int64_t place = placement.flatFirst + local;
      if (place / run != mesh.coordinate(rank, placement.flatAxes))
        continue;
      at = place % run;
    }
    if (!isPadding)
      places[whole] = at;
  }
}

/// Checks every rank's part against the reference, and that the first replicas
/// have every element of the whole once.
static void check(const Placement &placement, const Mesh &mesh) {
  std::vector<int> owners(productOf(placement.whole));
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    Reference expected(placement, mesh, rank);
    RankShard part(placement, expected.shape, mesh, rank);
    std::map<int64_t, int64_t> places;
    int64_t last = -1;
    for (const ElementRange &run : part.runs()) {
      EXPECT_GT(run.count, 0);
      EXPECT_GT(run.whole, last);
      last = run.whole + run.count - 1;
      EXPECT_LE(run.local + run.count, part.localElements());
      for (int64_t i = 0; i < run.count; ++i)
        places[run.whole + i] = run.local + i;
    }
    EXPECT_EQ(places, expected.places);
    if (part.isFirstReplica() && mesh.coordinate(rank, {"pipe"}) == 0)
      for (const auto &[whole, local] : places)
        ++owners[whole];
  }
  EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
}

TEST(RankShard, MapsEveryElement) {
  using Axes = std::vector<std::string>;
  Mesh mesh = test::meshOf(2, 2, 2, 3);
  const std::vector<Axes> choices = {{}, {"tensor"}, {"data", "seq"}, {"seq"}};
  for (const Axes &rows : choices)
    for (const Axes &columns : choices) {
      if (rows == columns && !rows.empty())
        continue;
      if (rows.size() + columns.size() > 2 && rows != Axes{"tensor"} &&
          columns != Axes{"tensor"})
        continue; // The axis `seq` would split both.
      for (const std::vector<int64_t> &segments :
           {std::vector<int64_t>{}, {4, 2, 5}}) {
        Placement placement;
        placement.whole = {5, 2, 11};
        placement.split = {rows, {}, columns};
        placement.segments = segments;
        check(placement, mesh);
      }
    }
}

TEST(RankShard, MapsMembersOfFlatTensors) {
  Mesh mesh = test::meshOf(1, 3, 2, 2);
  for (int64_t first : {0, 3, 64, 100})
    for (int64_t elements : {130, 200}) {
      Placement placement;
      placement.whole = {5, 7};
      placement.split = {{}, {"tensor"}};
      placement.flatAxes = {"data", "seq"};
      placement.flatFirst = first;
      placement.flatElements = elements;
      check(placement, mesh);
      placement.flatAxes = {"data"};
      check(placement, mesh);
    }
}

// What a factor splits, the rest of its axis replicates.
TEST(RankShard, MapsPartsAlongFactors) {
  Mesh mesh = test::meshOf(2, 4, 1, 2);
  mesh.axes.push_back({"expert", 2, AxisRole::Data, "data"});
  using Axes = std::vector<std::string>;
  for (const Axes &rows : {Axes{"expert"}, Axes{"data/expert"}, Axes{"data"},
                           Axes{"data/expert", "expert"}, Axes{}}) {
    Placement placement;
    placement.whole = {7, 3};
    placement.split = {rows, {"tensor"}};
    check(placement, mesh);
    placement.split = {{}, {"tensor"}};
    placement.flatAxes = rows;
    placement.flatFirst = 5;
    placement.flatElements = 60;
    check(placement, mesh);
  }
}

TEST(RankShard, IsOneRunWhereItCanBe) {
  Mesh mesh = test::meshOf(1, 1, 1, 2);
  Placement placement;
  RankShard whole(placement, {3, 4}, mesh, 1);
  ASSERT_EQ(whole.runs().size(), 1u);
  EXPECT_EQ(whole.runs()[0].count, 12);
  EXPECT_FALSE(whole.isFirstReplica());
  placement.whole = {4, 6};
  placement.split = {{"tensor"}, {}};
  RankShard rows(placement, {2, 6}, mesh, 1);
  ASSERT_EQ(rows.runs().size(), 1u);
  EXPECT_EQ(rows.runs()[0].whole, 12);
  EXPECT_TRUE(rows.isFirstReplica());
  EXPECT_EQ(RankShard(Placement(), {}, mesh, 0).runs()[0].count, 1);
}

TEST(RankShard, RefusesPartsThatAreNone) {
  Mesh mesh = test::meshOf(1, 1, 1, 2);
  Placement placement;
  placement.whole = {4, 6};
  placement.split = {{"tensor"}, {}};
  auto refuses = [&](const std::vector<int64_t> &shape) {
    try {
      RankShard(placement, shape, mesh, 0);
      return false;
    } catch (const UserError &error) {
      return error.diagnostic.code == "H0385";
    }
  };
  EXPECT_FALSE(refuses({2, 6}));
  EXPECT_TRUE(refuses({4, 6}));
  EXPECT_TRUE(refuses({2, 6, 1}));
  placement.segments = {2, 3};
  EXPECT_TRUE(refuses({2, 6}));
}
