//===- Units.h - Parameters that are stored side by side --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_UNITS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_UNITS_H

#include "dialects/NN/NNDialect.h"
#include "heddle/Transforms/Common/TiledWeights.h"
#include "llvm/ADT/MapVector.h"
#include <deque>

namespace heddle::shard {

/// The axes along which ranks hold replicas of the parameters and see different
/// tokens.
struct ReplicaAxes {
  explicit ReplicaAxes(dist::MeshOp mesh);

  /// A sum to which every replica adds its part.
  dist::TensorShardingAttr partialSum(dist::TensorShardingAttr whole) const;
  dist::TensorShardingAttr partialSum(mlir::RankedTensorType type) const;
  /// A flat tensor, split over `tensor` where its members are, and over the
  /// replicas with `split`.
  dist::TensorShardingAttr flat(bool tensor, bool split) const;

  mlir::MLIRContext *context;
  llvm::SmallVector<mlir::Attribute> axes, tensorAxes;
  int64_t ranks = 1; ///< The product of their sizes.
};

/// No axis splits any of `rank` dimensions.
dist::TensorShardingAttr wholeSharding(mlir::MLIRContext *context,
                                       int64_t rank);

/// The type in which gradients travel: the compute precision, unless the user
/// says otherwise; null: their own.
mlir::TypeAttr wireOf(const dist::Strategy &strategy, mlir::Builder builder);

/// Parameters that lie side by side, are updated at once, and are gathered and
/// reduced at once: with zero below 2 all that are alike in decay and in
/// whether they are split over `tensor`, from 2 on those of one instance of a
/// layer, or of one module outside of the layers; those that stay whole on
/// every rank apart from those that do not, and with zero 3 each of those with
/// tiles by itself.
struct Unit {
  std::string name;
  llvm::SmallVector<nn::StateOp> parameters;
  bool tensor = false;   ///< Its members are split over the axis `tensor`.
  bool persists = false; ///< With zero 3: its members are whole on every rank.
  int64_t elements = 0;  ///< With padding to equal parts for all replicas.
  nn::UpdateOp update;   ///< The one that this unit's is made after.
  nn::BucketOp values, gradients, copies;
  llvm::SmallVector<nn::BucketOp> states; ///< The optimizer's.
  mlir::Value gradient; ///< Reduced, as the optimizer reads it.
};

/// Rewrites a training step, and what reads parameters, from buckets of the
/// whole model to units.
class Units {
public:
  Units(nn::ModelOp model, nn::StepOp step, const dist::Strategy &strategy,
        const ReplicaAxes &replicas, const TiledWeights &tiled);

  /// Makes the buckets and updates of the units in place of the step's.
  void replaceUpdates();
  /// Gradients stay partial sums until the micro-batches are done.
  void keepGradientsApart();
  /// Gradients of a unit are reduced, each rank keeping its part, as soon as
  /// they are there.
  void scatterGradients();
  /// Parameters are gathered before each layer that reads them, and forgotten
  /// after it.
  void gatherParameters(nn::StepOp reader);

  std::deque<Unit> &all() { return units; }

private:
  void collect(nn::UpdateOp update);
  void choosePersistent();
  std::string unitOf(nn::StateOp parameter, llvm::StringRef group);
  nn::BucketOp addBucket(Unit &unit, llvm::StringRef what,
                         llvm::StringRef suffix, mlir::Type element,
                         dist::TensorShardingAttr storage);
  llvm::StringRef quantityOf(mlir::Value value);
  void addBuckets(Unit &unit);
  mlir::Value read(mlir::OpBuilder &builder, nn::BucketOp bucket);
  mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                      dist::TensorShardingAttr from,
                      dist::TensorShardingAttr to, llvm::StringRef reason);
  void replaceNorm(nn::GlobalNormOp norm);
  void replaceUpdate(Unit &unit);
  void clearGradients(nn::MicroBatchesOp loop);
  void scatterUnit(Unit &unit, nn::MicroBatchesOp loop);
  /// Operands that read a unit's parameters, for each layer that does, and for
  /// each operation in whose body others do.
  using UnitUses = llvm::MapVector<std::pair<Unit *, mlir::Operation *>,
                                   llvm::SmallVector<mlir::OpOperand *>>;
  bool staysGathered(mlir::Operation *from, mlir::Operation *to,
                     const UnitUses &uses);
  void gather(Unit &unit, mlir::Operation *before,
              llvm::ArrayRef<mlir::OpOperand *> uses);

  nn::ModelOp model;
  nn::StepOp step;
  const dist::Strategy &strategy;
  const ReplicaAxes &replicas;
  const TiledWeights &tiled;
  mlir::SymbolTable symbols;
  /// The instance that a parameter is of; its own name where that are several.
  llvm::StringMap<std::string> paths;
  llvm::DenseSet<mlir::Operation *> persistent; ///< Parameters.
  std::deque<Unit> units;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_UNITS_H
