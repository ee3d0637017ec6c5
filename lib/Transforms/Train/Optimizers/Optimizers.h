//===- Optimizers.h - How parameters are updated ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface of optimizers. Each optimizer is a file in this folder, which
// defines its states and how one element is updated. Passes do not know
// optimizers by name. They only see nn.update, and states with the role
// `optimizer`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_OPTIMIZERS_OPTIMIZERS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_OPTIMIZERS_OPTIMIZERS_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/NNDialect.h"
#include "dialects/NN/Scalars.h"
#include "heddle/PlanFormat/Phase.h"
#include <vector>

namespace heddle::train {

/// The values of one element in the body of nn.update.
struct Element {
  mlir::Value parameter;
  mlir::Value gradient; ///< The gradient after clipping.
  /// The values of the states, in the order of `Optimizer::states`.
  mlir::ArrayRef<mlir::Value> states;
  mlir::Value lr;
  mlir::Value weightDecay; ///< Null if weight decay does not apply.
  /// The bias corrections: 1 - beta^t after t updates, for each beta in
  /// `Optimizer::powers`.
  mlir::ArrayRef<mlir::Value> corrections;
  /// The result of `Scaling::direction`, multiplied by the result of
  /// `Scaling::factor` for the parameter. Null without a scaling.
  mlir::Value scaled;
  /// What the state that replicas exchange in a later phase was before; null
  /// unless `LaterPhase::readsBefore`.
  mlir::Value before;
  /// The sum of the learning rates since replicas last synchronized, with this
  /// update's; null unless they do in a phase that `LaterPhase::isLocal`.
  mlir::Value rates;
};

/// Builds a number from the values of one element.
using ElementFunction = mlir::Value (*)(nn::Scalars &s, const Element &x,
                                        const dist::Strategy &strategy);

/// A number of each parameter that depends on all its elements.
struct Reduction {
  enum Kind { SumOfSquares, Maximum } kind;
  ElementFunction of; ///< What is reduced; null: the parameter's elements.
};

/// How an optimizer, such as LAMB, scales the step of each parameter by numbers
/// that depend on all its elements.
struct Scaling {
  ElementFunction direction; ///< The step of an element before scaling.
  llvm::SmallVector<Reduction> reductions;
  /// Builds the factor of a parameter's direction from the results of the
  /// reductions and the values of `Optimizer::numbers`. Returns the factor, and
  /// the new values of the numbers.
  llvm::SmallVector<mlir::Value> (*factor)(nn::Scalars &s,
                                           llvm::ArrayRef<mlir::Value> reduced,
                                           llvm::ArrayRef<mlir::Value> numbers,
                                           const dist::Strategy &strategy);
};

/// A number that the optimizer has for each parameter: a state of rank 0, of
/// which every rank has all.
struct ParameterNumber {
  llvm::StringRef quantity; ///< The name of the state.
  double first;             ///< Its value before the first update.
};

/// A scalar state with a power of one beta of the optimizer: the state is 1 at
/// first, and each update multiplies it by `factor`, which is this beta.
struct Power {
  llvm::StringRef quantity; ///< The name of the state, such as "beta1_power".
  double factor = 0;
};

/// A state that the optimizer has for each parameter. It has the parameter's
/// shape, is f32, and starts with zeros.
struct ParameterState {
  /// The name of the state, such as "exp_avg".
  llvm::StringRef quantity;
  /// Which part of the state each replica of the parameter holds: what it may
  /// hold of the parameter, or the whole state.
  nn::Holding held;

