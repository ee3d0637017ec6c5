//===- ShardingPlan.h - How every value is to be split ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An analysis that finds the sharding of every value. The pass shard-propagate
// computes it, shard-insert-reshards writes it into the IR, and other passes
// may query it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H

#include "dialects/NN/NNDialect.h"

namespace heddle::shard {

class Reasons;

/// The sharding in which an operation needs an operand. If the operand has
/// another sharding, a dist.reshard is inserted.
struct Need {
  dist::TensorShardingAttr sharding;
  /// The attribute `segments` of the dist.reshard that is inserted: the sizes
  /// of segments of the last dimension that are split separately, for example
  /// the queries, keys and values of a fused projection.
  llvm::SmallVector<int64_t> segments;
};

/// What the pass shard-insert-reshards inserts after a result: a reshard and,
/// if `init` is not null, an addition after the reshard. Other operations then
/// read the reshard's or the addition's result.
struct Sequel {
  Need need;
  /// An init of the operation: an operand to which the operation adds its
  /// result. It is removed from the operation, and added after the reshard.
  /// Null: no init is moved.
  mlir::OpOperand *init = nullptr;
};

/// The shardings of all values in the functions and steps of a model. How the
/// model's states are stored must be decided before the plan is made.
class ShardingPlan {
public:
  /// The constructor for `getAnalysis<ShardingPlan>()`. The pass manager caches
  /// the analysis, so that errors are emitted only once.
  explicit ShardingPlan(mlir::Operation *model)
      : ShardingPlan(llvm::cast<nn::ModelOp>(model), nullptr) {}
  /// If `reasons` is not null, it receives a reason for each sharding.
  ShardingPlan(nn::ModelOp model, Reasons *reasons);

  /// Whether the plan covers the whole model; false after an error.
  bool isComplete() const { return complete; }

  /// The sharding of a value when other operations read it: after the planned
  /// reshard of the value, and after the planned addition of an init (an
  /// operand to which the operation adds its result).
  dist::TensorShardingAttr of(mlir::Value value) const;
  /// The sharding in which the operation itself computes the value, before the
  /// planned reshard of the value and the planned addition of an init.
  dist::TensorShardingAttr madeAs(mlir::Value value) const;
  /// The sharding in which the operation needs the operand; null if it accepts
  /// any sharding.
  const Need *needOf(mlir::OpOperand &operand) const;
  /// The sharding in which the operation reads the operand, after a planned
  /// reshard.
  dist::TensorShardingAttr takenAs(mlir::OpOperand &operand) const;
  /// What is inserted after a result, before other operations read it; null if
  /// nothing is.
  const Sequel *sequelOf(mlir::Value result) const;
  /// Whether any step calls the function.
  bool isReached(nn::FuncOp function) const {
    return reached.contains(function);
  }

private:
  friend class PlanBuilder;

  bool complete = true;
  llvm::DenseMap<mlir::Value, dist::TensorShardingAttr> shardings;
  llvm::DenseMap<mlir::Value, Sequel> sequels;
  /// For each result after which a reshard is inserted: the sharding in which
  /// the operation computes the result, before the reshard.
  llvm::DenseMap<mlir::Value, dist::TensorShardingAttr> made;
  llvm::DenseMap<mlir::OpOperand *, Need> needs;
  llvm::DenseSet<mlir::Operation *> reached;
};

/// Whether every rank can compute any shard of the value without communication,
/// as it can for a constant or for positions.
bool isMadeAnywhere(mlir::Value value);

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
