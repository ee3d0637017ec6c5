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
  /// The attribute `segments` of the dist.reshard that is inserted.
  llvm::SmallVector<int64_t> segments;
};

/// What is inserted after a result: a reshard, and then the addition of an init
/// if `init` is not null. Other operations read the value after these.
struct Sequel {
  Need need;
  /// The init operand that is removed from the operation and added after the
  /// reshard; null: none.
  mlir::OpOperand *init = nullptr;
};

/// The shardings of all values in the functions and steps of a model. The
/// storage of its states must be chosen before.
class ShardingPlan {
public:
  /// For `getAnalysis<ShardingPlan>()`. The analysis is cached, so that errors
  /// are emitted once.
  explicit ShardingPlan(mlir::Operation *model)
      : ShardingPlan(llvm::cast<nn::ModelOp>(model), nullptr) {}
  /// `reasons`: receives the reason for each sharding, unless null.
  ShardingPlan(nn::ModelOp model, Reasons *reasons);

  /// Whether the plan covers the whole model; false after an error.
  bool isComplete() const { return complete; }

  /// The sharding of a value as other operations read it.
  dist::TensorShardingAttr of(mlir::Value value) const;
  /// The sharding in which the operation itself computes the value, before the
  /// reshard and addition that `sequelOf` plans for it.
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
  /// `madeAs` of results that have a sequel.
  llvm::DenseMap<mlir::Value, dist::TensorShardingAttr> made;
  llvm::DenseMap<mlir::OpOperand *, Need> needs;
  llvm::DenseSet<mlir::Operation *> reached;
};

/// Whether every rank can compute any shard of the value without communication,
/// as it can for a constant or for positions.
bool isMadeAnywhere(mlir::Value value);

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
