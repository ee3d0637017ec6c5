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

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include <string>

namespace heddle::dist {

/// What happens to the results when a factor is split over an axis.
enum class FactorKind {
  Parallel,  ///< They are split too.
  Reduction, ///< It is in no result: they become partial sums over the axis.
  Combined, ///< It is in no result: the ranks combine what they have of it, and
            ///< the results are whole on each.
  Whole,    ///< It must not be split.
};

/// What a factor counts, for those who ask for it by what it is.
enum class FactorRole {
  Rows,       ///< b: rows of the batch.
  Tokens,     ///< t: positions of a row.
  Heads,      ///< h
  Features,   ///< c, and of products i (read) and o (made).
  Vocabulary, ///< v
  Other,
};

struct Factor {
  std::string name; ///< A short name: b, t, i, o, v ...
  int64_t size =
      0; ///< Elements of its dimensions; units where it counts those.
  FactorKind kind = FactorKind::Parallel;
  /// What it counts in place of elements ("heads"): a part has whole ones, and
  /// each of its dimensions is made of `size` pieces of equal length. Else
  /// empty.
  std::string units = {};
  FactorRole role = FactorRole::Other;
};

/// Whether `factor` can be split into `parts`: units evenly, elements such that
/// none but the last parts are shorter than the first.
bool canSplit(const Factor &factor, int64_t parts);

/// The largest number of parts, at most `limit`, that `factor` can be split
/// into.
int64_t largestSplit(const Factor &factor, int64_t limit);

/// `operands[i][d]` is the index of the factor of dimension d of operand i; an
/// empty list stands for an operand without dimensions (scalars, rank 0).
struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<llvm::SmallVector<int64_t>> operands;
  llvm::SmallVector<llvm::SmallVector<int64_t>> results;

  /// Sizes of the segments that a dimension is made of, in order. A part of the
  /// dimension is made of the same part of each of them.
  struct Segments {
    unsigned value, dim; ///< The number of the operand or result.
    llvm::SmallVector<int64_t> sizes;
  };
  llvm::SmallVector<Segments> operandSegments, resultSegments;

  /// The segments of dimension `dim` of an operand or a result; empty when it
  /// is one piece.
  llvm::ArrayRef<int64_t> segmentsOfOperand(unsigned operand,
                                            unsigned dim) const;
  llvm::ArrayRef<int64_t> segmentsOfResult(unsigned result, unsigned dim) const;

  /// The index of the factor with this name, or -1.
  int64_t indexOf(llvm::StringRef name) const;
  /// The index of the first factor of this role, or -1.
  int64_t indexOf(FactorRole role) const;
  /// Whether a split of the operand's last dimension is one of the first
  /// result's: its features go through the operation.
  bool keepsFeatures(unsigned operand) const;
  /// Makes the factor of this role count `size` of `units`.
  void setUnits(FactorRole role, int64_t size, llvm::StringRef units);

  /// Prints as `([b,t,i],[i,o])->([b,t,o]) {b=4, t=64, i=768 reduction, ...}`.
  std::string str() const;
};

/// How the factors of an operation's rule are split over ranks.
struct Split {
  ShardingRule rule;
  llvm::SmallVector<mlir::ArrayAttr> axes; ///< Of each factor.
  llvm::SmallVector<int64_t> parts;        ///< Into how many parts each.

  /// The axes that split the factor of this role; null where nothing does.
  mlir::ArrayAttr axesOf(FactorRole role) const;
  /// The parts of the factor of this role, which is there.
  int64_t partsOf(FactorRole role) const;
};

/// Builds a rule from letters, one per dimension, as
/// buildRule(op, {"bti", "io", "o"}, {"bto"}, whole = "t"). Letters that appear
/// in no result are reductions; b, t, h, c, i, o and v give a factor its role.
/// Sizes are taken from the types; operands beyond the list have no dimensions
/// that count.
ShardingRule buildRule(mlir::Operation *op,
                       llvm::ArrayRef<std::string> operands,
                       llvm::ArrayRef<std::string> results,
                       llvm::StringRef whole = "");

/// Checks that the rule speaks of every dimension of every ranked operand and
/// result, with equal sizes for equal factors, pieces of equal length for
/// units, and segments that fill their dimensions.
mlir::LogicalResult verifyRule(mlir::Operation *op, const ShardingRule &rule);

} // namespace heddle::dist

#endif // HEDDLE_DIALECTS_DIST_SHARDINGRULE_H
