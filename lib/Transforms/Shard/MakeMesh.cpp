//===- MakeMesh.cpp - The axes along which ranks are arranged -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Shard/Passes.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_SHARDMAKEMESH
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

struct MakeMesh : heddle::impl::ShardMakeMeshBase<MakeMesh> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    OpBuilder builder = OpBuilder::atBlockBegin(model.getBodyBlock());
    SmallVector<Attribute> axes;
    for (const dist::Axis &axis : dist::axesOf(strategy))
      axes.push_back(dist::MeshAxisAttr::get(
          &getContext(), axis.name, axis.size,
          axis.factorOf.empty() ? StringAttr()
                                : builder.getStringAttr(axis.factorOf)));
    auto mesh = builder.create<dist::MeshOp>(model.getLoc(), "mesh",
                                             builder.getArrayAttr(axes));
    if (strategy.context == config::Context::Ring &&
        mesh.getSize(dist::AxisRole::Sequence) > 1)
      passAround(model);
  }

private:
  /// Marks all attention as ring attention, in which ranks send keys and values
  /// to the next rank of a ring.
  static void passAround(nn::ModelOp model) {
    auto ring = nn::PlacementAttr::get(model.getContext(), /*parts=*/1,
                                       /*sequence_shards=*/1, /*ring=*/true);
    model.walk([&](nn::AttentionOpInterface op) { op.setPlacementAttr(ring); });
  }
};

} // namespace
