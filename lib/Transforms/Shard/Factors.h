//===- Factors.h - Which axes split a computation ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_FACTORS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_FACTORS_H

#include "Reasons.h"
#include "ShardingPlan.h"

namespace heddle::shard {

using Axes = llvm::SmallVector<mlir::Attribute>;

/// Whether the factor is one of the leading dimensions of activations.
inline bool isRow(const dist::Factor &factor) {
  return factor.role == dist::FactorRole::Rows ||
         factor.role == dist::FactorRole::Tokens;
}

/// What operations find around them in a function or step.
struct Surroundings {
  /// Whether ranks along `tensor` share the tokens out between products.
  bool sharesTokens = false;
  /// The axes that split tables of tokens, by rows.
  Axes vocabularyAxes;
  int64_t vocabularyRanks = 1; ///< Along them.
  /// The axes that split the rows and the tokens of the step's sequences.
  llvm::SmallVector<Axes> tokenAxes = llvm::SmallVector<Axes>(2);
};

/// How the axes of a mesh split one computation.
struct Factors {
  llvm::SmallVector<Axes> axes; ///< Of each factor.
  Axes unreduced;               ///< Over which the results are partial sums.
  Origins origins;
  bool addsUp = false; ///< It adds partial sums to one.
  /// Inits that the partial sums are added to as they are, or the operand that
  /// the results are linear in; and inits that are added to the whole sums.
  llvm::SmallDenseSet<mlir::OpOperand *> sums, later;
};

/// Finds them from how the operands are split.
class FactorFinder {
public:
  /// `activations` are partial sums over other factors than rows.
  FactorFinder(
      const ShardingPlan &plan, const Surroundings &around,
      const llvm::DenseMap<mlir::Value, std::optional<size_t>> &activations)
      : plan(plan), around(around), activations(activations) {}

  Factors find(mlir::Operation *op, const dist::ShardingRule &rule);

private:
  void give(int64_t factor, mlir::Attribute axis, mlir::Value operand,
            llvm::StringRef why = "");
  void giveOperands(bool rows);
  void giveRoles();
  void split();
  void chooseInits();
  void keepSums();

  const ShardingPlan &plan;
  const Surroundings &around;
  const llvm::DenseMap<mlir::Value, std::optional<size_t>> &activations;
  mlir::Operation *op = nullptr;
  const dist::ShardingRule *rule = nullptr;
  Factors factors;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_FACTORS_H
