//===- Reasons.h - Why values are sharded as they are -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_REASONS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_REASONS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::shard {

/// What a sharding says, as `data on dim 0, a partial sum over tensor`.
std::string describe(dist::TensorShardingAttr sharding);

/// What has to be done to come from one sharding to the other, as `adds up over
/// tensor` or `gathers over data`.
std::string describeReshard(dist::TensorShardingAttr from,
                            dist::TensorShardingAttr to);

/// The operation as `h.3.mlp.c_fc (nn.linear)`.
std::string nameOf(mlir::Operation *op);
/// As that of an nn.add that stands where the operation is.
std::string nameOfAddition(mlir::Operation *op);

/// Why a computation's results are split over an axis.
struct Origin {
  mlir::Value operand;  ///< What came with it; or none, and
  llvm::StringRef rule; ///< what gave it.
  std::string factor;   ///< What it splits, in the operation's rule.
  bool summed = false;  ///< The results are partial sums over it.
};
using Origins = llvm::MapVector<mlir::Attribute, Origin>;

/// Lines `NAME: SHARDING: REASON` in the order in which they come. What differs
/// in the layer's number alone is one line, with `*` in its place.
class Reasons {
public:
  void add(const llvm::Twine &name, dist::TensorShardingAttr sharding,
           const llvm::Twine &reason);
  void print(llvm::raw_ostream &os) const;

  /// A step's input.
  void addInput(mlir::BlockArgument argument,
                dist::TensorShardingAttr sharding);
  /// A function's argument, which the first call of the function decides.
  void addArgument(mlir::BlockArgument argument,
                   dist::TensorShardingAttr sharding, mlir::Value from);
  void addResult(mlir::Operation *op, dist::TensorShardingAttr sharding,
                 const llvm::Twine &reason);
  /// What is added behind a sum that `op` makes.
  void addAddition(mlir::Operation *op, dist::TensorShardingAttr sharding);
  void addResults(mlir::Operation *op, mlir::ArrayAttr shardings,
                  const Origins &origins);
  /// A value that is resharded, for or by `op`; `reason` is what asked for it.
  void addReshard(mlir::Operation *op, mlir::Value value,
                  dist::TensorShardingAttr from, dist::TensorShardingAttr to,
                  const llvm::Twine &reason);

private:
  /// The state, or the operation and path, that a value is of.
  std::string nameOf(mlir::Value value) const;

  struct Line {
    std::string shared;    ///< With `*` for layers' numbers.
    std::string text;      ///< As it came first.
    bool isShared = false; ///< Other layers have it too.
  };
  std::vector<Line> lines;
  llvm::StringMap<size_t> numbers; ///< Of the lines, by `shared`.
  /// The states behind the arguments of functions.
  llvm::DenseMap<mlir::Value, std::string> names;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_REASONS_H