  ParameterState(llvm::StringRef quantity,
                 nn::Holding held = nn::Holding::Parameter)
      : quantity(quantity), held(held) {}
  ParameterState(const char *quantity)
      : ParameterState(llvm::StringRef(quantity)) {}
};

/// A later phase of a run, in which the optimizer updates in another way, and
/// replicas exchange another tensor than the gradient, or the gradient in
/// another format.
struct LaterPhase {
  llvm::StringRef name;
  int64_t from;         ///< The first update of the phase.
  llvm::StringRef wire; ///< The format in which replicas send the tensor.
  /// Builds what a replica contributes to the exchanged tensor, from its own
  /// gradient. The replicas compute the mean of their contributions.
  mlir::Value (*contribution)(nn::Scalars &s, const Element &x,
                              const dist::Strategy &strategy);
  /// Builds the new values of the parameter and of the states `changed`, in
  /// this order. `Element::gradient` is the mean.
  llvm::SmallVector<mlir::Value> (*update)(nn::Scalars &s, const Element &x,
                                           const dist::Strategy &strategy);
  /// Which of the states the mean is the new value of, such as 0 for the first
  /// one. `update` gets it as the state's value, too.
  std::optional<size_t> exchanged = std::nullopt;
  llvm::SmallVector<size_t> changed = {};
  /// Which of the states is updated in place of the parameter, if the
  /// parameter does not change.
  std::optional<size_t> updated = std::nullopt;
  /// Which of the states become 0 in an update.
  llvm::SmallVector<size_t> reset = {};
  /// Whether replicas have steps of their own in the phase, and compute with
  /// `Optimizer::localParameter`.
  bool isLocal = false;
  /// At which updates the phase runs, if it shares them with another one that
  /// begins with the same update.
  plan::Interval every = {};
  /// A number for the exchanged tensor, if several phases exchange one. Errors
  /// of what an earlier phase has sent count as zero then.
  int64_t errorsOf = 0;
  int64_t to = 0; ///< The last update that can be made; 0: there is none.
  /// Whether `update` and `scaling` read what the exchanged state was before.
  bool readsBefore = false;
  /// Whether a replica sends one scale for all parameters, instead of one each.
  bool isJoint = false;
  /// Which of `Optimizer::numbers`, if any, is the root of the mean square that
  /// the exchanged state of a parameter had when the phase began; 0 before.
  /// What replicas send is divided by it.
  std::optional<size_t> normalizedBy = std::nullopt;
  /// How steps are scaled in the phase, if they are.
  std::optional<Scaling> scaling = std::nullopt;
};

/// What an optimizer has, and how it updates an element. Ranks exchange one
/// tensor before the update. It is the gradient: each replica holds summands of
/// it (nn::Holding::Replica), which are reduced to the elements that the rank
/// updates. In a later phase it may be a state. Powers and other numbers are
/// whole on every rank.
struct Optimizer {
  llvm::StringRef rule; ///< The optimizer's name in nn.update.
  llvm::SmallVector<ParameterState> states;
  llvm::SmallVector<Power> powers;
  /// Builds the operations that compute the new values of the parameter and of
  /// the states. Returns the new values in this order.
  llvm::SmallVector<mlir::Value> (*update)(nn::Scalars &s, const Element &x,
                                           const dist::Strategy &strategy);
  /// How steps are scaled in the first phase, if they are.
  std::optional<Scaling> scaling = std::nullopt;
  llvm::SmallVector<ParameterNumber> numbers = {};
  /// The phases after the first one, which is called "dense" if there are any.
  std::vector<LaterPhase> later = {};
  /// The interval of dense updates, if a later phase begins with update 1, too.
  plan::Interval dense = {};
  /// How many of the last states are of later phases only.
  size_t laterStates = 0;
  /// Builds what a replica computes with in place of a parameter in phases with
  /// steps of its own.
  ElementFunction localParameter = nullptr;
};

/// The optimizer that the strategy (the settings of the compilation) names.
Optimizer optimizerOf(const dist::Strategy &strategy);

Optimizer adamW(const dist::Strategy &strategy);
Optimizer lamb(const dist::Strategy &strategy);
Optimizer lion(const dist::Strategy &strategy);
Optimizer oneBitAdam(const dist::Strategy &strategy);
Optimizer oneBitLamb(const dist::Strategy &strategy);
Optimizer zeroOneAdam(const dist::Strategy &strategy);

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_OPTIMIZERS_OPTIMIZERS_H
