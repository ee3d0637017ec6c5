//===- GradientContext.h - The interface of derivative rules ----*- C++ -*-===//
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

/// `buildGradient` of an operation gets this context from the pass that builds
/// the backward function. The operation asks for values of the forward
/// function. For each of them the context returns the value of the backward
/// function that equals it: a saved activation, a recomputed value or an
/// argument.
class GradientContext {
public:
  virtual ~GradientContext() = default;

  /// The gradient of `result`, a result of the forward operation; null if the
  /// loss does not depend on it.
  virtual mlir::Value gradientOf(mlir::Value result) = 0;
  /// Whether the loss depends on the forward value `operand`, so that its
  /// gradient is needed.
  virtual bool isActive(mlir::Value operand) = 0;
  /// The value in the backward function that equals the forward value `value`.
  virtual mlir::Value forward(mlir::Value value) = 0;
  /// Adds `gradient` to the gradient of the activation `operand`.
  virtual void add(mlir::Value operand, mlir::Value gradient) = 0;
  /// The gradient of the parameter `operand` that has been accumulated so far;
  /// null before the first contribution. The operation adds its own
  /// contribution, and passes the new sum to `setAccumulated`.
  virtual mlir::Value accumulator(mlir::Value operand) = 0;
  virtual void setAccumulated(mlir::Value operand, mlir::Value sum) = 0;
};

/// The type of a parameter's gradient: the parameter's shape in f32, because
/// gradients are summed over micro-batches.
mlir::RankedTensorType gradientType(mlir::Type parameter);

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_GRADIENTCONTEXT_H
