//===- ZeroStorage.cpp - Which states ZeRO splits -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ZeroStorage.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::shard;
using dist::TensorShardingAttr;

ReplicaAxes::ReplicaAxes(dist::MeshOp mesh)
    : context(mesh.getContext()),
      axes(mesh.getAxesWhere(
          [](dist::AxisRole role) { return dist::holdsReplicas(role); })),
      tensorAxes(mesh.getAxesOf(dist::AxisRole::Tensor)),
      ranks(mesh.getSize(axes)) {}

TensorShardingAttr ReplicaAxes::partialSum(TensorShardingAttr whole) const {
  return TensorShardingAttr::get(context, whole.getDims(),
                                 ArrayAttr::get(context, axes));
}

TensorShardingAttr ReplicaAxes::partialSum(RankedTensorType type) const {
  return wholeSharding(context, type.getRank(), axes);
}

TensorShardingAttr ReplicaAxes::flat(bool tensor, bool split) const {
  Builder builder(context);
  SmallVector<Attribute> names;
  if (tensor)
    llvm::append_range(names, tensorAxes);
  if (split)
    names.append(axes.begin(), axes.end());
  return TensorShardingAttr::get(
      context, builder.getArrayAttr({builder.getArrayAttr(names)}),
      builder.getArrayAttr({}));
}

ZeroStorage::ZeroStorage(nn::ModelOp model, dist::MeshOp mesh)
    : ReplicaAxes(mesh), stage(model.getStrategy().getValue().zero),
      keepsGradients(
          config::sendsSigns(model.getStrategy().getValue().optimizer)) {}

TensorShardingAttr ZeroStorage::flatOf(nn::StateOp state, bool tensor) const {
  bool mayBeSplit = state.getHolding() != nn::Holding::Whole &&
                    state.getHolding() != nn::Holding::Local;
  bool isSplit = mayBeSplit && splits(state.getRole());
  TensorShardingAttr storage = flat(tensor, isSplit);
  bool isSum = state.getHolding() == nn::Holding::Replica && !isSplit;
  return isSum ? partialSum(storage) : storage;
}

bool ZeroStorage::splits(nn::StateRole role) const {
  if (role == nn::StateRole::Gradient && keepsGradients)
    return false;
  int64_t from = role == nn::StateRole::Optimizer  ? 1
                 : role == nn::StateRole::Gradient ? 2
                                                   : 3;
  return ranks > 1 && stage >= from;
}
