//===- ParameterBuckets.h - Buckets of parameters, for ZeRO -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts the parameters into buckets and inserts ZeRO's communication: reductions
// of gradients, and with ZeRO 3 all-gathers of parameters (`gatherParameters`).
// Used by the pass shard-partition-states.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H

#include "ZeroStorage.h"
#include "heddle/Transforms/Common/TiledWeights.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <deque>

namespace heddle::shard {

class BucketCopier;

/// Parameters whose elements follow each other in flat buffers: one for their
/// values, one for their gradients, and one for each optimizer state. Each of
/// these buffers is reduced, updated or all-gathered as a whole. All parameters
/// of a bucket are in the same parameter group. The mesh axis `tensor` splits
/// either all parameters of a bucket or none. With ZeRO 3 either all of them
/// are sharded, or every rank keeps all of them whole.
///
/// With ZeRO 0 and 1 a bucket spans the whole model. From ZeRO 2 on a bucket
/// has the parameters of one call of a layer, or of one module outside of the
/// layers. With ZeRO 3 a tiled weight (`--tile`) has a bucket to itself.
struct ParameterBucket {
  std::string name;
  llvm::SmallVector<nn::StateOp> parameters;
  bool tensor = false; ///< Whether the mesh axis `tensor` splits parameters.
  /// With ZeRO 3: whether every rank keeps the parameters whole.
  bool persists = false;
  /// The number of elements, with the padding that makes the shards of all
  /// replicas equally large.
  int64_t elements = 0;
  /// Whether replicas exchange it in a format of fewer bits than f32 in some
  /// phase of a run. Tensors with few elements for each replica are not.
  bool isCompressed = false;
  nn::UpdateOp update; ///< The update that is copied for this bucket.
  nn::BucketOp values, gradients, copies;
  llvm::SmallVector<nn::BucketOp> states; ///< The states of the optimizer.
  mlir::Value gradient; ///< The reduced gradient, which the optimizer reads.
};

/// The average that the update applies; null if it applies the gradient.
nn::AverageOp averageOf(nn::UpdateOp update);

/// The gradients that the update applies, or from which the average that it
/// applies is computed.
mlir::Value gradientOf(nn::UpdateOp update);

/// Rewrites a model from the buckets that `train-optimizer` made, which span
/// the whole model, to the buckets that ZeRO needs.
class ParameterBuckets {
public:
  /// The new buckets of all train programs, by name. Programs that train the
  /// same parameters share them.
  using Made = llvm::StringMap<nn::BucketOp>;

  /// `step` is one of the model's train programs, whose new buckets are added
  /// to `made`.
  ParameterBuckets(nn::ModelOp model, nn::StepOp step, const ZeroStorage &zero,
                   const TiledWeights &tiled, Made &made);

  /// Replaces the optimizer states and updates of the step, which span the
  /// whole model, by one set of states and one update for each bucket. `old`
  /// are the buckets that span the whole model. They are not erased, because
  /// another train program may use them, too.
  void replaceUpdates(llvm::ArrayRef<nn::BucketOp> old);
  /// Changes the storage of gradients, so that they are partial sums over
  /// replicas until all micro-batches are done (ZeRO 0 and 1).
  void keepGradientsApart();
  /// Reduce-scatters the gradients of a bucket as soon as the backward pass has
  /// computed all of them (ZeRO 2 and 3).
  void scatterGradients();
  /// All-gathers parameters before each layer of `reader` that reads them (ZeRO
  /// 3). The gathered values are not used after that layer. Parameters of the
  /// buckets `gathered` are left out.
  void gatherParameters(nn::StepOp reader,
                        const llvm::StringSet<> &gathered = {});

  std::deque<ParameterBucket> &all() { return buckets; }

private:
  void collect(nn::UpdateOp update);
  void choosePersistent();
  std::string nameOf(nn::StateOp parameter, llvm::StringRef group);
  nn::BucketOp addBucket(ParameterBucket &bucket, llvm::StringRef what,
                         llvm::StringRef suffix, mlir::Type element,
                         dist::TensorShardingAttr storage);
  nn::StateOp stateOf(mlir::Value value);
  /// The bucket, in place of the one of the whole model that `value` is read
  /// from.
  nn::BucketOp bucketFor(ParameterBucket &bucket, mlir::Value value);
  nn::BucketOp bucketFor(ParameterBucket &bucket, nn::StateOp state,
                         mlir::Type element);
  bool isCompressed(nn::StateOp parameter) const;
  /// Copies the average that the bucket's update applies. Returns the mean.
  mlir::Value copyAverage(mlir::OpBuilder &builder, ParameterBucket &bucket,
                          BucketCopier &copier);
  /// The sums of squares of the replicas' own gradients, averaged over them.
  mlir::Value squaresOfReplicas(mlir::OpBuilder &builder,
                                ParameterBucket &bucket);
  void addBuckets(ParameterBucket &bucket);
  mlir::Value read(mlir::OpBuilder &builder, nn::BucketOp bucket);
  mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                      dist::TensorShardingAttr from,
                      dist::TensorShardingAttr to, llvm::StringRef reason);
  void replaceNorm(nn::GlobalNormOp norm);
  void replaceUpdate(ParameterBucket &bucket);
  /// Writes what the step computes of a bucket before its first micro-batch.
  void replaceScalars(ParameterBucket &bucket);
  /// Writes the states of a bucket that the step writes beside what its update
  /// does.
  void replaceSets(mlir::OpBuilder &builder, ParameterBucket &bucket,
                   BucketCopier &copier);
  void clearGradients(nn::MicroBatchesOp loop);
  void scatterBucket(ParameterBucket &bucket, nn::MicroBatchesOp loop);
  /// The operands that read parameters of a bucket. The key has the bucket, and
  /// the operation before which the bucket is gathered. If the operands are in
  /// a layer, this is the call of the layer; otherwise it is the parent
  /// operation of their MLIR block.
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
  Made &made;
  mlir::SymbolTable symbols;
  /// For each parameter, the module path of the call that reads the parameter.
  /// If several calls read it, the parameter's own name is stored instead, so
  /// that it gets a bucket to itself.
  llvm::StringMap<std::string> paths;
  /// Small parameters that every rank keeps whole (ZeRO 3).
  llvm::DenseSet<mlir::Operation *> persistent;
  /// The step's reads and writes of buckets that span the whole model.
  llvm::DenseSet<mlir::Operation *> oldReads;
  llvm::SmallVector<nn::SetOp> oldSets;
  bool compresses = false; ///< Whether some program of the model compresses.
  bool isJoint = false;    ///< Whether it does with one scale for all tensors.
  std::deque<ParameterBucket> buckets;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H
