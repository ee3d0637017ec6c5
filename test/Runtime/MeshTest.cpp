//===- MeshTest.cpp - Tests of how ranks are arranged ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Mesh.h"
#include "Meshes.h"

#include <gtest/gtest.h>

using namespace heddle::plan;
using heddle::test::meshOf;
using Ranks = std::vector<int64_t>;

/// 2 stages of 4 data ranks, of which each 2 share out experts, of 3 tensor
/// ranks.
static Mesh withExperts() {
  Mesh mesh = meshOf(2, 4, 1, 3);
  mesh.axes.insert(mesh.axes.begin() + 2,
                   {"expert", 2, AxisRole::Data, "data"});
  return mesh;
}

TEST(Mesh, NumbersRanks) {
  Mesh mesh = meshOf(2, 3, 1, 4);
  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(mesh.stages(), 2);
  EXPECT_EQ(mesh.size("data"), 3);
  EXPECT_EQ(mesh.size("depth"), 1);
  // Rank 17 = ((1*3 + 1)*1 + 0)*4 + 1.
  EXPECT_EQ(mesh.stageOf(17), 1);
  EXPECT_EQ(mesh.coordinate(17, {"data"}), 1);
  EXPECT_EQ(mesh.coordinate(17, {"tensor", "pipe"}), 3);
  EXPECT_EQ(mesh.group(17, {"data"}), (Ranks{13, 17, 21}));
  EXPECT_EQ(mesh.member(17, {"pipe", "data"}, 5), 21);
  EXPECT_EQ(mesh.roleOf("seq"), AxisRole::Sequence);
  EXPECT_EQ(mesh.roleOf("depth"), std::nullopt);
  EXPECT_EQ(mesh.atoms(), (AxisNames{"pipe", "data", "seq", "tensor"}));
  EXPECT_EQ(mesh.along(AxisRole::Pipeline).ranks(), 2);
}

TEST(Mesh, AFactorAddsNoRanks) {
  Mesh mesh = withExperts();
  EXPECT_EQ(mesh.problem(), "");
  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(mesh.size(AxisRole::Data), 4);
  for (int64_t rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(mesh.coordinate(rank, {"data"}), rank / 3 % 4);
    EXPECT_EQ(mesh.coordinate(rank, {"pipe", "tensor"}),
              rank / 12 * 3 + rank % 3);
  }
}

// Rank 19 = (1*4 + 2)*3 + 1: data 2 of 4 is expert 0 of 2 in the second half.
TEST(Mesh, GroupsAlongAFactorAndWhatIsLeft) {
  Mesh mesh = withExperts();
  EXPECT_EQ(mesh.size("expert"), 2);
  EXPECT_EQ(mesh.size("data/expert"), 2);
  EXPECT_EQ(mesh.coordinate(19, {"expert"}), 0);
  EXPECT_EQ(mesh.coordinate(19, {"data/expert"}), 1);
  EXPECT_EQ(mesh.group(19, {"expert"}), (Ranks{19, 22}));
  EXPECT_EQ(mesh.group(19, {"data/expert"}), (Ranks{13, 19}));
  EXPECT_EQ(mesh.group(19, {"expert", "tensor"}),
            (Ranks{18, 19, 20, 21, 22, 23}));
  for (int64_t rank = 0; rank < 24; ++rank)
    for (const char *axis : {"expert", "data/expert", "data"})
      EXPECT_EQ(mesh.member(rank, {axis}, mesh.coordinate(rank, {axis})), rank);
  EXPECT_EQ(mesh.roleOf("data/expert"), AxisRole::Data);
  EXPECT_EQ(mesh.roleOf("data/tensor"), std::nullopt);
  EXPECT_EQ(mesh.size("seq/expert"), 1);
}

TEST(Mesh, BothTogetherAreTheWhole) {
  Mesh mesh = withExperts();
  EXPECT_EQ(mesh.atoms(),
            (AxisNames{"pipe", "data/expert", "expert", "seq", "tensor"}));
  for (int64_t rank = 0; rank < 24; ++rank) {
    Ranks data = mesh.group(rank, {"data"});
    EXPECT_EQ(mesh.group(rank, {"data/expert", "expert"}), data);
    EXPECT_EQ(mesh.group(rank, {"data", "expert"}), data);
    EXPECT_EQ(mesh.group(rank, {"expert", "data"}), data);
    EXPECT_EQ(mesh.coordinate(rank, {"data/expert", "expert"}),
              mesh.coordinate(rank, {"data"}));
    // The numbers along the atoms tell ranks apart.
    EXPECT_EQ(mesh.coordinate(rank, mesh.atoms()), rank);
  }
  EXPECT_EQ(mesh.groupSize({"data", "expert", "tensor"}), 12);
  EXPECT_TRUE(mesh.covers({"data"}, "expert"));
  EXPECT_TRUE(mesh.covers({"data"}, "data/expert"));
  EXPECT_FALSE(mesh.covers({"expert"}, "data/expert"));
  EXPECT_FALSE(mesh.covers({"data"}, "tensor"));
}

TEST(Mesh, RefusesWhatIsNone) {
  auto problemOf = [](const Mesh::Axis &axis) {
    Mesh mesh = withExperts();
    mesh.axes.push_back(axis);
    return mesh.problem();
  };
  constexpr AxisRole role = AxisRole::Data;
  EXPECT_EQ(problemOf({"depth", 1, role, ""}), "");
  EXPECT_EQ(problemOf({"depth", 0, role, ""}), "its axis depth has 0 ranks");
  EXPECT_EQ(problemOf({"data", 1, role, ""}), "its axis data is there twice");
  EXPECT_EQ(problemOf({"depth", 3, role, "tensor"}), "");
  EXPECT_EQ(problemOf({"depth", 2, role, "tensor"}),
            "its axis depth is no factor of tensor");
  EXPECT_EQ(problemOf({"depth", 2, role, "expert"}),
            "its axis depth is no factor of expert");
  EXPECT_EQ(problemOf({"depth", 2, role, "width"}),
            "its axis depth is no factor of width");
  EXPECT_EQ(problemOf({"depth", 2, role, "data"}),
            "its axis data has two factors");
}

TEST(Mesh, KeepsItsListThroughJson) {
  nlohmann::json json = withExperts();
  EXPECT_EQ(json[2].dump(), R"({"factorOf":"data","name":"expert",)"
                            R"("role":"data","size":2})");
  EXPECT_EQ(nlohmann::json(json.get<Mesh>()), json);
  json[2]["role"] = "depth";
  EXPECT_THROW(json.get<Mesh>(), nlohmann::json::exception);
}
