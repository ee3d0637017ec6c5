//===- ShardingPlan.h - How every value is to be split ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What shard-propagate finds out, shard-insert-reshards writes, and any pass
// may ask: an analysis, which changes nothing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H

#include "dialects/NN/NNDialect.h"

namespace heddle::shard {

class Reasons;

/// What an operand has to be, for its operation.
struct Need {
  dist::TensorShardingAttr sharding;
  llvm::SmallVector<int64_t> segments; ///< As those of dist.reshard.
};

/// What becomes of a result before anybody reads it.
struct Sequel {
  Need need;
  /// What is added to it once it is so; the operation is to do without it.
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

  /// The sharding that readers of a value find.
  dist::TensorShardingAttr of(mlir::Value value) const;
  /// The one in which its operation makes it.
  dist::TensorShardingAttr madeAs(mlir::Value value) const;
  /// What an operand is needed as; null where it is taken as it comes.
  const Need *needOf(mlir::OpOperand &operand) const;
  /// The sharding that an operation gets for its operand.
  dist::TensorShardingAttr takenAs(mlir::OpOperand &operand) const;
  /// What comes after a result; null where its readers find what is made.
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
  /// Of results that have a sequel.
  llvm::DenseMap<mlir::Value, dist::TensorShardingAttr> made;
  llvm::DenseMap<mlir::OpOperand *, Need> needs;
  llvm::DenseSet<mlir::Operation *> reached;
};

/// Whether a rank can make any part of the value by itself.
bool isMadeAnywhere(mlir::Value value);

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_SHARDINGPLAN_H
