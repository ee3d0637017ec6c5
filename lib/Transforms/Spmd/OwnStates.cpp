//===- OwnStates.cpp - What each replica has by itself --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnStates.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

SmallVector<Attribute> spmd::replicaAxes(dist::MeshOp mesh) {
  return mesh.getAxesWhere(
      [](dist::AxisRole role) { return dist::holdsReplicas(role); });
}

SmallVector<Attribute> spmd::ownersOf(nn::BucketOp bucket, dist::MeshOp mesh) {
  SmallVector<Attribute> owners;
  TensorShardingAttr storage = bucket.getStorageAttr();
  for (Attribute axis : mesh.getAxesOf(dist::AxisRole::Tensor))
    if (storage && llvm::any_of(storage.getDims().getAsRange<ArrayAttr>(),
                                [&](ArrayAttr split) {
                                  return llvm::is_contained(split, axis);
                                }))
      owners.push_back(axis);
  llvm::append_range(owners, replicaAxes(mesh));
  return owners;
}

std::string spmd::nameOfOwn(std::string name, nn::ModelOp model) {
  if (std::optional<int64_t> stage = model.getStage())
    name += ".stage" + std::to_string(*stage);
  return name;
}

nn::StateOp spmd::addOwnState(OpBuilder &builder, Location loc, StringRef name,
                              RankedTensorType type, ArrayRef<Attribute> owners,
                              int64_t copies) {
  auto state =
      builder.create<nn::StateOp>(loc, name, nn::StateRole::Optimizer, type);
  state.setWhole(type.clone({type.getNumElements() * copies}));
  state.setStorageAttr(TensorShardingAttr::get(
      builder.getContext(),
      builder.getArrayAttr({builder.getArrayAttr(owners)}),
      builder.getArrayAttr({})));
  state.setHeld(nn::Holding::Replica);
  state.setCheckpointed(true);
  return state;
}

void spmd::keepLocalStates(nn::ModelOp model, dist::MeshOp mesh) {
  SymbolTable symbols(model);
  llvm::StringMap<StringAttr> renamed;
  for (auto bucket : llvm::make_early_inc_range(model.getOps<nn::BucketOp>())) {
    SmallVector<nn::StateOp> members;
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
      members.push_back(symbols.lookup<nn::StateOp>(member.getValue()));
    if (members.front().getHolding() != nn::Holding::Local)
      continue;
    SmallVector<Attribute> owners;
    if (mesh)
      owners = ownersOf(bucket, mesh);
    OpBuilder builder(bucket);
    nn::StateOp state = addOwnState(builder, bucket.getLoc(),
                                    nameOfOwn(bucket.getSymName().str(), model),
                                    cast<RankedTensorType>(bucket.getType()),
                                    owners, mesh ? mesh.getSize(owners) : 1);
    renamed[bucket.getSymName()] = state.getSymNameAttr();
    bucket.erase();
    for (nn::StateOp member : members)
      member.erase();
  }
  model.walk([&](Operation *op) {
    auto rename = [&](auto access) {
      if (auto found = renamed.find(access.getState()); found != renamed.end())
        access.setStateAttr(FlatSymbolRefAttr::get(found->second));
    };
    if (auto get = dyn_cast<nn::GetOp>(op))
      rename(get);
    if (auto set = dyn_cast<nn::SetOp>(op))
      rename(set);
  });
}
