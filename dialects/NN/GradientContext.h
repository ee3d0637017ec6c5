//===- GradientContext.h - What a derivative rule may ask -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_GRADIENTCONTEXT_H
#define HEDDLE_DIALECTS_NN_GRADIENTCONTEXT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace heddle::nn {

/// Handed to `buildGradient`. Forward values are named as they stand in the
/// forward function; the context knows where they are to be had in the backward
/// one (saved, recomputed, or an argument).
class GradientContext {
public:
  virtual ~GradientContext() = default;

  /// The gradient of a result of the forward operation; null when the loss does
  /// not depend on it.
  virtual mlir::Value gradientOf(mlir::Value result) = 0;
  /// Whether a gradient is wanted for this forward value.
  virtual bool isActive(mlir::Value operand) = 0;
  /// The forward value as it can be read in the backward function.
  virtual mlir::Value forward(mlir::Value value) = 0;
  /// Adds one contribution to the gradient of an activation.
  virtual void add(mlir::Value operand, mlir::Value gradient) = 0;
  /// What a contribution to a parameter's gradient must be added to, or null
  /// when it is the first. The sum is handed back by `setAccumulated`.
  virtual mlir::Value accumulator(mlir::Value operand) = 0;
  virtual void setAccumulated(mlir::Value operand, mlir::Value sum) = 0;
};

/// The type of a parameter's gradient: its shape in f32, in which sums are
/// made.
mlir::RankedTensorType gradientType(mlir::Type parameter);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_GRADIENTCONTEXT_H
