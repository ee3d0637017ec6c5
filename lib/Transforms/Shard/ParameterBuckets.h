//===- ParameterBuckets.h - Buckets of parameters, for ZeRO -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass shard-partition-states cuts the parameters into buckets here, and
// writes ZeRO's communication: the reductions of gradients, and the all-gathers
// of parameters with ZeRO 3 (`gatherParameters`).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H

#include "ZeroStorage.h"
#include "heddle/Transforms/Common/TiledWeights.h"
#include "llvm/ADT/MapVector.h"
#include <deque>

namespace heddle::shard {

/// Parameters that lie side by side in flat buffers, and are reduced, updated
/// and all-gathered together. All members of a bucket agree in three points:
/// their parameter group, whether the axis `tensor` splits them, and
/// whether every rank keeps them whole.
///
/// With ZeRO 0 and 1 a bucket spans the whole model. From ZeRO 2 on it has the
/// parameters of one call of a layer, or of one module outside of the layers.
/// With ZeRO 3 a tiled weight (`--tile`) has a bucket to itself.
struct ParameterBucket {
  std::string name;
  llvm::SmallVector<nn::StateOp> parameters;
  bool tensor = false;   ///< The axis `tensor` splits the members.
  bool persists = false; ///< With ZeRO 3: every rank keeps the members whole.
  int64_t elements = 0;  ///< Includes padding to equal parts for all replicas.
  nn::UpdateOp update;   ///< The update of the model that is copied for it.
  nn::BucketOp values, gradients, copies;
  llvm::SmallVector<nn::BucketOp> states; ///< The states of the optimizer.
  mlir::Value gradient; ///< The reduced gradient, which the optimizer reads.
};

/// Rewrites a model from the buckets that `train-optimizer` made, which span
/// the whole model, to the buckets that ZeRO needs.
class ParameterBuckets {
public:
  ParameterBuckets(nn::ModelOp model, nn::StepOp step, const ZeroStorage &zero,
                   const TiledWeights &tiled);

  /// Replaces the states and updates of the step by those of the buckets.
  void replaceUpdates();
  /// Lets gradients stay partial sums until all micro-batches are done
  /// (ZeRO 0 and 1).
  void keepGradientsApart();
  /// Reduce-scatters the gradients of a bucket as soon as the backward pass has
  /// made them (ZeRO 2 and 3).
  void scatterGradients();
  /// All-gathers parameters before each layer of `reader` that reads them; the
  /// gathered values end with that layer (ZeRO 3).
  void gatherParameters(nn::StepOp reader);

  std::deque<ParameterBucket> &all() { return buckets; }

private:
  void collect(nn::UpdateOp update);
  void choosePersistent();
  std::string nameOf(nn::StateOp parameter, llvm::StringRef group);
  nn::BucketOp addBucket(ParameterBucket &bucket, llvm::StringRef what,
                         llvm::StringRef suffix, mlir::Type element,
                         dist::TensorShardingAttr storage);
  llvm::StringRef quantityOf(mlir::Value value);
  void addBuckets(ParameterBucket &bucket);
  mlir::Value read(mlir::OpBuilder &builder, nn::BucketOp bucket);
  mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                      dist::TensorShardingAttr from,
                      dist::TensorShardingAttr to, llvm::StringRef reason);
  void replaceNorm(nn::GlobalNormOp norm);
  void replaceUpdate(ParameterBucket &bucket);
  void clearGradients(nn::MicroBatchesOp loop);
  void scatterBucket(ParameterBucket &bucket, nn::MicroBatchesOp loop);
  /// The operands that read a bucket's parameters, by the operation that
  /// gathers for them: a call of a layer, or the parent of the block in which
  /// they are.
  using BucketUses =
      llvm::MapVector<std::pair<ParameterBucket *, mlir::Operation *>,
                      llvm::SmallVector<mlir::OpOperand *>>;
  bool staysGathered(mlir::Operation *from, mlir::Operation *to,
                     const BucketUses &uses);
  void gather(ParameterBucket &bucket, mlir::Operation *before,
              llvm::ArrayRef<mlir::OpOperand *> uses);

  nn::ModelOp model;
  nn::StepOp step;
  const dist::Strategy &strategy;
  const ZeroStorage &zero;
  const TiledWeights &tiled;
  mlir::SymbolTable symbols;
  /// The path of the call that reads a parameter. A parameter that several
  /// calls read has its name here, and so a bucket to itself.
  llvm::StringMap<std::string> paths;
  /// Small parameters that every rank keeps whole (ZeRO 3).
  llvm::DenseSet<mlir::Operation *> persistent;
  std::deque<ParameterBucket> buckets;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H
