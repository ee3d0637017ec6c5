//===- ParameterBuckets.h - Parameters that are stored side by side --------*-
//C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H

#include "ZeroStorage.h"
#include "heddle/Transforms/Common/TiledWeights.h"
#include "llvm/ADT/MapVector.h"
#include <deque>

namespace heddle::shard {

/// Parameters that lie side by side, are updated at once, and are gathered and
/// reduced at once: with zero below 2 all that are alike in decay and in
/// whether they are split over `tensor`, from 2 on those of one instance of a
/// layer, or of one module outside of the layers; those that stay whole on
/// every rank apart from those that do not, and with zero 3 each of those with
/// tiles by itself.
struct ParameterBucket {
  std::string name;
  llvm::SmallVector<nn::StateOp> parameters;
  bool tensor = false;   ///< Its members are split over the axis `tensor`.
  bool persists = false; ///< With zero 3: its members are whole on every rank.
  int64_t elements = 0;  ///< With padding to equal parts for all replicas.
  nn::UpdateOp update;   ///< The one that this bucket's is made after.
  nn::BucketOp values, gradients, copies;
  llvm::SmallVector<nn::BucketOp> states; ///< The optimizer's.
  mlir::Value gradient; ///< Reduced, as the optimizer reads it.
};

/// Rewrites a training step, and what reads parameters, from buckets of the
/// whole model to buckets.
class ParameterBuckets {
public:
  ParameterBuckets(nn::ModelOp model, nn::StepOp step, const ZeroStorage &zero,
                   const TiledWeights &tiled);

  /// Makes the buckets and updates of the buckets in place of the step's.
  void replaceUpdates();
  /// Gradients stay partial sums until the micro-batches are done.
  void keepGradientsApart();
  /// Gradients of a bucket are reduced, each rank keeping its part, as soon as
  /// they are there.
  void scatterGradients();
  /// Parameters are gathered before each layer that reads them, and forgotten
  /// after it.
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
  /// Operands that read a bucket's parameters, for each layer that does, and
  /// for each operation in whose body others do.
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
  /// The instance that a parameter is of; its own name where that are several.
  llvm::StringMap<std::string> paths;
  llvm::DenseSet<mlir::Operation *> persistent; ///< Parameters.
  std::deque<ParameterBucket> buckets;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_PARAMETERBUCKETS_H
