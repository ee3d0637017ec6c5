//===- Factors.h - Which axes split a computation ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One step of sharding propagation: it finds the mesh axes that split each
// factor of an operation (dimensions that are split alike, like a letter of an
// einsum), given the shardings of the operation's operands. `ShardingPlan`
// calls it for each operation.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_FACTORS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_FACTORS_H

#include "Reasons.h"
#include "ShardingPlan.h"

namespace heddle::shard {

using Axes = llvm::SmallVector<mlir::Attribute>;

/// Whether the factor (dimensions that are split alike) counts rows of the
/// batch, or tokens. These are the leading dimensions of activations.
inline bool isRow(const dist::Factor &factor) {
  return factor.role == dist::FactorRole::Rows ||
         factor.role == dist::FactorRole::Tokens;
}

/// Facts about the function or step that an operation is in.
struct Surroundings {
  /// Whether ranks along the mesh axis `tensor` split the tokens of activations
  /// outside of pairs of products (sequence parallelism). A pair is a product
  /// with a weight that is split by columns, and a product with a weight that
  /// is split by rows.
  bool sharesTokens = false;
  /// The mesh axes that split the table of token embeddings by rows.
  Axes vocabularyAxes;
  /// The number of ranks along `vocabularyAxes`.
  int64_t vocabularyRanks = 1;
  /// The mesh axes that split the step's input: entry 0 has those that split
  /// the rows of the batch, entry 1 those that split the tokens of each row.
  llvm::SmallVector<Axes> tokenAxes = llvm::SmallVector<Axes>(2);
};

/// How the axes of a mesh split the dimensions of one operation's operands and
/// results.
struct Factors {
  /// For each factor of the operation's sharding rule, the mesh axes that split
  /// it. A factor is a set of dimensions of operands and results that are split
  /// alike.
  llvm::SmallVector<Axes> axes;
  Axes unreduced;  ///< The axes over which the results are partial sums.
  Origins origins; ///< Why each axis splits the computation.
  /// Whether the operation adds values that are partial sums over the same mesh
  /// axes. The result of the operation is then a partial sum, too.
  bool addsUp = false;
  /// `sums` has the operands that are partial sums and need not be reduced
  /// before the operation, which is linear in them. `later` has the operands
  /// that are added to a result only after the result is reduced.
  llvm::SmallDenseSet<mlir::OpOperand *> sums, later;
};

/// Finds the mesh axes that split each factor of an operation (dimensions of
/// its operands and results that are split alike).
class FactorFinder {
public:
  /// `activations` has the activations that are partial sums, because an
  /// operation has summed over a split dimension other than batch rows and
  /// tokens, for example over the input features of a matrix product. Each
  /// activation is mapped to the index of its token dimension; nullopt if it
  /// has none.
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
