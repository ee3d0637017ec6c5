//===- MeshTest.cpp - The axes along which ranks are arranged -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/Mesh.h"
#include "dialects/Dist/DistDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle::dist;

namespace {

TEST(Mesh, AxesComeMajorToMinorWithTheirRoles) {
  Strategy strategy;
  strategy.data = 3;
  strategy.sequence = 2;
  SmallVector<Axis> axes = axesOf(strategy);
  ASSERT_EQ(axes.size(), meshAxes().size());
  for (auto [axis, name] : llvm::zip(axes, meshAxes())) {
    EXPECT_EQ(axis.name, name);
    EXPECT_EQ(roleOf(axis.name), axis.role);
  }
  EXPECT_EQ(axes.front().name, pipelineAxis());
  EXPECT_EQ(axes[1].role, AxisRole::Data);
  EXPECT_EQ(axes[1].size, 3);
  EXPECT_EQ(axes[2].role, AxisRole::Sequence);
  EXPECT_EQ(axes[2].size, 2);
}

TEST(Mesh, AnUnknownAxisHasNoRole) {
  EXPECT_EQ(roleOf("depth"), std::nullopt);
  EXPECT_FALSE(holdsReplicas(StringRef("depth")));
  EXPECT_TRUE(holdsReplicas(StringRef("data")));
  EXPECT_FALSE(holdsReplicas(StringRef("tensor")));
}

TEST(Mesh, AnAxisOfOneRankSharesNothingOut) {
  MLIRContext context;
  context.loadDialect<DistDialect>();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  SmallVector<Attribute> axes = {MeshAxisAttr::get(&context, "data", 3),
                                 MeshAxisAttr::get(&context, "seq", 1),
                                 MeshAxisAttr::get(&context, "tensor", 2)};
  auto mesh = builder.create<MeshOp>(builder.getUnknownLoc(), "mesh",
                                     builder.getArrayAttr(axes));
  EXPECT_EQ(mesh.getSize(AxisRole::Data), 3);
  EXPECT_EQ(mesh.getSize(AxisRole::Pipeline), 1);
  EXPECT_EQ(mesh.getAxesOf(AxisRole::Tensor),
            SmallVector<Attribute>({builder.getStringAttr("tensor")}));
  auto replicas =
      mesh.getAxesWhere([](AxisRole role) { return holdsReplicas(role); });
  EXPECT_EQ(replicas, SmallVector<Attribute>({builder.getStringAttr("data")}));
  EXPECT_EQ(mesh.getSize(replicas), 3);
}

TEST(Mesh, AFactorAddsNoRanks) {
  MLIRContext context;
  context.loadDialect<DistDialect>();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  auto name = [&](StringRef text) { return builder.getStringAttr(text); };
  SmallVector<Attribute> axes = {
      MeshAxisAttr::get(&context, "data", 6),
      MeshAxisAttr::get(&context, "expert", 3, name("data")),
      MeshAxisAttr::get(&context, "tensor", 2)};
  auto mesh = builder.create<MeshOp>(builder.getUnknownLoc(), "mesh",
                                     builder.getArrayAttr(axes));
  EXPECT_EQ(mesh.getNumRanks(), 12);
  EXPECT_EQ(mesh.getAxisSize("expert"), 3);
  EXPECT_EQ(mesh.getAxisSize("data/expert"), 2);
  EXPECT_EQ(mesh.getAxisSize("depth"), 0);
  EXPECT_EQ(mesh.getSize({name("expert"), name("tensor")}), 6);
  EXPECT_EQ(mesh.getSize({name("data/expert"), name("expert")}), 6);
  EXPECT_EQ(mesh.getSize({name("data"), name("expert")}), 6);
}

TEST(Mesh, AStrategysListIsThePlans) {
  Strategy strategy;
  strategy.data = 3;
  strategy.pipe = 2;
  heddle::plan::Mesh mesh = meshOf(strategy);
  ASSERT_EQ(mesh.axes.size(), meshAxes().size());
  EXPECT_EQ(mesh.problem(), "");
  EXPECT_EQ(mesh.ranks(), 6);
  EXPECT_EQ(mesh.stages(), 2);
}

} // namespace
