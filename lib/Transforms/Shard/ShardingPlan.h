//===- ShardingPlan.h - How every value is to be split ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The analysis of shardings: shard-propagate computes it, shard-insert-reshards
// writes it into the IR, and other passes may read it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H

#include "dialects/NN/NNDialect.h"

namespace heddle::shard {

class Reasons;

/// The sharding that an operation needs of an operand.
struct Need {
  dist::TensorShardingAttr sharding;
  llvm::SmallVector<int64_t> segments; ///< The `segments` of the dist.reshard.
};

/// What happens to a result before other operations read it: a reshard, and the
/// addition of an init after that.
struct Sequel {
  Need need;
  /// The init operand that is removed from the operation and added after the
  /// reshard; null: none.
  mlir::OpOperand *init = nullptr;
};

/// The shardings of all functions and steps of a model whose states have their
/// storage.
class ShardingPlan {
public:
  /// An analysis: `getAnalysis<ShardingPlan>()`. Errors are reported once.
  explicit ShardingPlan(mlir::Operation *model)
      : ShardingPlan(llvm::cast<nn::ModelOp>(model), nullptr) {}
  /// `reasons`: if not null, gets the reason of each sharding.
  ShardingPlan(nn::ModelOp model, Reasons *reasons);

  /// Whether there is a plan for all of the model.
  bool isComplete() const { return complete; }

  /// The sharding of a value as other operations read it.
  dist::TensorShardingAttr of(mlir::Value value) const;
  /// The sharding in which its operation makes it, before its sequel.
  dist::TensorShardingAttr madeAs(mlir::Value value) const;
  /// The sharding that an operand needs; null where any will do.
  const Need *needOf(mlir::OpOperand &operand) const;
  /// The sharding that an operation gets for its operand.
  dist::TensorShardingAttr takenAs(mlir::OpOperand &operand) const;
  /// What happens to a result before it is read; null: nothing.
  const Sequel *sequelOf(mlir::Value result) const;
  /// Whether a step runs the function.
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
/// as of a constant or of positions.
bool isMadeAnywhere(mlir::Value value);

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
