//===- ShardingRule.h - How an operation may be split -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rule names the factors of an operation, as einsum letters: dimensions of
// operands and results that must be split alike. After openxla/shardy's rule of
// the same idea.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_SHARDINGRULE_H
#define HEDDLE_DIALECTS_DIST_SHARDINGRULE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include <string>

namespace heddle::dist {

/// What happens to the results when a factor is split over an axis.
enum class FactorKind {
  Parallel,  ///< They are split too.
  Reduction, ///< It is in no result: they become partial sums over the axis.
  Whole,     ///< It must not be split.
};

struct Factor {
  std::string name; ///< A short name: b, t, i, o, v ...
  int64_t size = 0;
  FactorKind kind = FactorKind::Parallel;
};

/// `operands[i][d]` is the index of the factor of dimension d of operand i; an
/// empty list stands for an operand without dimensions (scalars, rank 0).
struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<llvm::SmallVector<int64_t>> operands;
  llvm::SmallVector<llvm::SmallVector<int64_t>> results;

  /// Prints as `([b,t,i],[i,o])->([b,t,o]) {b=4, t=64, i=768, o=768: ...}`.
  std::string str() const;
};

/// Builds a rule from letters, one per dimension, as
/// buildRule(op, {"bti", "io", "o"}, {"bto"}, whole = "t"). Letters that appear
/// in no result are reductions. Sizes are taken from the types; operands beyond
/// the list have no dimensions that count.
ShardingRule buildRule(mlir::Operation *op,
                       llvm::ArrayRef<std::string> operands,
                       llvm::ArrayRef<std::string> results,
                       llvm::StringRef whole = "");

/// Checks that the rule speaks of every dimension of every ranked operand and
/// result, with equal sizes for equal factors.
mlir::LogicalResult verifyRule(mlir::Operation *op, const ShardingRule &rule);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_SHARDINGRULE_H
