//===- Optimizers.h - How parameters are updated ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An optimizer is one file of this folder: what it keeps of each parameter, and
// the arithmetic of one element. Passes know no optimizer; they see nn.update,
// and states with the role `optimizer`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_OPTIMIZERS_OPTIMIZERS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_OPTIMIZERS_OPTIMIZERS_H

#include "dialects/Dist/Strategy.h"
#include "dialects/NN/Scalars.h"

namespace heddle::train {

/// One element, as values of the body of nn.update.
struct Element {
  mlir::Value parameter;
  mlir::Value gradient;               ///< Clipped.
  mlir::ArrayRef<mlir::Value> states; ///< As `Optimizer::states` lists them.
  mlir::Value lr;
  mlir::Value weightDecay; ///< Null: none.
  /// 1 - beta^t after t updates, as `Optimizer::powers` lists the betas.
  mlir::ArrayRef<mlir::Value> corrections;
  /// What `Optimizer::direction` gives, times the parameter's factor; null for
  /// an optimizer without them.
  mlir::Value scaled;
};

/// A number that is multiplied by `factor` in each update, from 1 on.
struct Power {
  llvm::StringRef quantity; ///< Its name.
  double factor = 0;
};

struct Optimizer {
  llvm::StringRef rule; ///< Its name in nn.update.
  /// What it keeps of each parameter: as large as that, in f32, zeros at first.
  llvm::SmallVector<llvm::StringRef> states;
  llvm::SmallVector<Power> powers;
  /// Builds the new parameter and the new states.
  llvm::SmallVector<mlir::Value> (*update)(nn::Scalars &s, const Element &x,
                                           const dist::Strategy &strategy);
  /// For an optimizer that scales what it does to a parameter by norms over all
  /// its elements: what is scaled, and the factor, of the sums of squares of
  /// the parameter and of the direction. Null for others.
  mlir::Value (*direction)(nn::Scalars &s, const Element &x,
                           const dist::Strategy &strategy) = nullptr;
  mlir::Value (*factor)(nn::Scalars &s, mlir::Value parameter,
                        mlir::Value direction,
                        const dist::Strategy &strategy) = nullptr;
};

/// The optimizer that the strategy names.
Optimizer optimizerOf(const dist::Strategy &strategy);

Optimizer adamW(const dist::Strategy &strategy);
Optimizer lamb(const dist::Strategy &strategy);
Optimizer lion(const dist::Strategy &strategy);

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_OPTIMIZERS_OPTIMIZERS_H
