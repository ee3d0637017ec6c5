//===- Reverse.h - Reverse-mode differentiation of a block ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode differentiation of a block, and of the functions that it calls.
// The pass train-differentiate applies it to the training step.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_REVERSE_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_REVERSE_H

#include "dialects/NN/NNDialect.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::train {

/// Which value a call of a backward function passes for one of the arguments.
struct BackwardArgument {
  enum class Kind {
    Forward,    ///< Argument `index` of the original function.
    ResultGrad, ///< The gradient of result `index` of the original function.
    Sum,        ///< The sum so far of the gradient of argument `index`.
    Saved,      ///< A saved activation: result `index` of the forward function.
  } kind;
  unsigned index;
};

/// The derivative of a function: a forward function that also returns saved
/// values, and a backward function that takes them.
struct FunctionPair {
  nn::FuncOp forward, backward;
  unsigned numResults = 0; ///< The number of the original function's results.
  llvm::SmallVector<BackwardArgument> arguments;
  /// For each result of `backward`, the index of the original function's
  /// argument whose gradient it is.
  llvm::SmallVector<unsigned> gradients;
};

/// The properties of a call on which its derivative depends. Calls with equal
/// properties share one FunctionPair.
struct CallKind {
  nn::FuncOp callee;
  nn::Recompute policy = nn::Recompute::None;
  llvm::SmallVector<bool> active;    ///< Whether each argument has a gradient.
  llvm::SmallVector<bool> parameter; ///< Whether each argument is a parameter.
  /// For each result: whether an operation other than nn.keep (which only dumps
  /// it) reads it. A result that no other operation reads has no gradient.
  llvm::SmallVector<bool> used;
  /// Whether the backward function adds gradients of parameters to sums that
  /// the call passes to it.
  bool sums = false;
  std::string key() const;
};

/// Builds the forward and backward functions of calls. Calls of the same
/// function for which, for example, the same arguments have gradients share one
/// pair of functions (all such properties are in CallKind). Each pair is built
/// only once.
class FunctionPairs {
public:
  explicit FunctionPairs(nn::ModelOp model) : model(model) {}
  FunctionPair &get(const CallKind &kind);

  /// The number of values that all forward functions together save.
  unsigned numSaved = 0;
  /// Whether there was an error: the loss depends on an operation without a
  /// derivative.
  bool failed = false;

private:
  void build(const CallKind &kind, FunctionPair &pair);
  nn::ModelOp model;
  std::map<std::string, FunctionPair> pairs;
};

/// Differentiates one block in reverse mode: the training step's micro-batch,
/// or the body of a layer function. `keyOf` maps a value that is a parameter to
/// a key that identifies the parameter, and any other value to null. With
/// `sums`, the gradient of a parameter is added to the value that `initialSum`
/// returns for it.
class Reverse : public nn::GradientContext {
public:
  using Key = const void *;
  using Sums = llvm::MapVector<Key, mlir::Value>;
  Reverse(mlir::OpBuilder &builder, FunctionPairs &pairs,
          std::function<Key(mlir::Value)> keyOf,
          std::function<mlir::Value(mlir::Value)> initialSum, bool sums)
      : builder(builder), pairs(pairs), keyOf(std::move(keyOf)),
        initialSum(std::move(initialSum)), sums(sums) {}

  /// Finds the values of the block that depend on `seeds`. These are active:
  /// they have gradients.
  void findActive(mlir::Block &block, llvm::ArrayRef<mlir::Value> seeds);
  /// Replaces each call that depends on active values by a call of the forward
  /// function, which also returns saved activations.
  void rewriteCalls(mlir::Block &block);
  /// Builds the gradients of the operations `forward`, from the last to the
  /// first, at the builder's insertion point. If a gradient needs a value of
  /// the forward pass, it reads the value to which `mapping` maps it.
  void run(llvm::ArrayRef<mlir::Operation *> forward,
           const mlir::IRMapping &mapping);
  /// The gradient of a value, available after `run`; null if the value has
  /// none.
  mlir::Value gradientOf(mlir::Value result) override {
    return grads.lookup(result);
  }
  mlir::Value sumOf(Key key) { return totals.lookup(key); }
  /// The gradients of all parameters, in the order in which `run` has reached
  /// the parameters.
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
