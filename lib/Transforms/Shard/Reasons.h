//===- Reasons.h - Why values are sharded as they are -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects and prints why each value has its sharding. The option
// `print-reasons` of passes and the compiler's `--print-sharding-reasons` ask
// for it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_REASONS_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_REASONS_H

#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::shard {

/// Describes a sharding, as `data on dim 0, a partial sum over tensor`.
std::string describe(dist::TensorShardingAttr sharding);

/// Describes what a reshard from one sharding to another does, as `adds up over
/// tensor` or `gathers over data`.
std::string describeReshard(dist::TensorShardingAttr from,
                            dist::TensorShardingAttr to);

/// Names an operation by module path and kind: `h.3.mlp.c_fc (nn.linear)`.
std::string nameOf(mlir::Operation *op);
/// The name of an nn.add that now does an addition which `op` did before. It
/// has the module path of `op`.
std::string nameOfAddition(mlir::Operation *op);

/// Why an axis of the mesh splits a factor of an operation (dimensions of
/// operands and results that are split alike).
struct Origin {
  mlir::Value operand;  ///< The operand that the axis already splits, or null.
  llvm::StringRef rule; ///< The reason if `operand` is null.
  std::string factor;   ///< The factor of the operation that the axis splits.
  bool summed = false;  ///< Whether results are partial sums over the axis.
};
using Origins = llvm::MapVector<mlir::Attribute, Origin>;

/// A report that says why values have their shardings. It consists of lines
/// `NAME: SHARDING: REASON`, in the order in which they are added. Lines that
/// differ only in the number of a layer are merged into one, with `*` for the
/// number.
class Reasons {
public:
  void add(const llvm::Twine &name, dist::TensorShardingAttr sharding,
           const llvm::Twine &reason);
  /// Prints all lines of the report and then removes them, because the pass may
  /// process another model next.
  void print(llvm::raw_ostream &os);

  /// Adds a line to the report for an input of an nn.step, for example of the
  /// training step.
  void addInput(mlir::BlockArgument argument,
                dist::TensorShardingAttr sharding);
  /// Adds a line to the report for an argument of a function. `from` is the
  /// operand that the first call of the function passes for the argument. The
  /// sharding of `from` decides the argument's sharding.
  void addArgument(mlir::BlockArgument argument,
                   dist::TensorShardingAttr sharding, mlir::Value from);
  void addResult(mlir::Operation *op, dist::TensorShardingAttr sharding,
                 const llvm::Twine &reason);
  /// Adds a line to the report for the addition of an init (an operand that a
  /// result of `op` is added to) that was moved after the reduction of the
  /// result.
  void addAddition(mlir::Operation *op, dist::TensorShardingAttr sharding);
  void addResults(mlir::Operation *op, mlir::ArrayAttr shardings,
                  const Origins &origins);
  /// Adds a line to the report for a reshard of `value`. `op` is the reshard if
  /// it exists in the IR already. Otherwise `op` is the operation that will
  /// read the resharded value. `reason` names the operation that needs the
  /// reshard.
  void addReshard(mlir::Operation *op, mlir::Value value,
                  dist::TensorShardingAttr from, dist::TensorShardingAttr to,
                  const llvm::Twine &reason);

private:
  /// The name of the state from which `value` is read. If it is not read from a
  /// state, the name of the operation that computes it.
  std::string nameOf(mlir::Value value) const;

  struct Line {
    /// The report's line with `*` in place of layer numbers. It is the same for
    /// all layers whose lines are merged.
    std::string shared;
    std::string text;      ///< The line of the first layer that has it.
    bool isShared = false; ///< Whether other layers have the same line.
  };
  std::vector<Line> lines;
  /// Maps the text `Line::shared`, which has no layer numbers, to the index of
  /// its line in `lines`. This finds a line that differs only in the layer
  /// number.
  llvm::StringMap<size_t> numbers;
  /// If calls of a function pass a state for an argument: maps the argument to
  /// the state's name. The report uses this name for the argument.
  llvm::DenseMap<mlir::Value, std::string> names;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_REASONS_H
