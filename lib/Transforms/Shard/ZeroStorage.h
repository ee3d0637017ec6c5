//===- ZeroStorage.h - Which states ZeRO splits -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Translates the stage of ZeRO (Rajbhandari et al., arXiv 1910.02054) into how
// states are stored. Passes do not read the stage themselves. They ask here
// whether the replicas split parameters, gradients or optimizer states.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_ZEROSTORAGE_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_ZEROSTORAGE_H

#include "dialects/NN/NNDialect.h"

namespace heddle::shard {

/// The mesh axes along which ranks hold replicas of the parameters and compute
/// different tokens.
struct ReplicaAxes {
  explicit ReplicaAxes(dist::MeshOp mesh);

  /// The sharding `whole`, but as a partial sum over all mesh axes in `axes`,
  /// along which ranks hold replicas of the parameters.
  dist::TensorShardingAttr partialSum(dist::TensorShardingAttr whole) const;
  dist::TensorShardingAttr partialSum(mlir::RankedTensorType type) const;
  /// The sharding of a flat tensor, such as a bucket. `tensor` says whether the
  /// mesh axis `tensor` splits the flat tensor, `split` whether replicas do.
  dist::TensorShardingAttr flat(bool tensor, bool split) const;

  mlir::MLIRContext *context;
  llvm::SmallVector<mlir::Attribute> axes, tensorAxes;
  int64_t ranks = 1; ///< The number of replicas: the product of axis sizes.
};

/// How states are stored with one stage of ZeRO. Parameters, gradients and
/// optimizer states are each either split over the replicas, or stored whole on
/// every replica.
struct ZeroStorage : ReplicaAxes {
  ZeroStorage(nn::ModelOp model, dist::MeshOp mesh);

  /// Whether the replicas split the states of `role`: states of the optimizer
  /// from ZeRO 1 on, gradients from ZeRO 2 on, parameters with ZeRO 3. A mesh
  /// without replicas splits nothing.
  bool splits(nn::StateRole role) const;
  /// The storage of a flat tensor with states of which the replicas hold what
  /// `state` says. `tensor` says whether the mesh axis `tensor` splits it.
  dist::TensorShardingAttr flatOf(nn::StateOp state, bool tensor) const;

  int64_t stage; ///< The stage of ZeRO that the user gave, for messages.
  /// Whether every replica needs its whole gradient, because it sends signs of
  /// what it computes from it.
  bool keepsGradients;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_ZEROSTORAGE_H
