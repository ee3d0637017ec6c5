//===- ShardingRule.h - How an operation may be split -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sharding rules. A rule gives each dimension of an operation's operands and
// results a factor, like a letter of an einsum: dimensions with the same factor
// must be split alike. The idea is from openxla/shardy.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_DIST_SHARDINGRULE_H
#define HEDDLE_DIALECTS_DIST_SHARDINGRULE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include <string>

namespace heddle::dist {

/// How the results of an operation change if ranks split a factor, which is a
/// group of the operation's dimensions that must be split alike.
enum class FactorKind {
  Parallel,  ///< Results that have the factor are split, too.
  Reduction, ///< No result has the factor: results become partial sums.
  /// No result has a dimension of the factor. The operation communicates, so
  /// that each rank gets complete results.
  Combined,
  Whole, ///< The factor must not be split.
};

/// What the dimensions of a factor count. A factor is a group of dimensions
/// that must be split alike. Passes look for factors by role.
enum class FactorRole {
  Rows,       ///< Rows of the batch; the factor's letter is b.
  Tokens,     ///< Tokens of a row; the letter is t.
  Heads,      ///< h
  Features,   ///< c; for a matrix product i (its input's) and o (its result's).
  Vocabulary, ///< v
  Other,
};

/// Dimensions of an operation that must be split alike.
struct Factor {
  std::string name; ///< A short name of the factor: b, t, i, o, v ...
  /// The size of each dimension that has this factor. It is counted in
  /// elements, or in units if `units` is not empty. A unit is a group of
  /// elements that must not be split, such as a head of attention.
  int64_t size = 0;
  FactorKind kind = FactorKind::Parallel;
  /// What the units are called, such as "heads". Each dimension of the factor
  /// consists of `size` units of equal length. Empty: `size` counts elements.
  std::string units = {};
  FactorRole role = FactorRole::Other;
};

/// Whether `factor`, a group of dimensions that are split alike, can be split
/// into `parts` parts. If the factor's size is counted in units (groups of
/// elements that must not be split, such as heads), the number of units must be
/// divisible by `parts`. Otherwise the elements can be split unevenly, but each
/// part must have at least one element.
bool canSplit(const Factor &factor, int64_t parts);

/// The largest number of parts, at most `limit`, that `factor` can be split
/// into.
int64_t largestSplit(const Factor &factor, int64_t limit);

/// The factors of an operation, each a group of dimensions that must be split
/// alike. `operands[i][d]` is the index of the factor of dimension d of operand
/// i. The list is empty for an operand without dimensions.
struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<llvm::SmallVector<int64_t>> operands;
  llvm::SmallVector<llvm::SmallVector<int64_t>> results;

  /// The segments of a dimension: consecutive ranges of indices that are split
  /// separately, such as those of q, k and v in a dimension that holds all
  /// three. A rank's shard consists of the rank's part of every segment.
  struct Segments {
    unsigned value,
        dim; ///< The indices of the operand or result, and of its dimension.
    llvm::SmallVector<int64_t> sizes; ///< In elements, in order.
  };
  llvm::SmallVector<Segments> operandSegments, resultSegments;

  /// The sizes, in elements, of the segments of dimension `dim` of an operand
  /// or a result. Segments are consecutive ranges of the dimension that are
  /// split separately, such as q, k and v. Empty: one segment.
  llvm::ArrayRef<int64_t> segmentsOfOperand(unsigned operand,
                                            unsigned dim) const;
  llvm::ArrayRef<int64_t> segmentsOfResult(unsigned result, unsigned dim) const;

  /// The index of the factor with this name, or -1.
  int64_t indexOf(llvm::StringRef name) const;
  /// The index of the first factor of this role, or -1.
  int64_t indexOf(FactorRole role) const;
  /// Whether the last dimensions of the operand and of the first result have
  /// the same factor. Then the result is split by features as the operand is.
  bool keepsFeatures(unsigned operand) const;
  /// Sets the size of the factor with this role to `size` units (groups of
  /// elements that must not be split). `units` is their name, such as "heads".
  void setUnits(FactorRole role, int64_t size, llvm::StringRef units);

  /// The rule as text: `([b,t,i],[i,o])->([b,t,o]) {b=4, t=64, i=768 reduction,
  /// ...}`.
  std::string str() const;
};

/// How ranks split an operation: for each factor of its sharding rule, the mesh
/// axes and the number of shards.
struct Split {
  ShardingRule rule;
  llvm::SmallVector<mlir::ArrayAttr> axes; ///< The axes of each factor.
  llvm::SmallVector<int64_t> parts; ///< The number of parts of each factor.

  /// The mesh axes that split the factor of this role; null if ranks do not
  /// split it.
  mlir::ArrayAttr axesOf(FactorRole role) const;
  /// The number of parts into which the factor of this role is split. The rule
  /// must have a factor of this role.
  int64_t partsOf(FactorRole role) const;
};

/// Builds a rule from one letter per dimension, such as buildRule(op, {"bti",
/// "io", "o"}, {"bto"}, whole = "t"). A letter in no result is a reduction; a
/// letter in `whole` must not be split. The letters b, t, h, c, i, o and v give
/// a factor its role. Sizes come from the types. Operands after the end of the
/// list get no factors.
ShardingRule buildRule(mlir::Operation *op,
                       llvm::ArrayRef<std::string> operands,
                       llvm::ArrayRef<std::string> results,
                       llvm::StringRef whole = "");

/// Checks that the rule covers every dimension of every ranked operand and
/// result. The dimensions of a factor must have the same size, units must
/// divide their dimensions evenly, and segments must add up to their dimension.
mlir::LogicalResult verifyRule(mlir::Operation *op, const ShardingRule &rule);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_SHARDINGRULE_H
