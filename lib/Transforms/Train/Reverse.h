//===- Reverse.h - Reverse-mode differentiation of a block ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_REVERSE_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_REVERSE_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::train {

/// Where an argument of a backward function comes from at a call.
struct BackwardArgument {
  enum class Kind {
    Forward,    ///< Argument `index` of the forward function.
    ResultGrad, ///< The gradient of its result `index`.
    Sum,        ///< What the gradient of parameter argument `index` adds to.
    Saved,      ///< Result `index` of the forward function that saves.
  } kind;
  unsigned index;
};

/// The forward function that saves, and the backward one.
struct FunctionPair {
  nn::FuncOp forward, backward;
  unsigned numResults = 0; ///< Of the original function.
  llvm::SmallVector<BackwardArgument> arguments;
  /// For each result of `backward`, the argument that it is the gradient of.
  llvm::SmallVector<unsigned> gradients;
};

/// How one call is to be differentiated: what makes a pair of its own.
struct CallKind {
  nn::FuncOp callee;
  nn::Recompute policy = nn::Recompute::None;
  llvm::SmallVector<bool> active;    ///< Per argument.
  llvm::SmallVector<bool> parameter; ///< Per argument.
  /// Per result: whether it is more than kept. What is not has no gradient.
  llvm::SmallVector<bool> used;
  bool sums = false; ///< Gradients of parameters add to what is there.
  std::string key() const;
};

/// Makes the pairs, each once.
class FunctionPairs {
public:
  explicit FunctionPairs(nn::ModelOp model) : model(model) {}
  FunctionPair &get(const CallKind &kind);

  /// Values that all forward functions together save.
  unsigned numSaved = 0;
  /// A gradient was asked for that no operation gives; the error was reported.
  bool failed = false;

private:
  void build(const CallKind &kind, FunctionPair &pair);
  nn::ModelOp model;
  std::map<std::string, FunctionPair> pairs;
};

/// Reverse mode over one block: the training step's micro-batch, or the body of
/// a layer function. Parameters are found by `keyOf`, which is null for other
/// values.
class Reverse : public nn::GradientContext {
public:
  using Key = const void *;
  using Sums = llvm::MapVector<Key, mlir::Value>;
  Reverse(mlir::OpBuilder &builder, FunctionPairs &pairs,
          std::function<Key(mlir::Value)> keyOf,
          std::function<mlir::Value(mlir::Value)> initialSum, bool sums)
      : builder(builder), pairs(pairs), keyOf(std::move(keyOf)),
        initialSum(std::move(initialSum)), sums(sums) {}

  /// Marks as active what depends on `seeds` within the block.
  void findActive(mlir::Block &block, llvm::ArrayRef<mlir::Value> seeds);
  /// Replaces calls on active values by calls of forward functions that save.
  void rewriteCalls(mlir::Block &block);
  /// Builds the gradients of `forward`, last operation first, at the builder's
  /// place. `mapping` says where forward values are to be had there.
  void run(llvm::ArrayRef<mlir::Operation *> forward,
           const mlir::IRMapping &mapping);
  /// The gradient of a value, once `run` is done; null when there is none.
  mlir::Value gradientOf(mlir::Value result) override {
    return grads.lookup(result);
  }
  void setGradient(mlir::Value value, mlir::Value grad) { grads[value] = grad; }
  mlir::Value sumOf(Key key) { return totals.lookup(key); }
  /// Every parameter with a gradient, in the order in which they were reached.
  Sums &allSums() { return totals; }

  bool isActive(mlir::Value value) override { return active.contains(value); }
  mlir::Value forward(mlir::Value value) override {
    return mapping.lookupOrDefault(value);
  }
  void add(mlir::Value operand, mlir::Value gradient) override;
  mlir::Value accumulator(mlir::Value operand) override;
  void setAccumulated(mlir::Value operand, mlir::Value sum) override;

private:
  void differentiateCall(nn::CallOp call);
  bool checkDerivative(nn::DifferentiableOpInterface op);
  mlir::Value zeros(mlir::Location loc, mlir::Type type);

  mlir::OpBuilder &builder;
  FunctionPairs &pairs;
  std::function<Key(mlir::Value)> keyOf;
  std::function<mlir::Value(mlir::Value)> initialSum;
  bool sums;
  mlir::IRMapping mapping;
  llvm::DenseSet<mlir::Value> active;
  llvm::DenseMap<mlir::Value, mlir::Value> grads;
  Sums totals;
  llvm::DenseMap<mlir::Operation *, FunctionPair *> rewritten;
};

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_REVERSE_H
