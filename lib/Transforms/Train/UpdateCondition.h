//===- UpdateCondition.h - Whether a step updates parameters ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the condition of a training step's updates, and the factor of
// gradients.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_UPDATECONDITION_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_UPDATECONDITION_H

#include "dialects/NN/NNDialect.h"
#include "dialects/NN/Scalars.h"

namespace heddle::train {

/// Adds a state of the optimizer that belongs to no parameter, unless an
/// earlier train program has added it.
nn::StateOp addState(nn::StepOp step, llvm::StringRef name, mlir::Type type);
/// As `addState`, for a state that checkpoints have and that begins at `first`.
void addCheckpointedState(nn::StepOp step, llvm::StringRef name,
                          mlir::Type type, double first);

/// Returns `x` if it is finite, otherwise 0.
mlir::Value finiteOrZero(nn::Scalars &s, mlir::Value x);

/// The condition for an update: 1, or 0 if the step must not update anything.
/// It is 0 if the loss counts no label of the batch, or if the loss or `norm`,
/// the norm of the gradients, is not finite. Each rank counts the labels of its
/// own tokens. Sharding propagation inserts an all-reduce of these counts
/// before the comparison with 0, because the comparison is not linear.
///
/// `lossScale` is the loss scale of this step; null if there is none. With a
/// loss scale, a step that is not finite has overflowed, and the states of the
/// loss scale are advanced. Without, no later step updates anything either.
/// `factor` is the factor of gradients, which depends on the loss scale; it is
/// not read if there is none.
mlir::Value updateCondition(mlir::OpBuilder &builder, nn::StepOp step,
                            mlir::Value norm, mlir::Value lossScale,
                            mlir::Value factor);

/// Reads the loss scale, by which this step has multiplied the gradient of
/// the loss. Returns null if the model has none.
mlir::Value readLossScale(mlir::OpBuilder &builder, nn::StepOp step);

/// The factor by which the update multiplies gradients. For clipping this is
/// min(1, limit / (norm + 1e-6)), as in torch.nn.utils.clip_grad_norm_. It is
/// divided by the loss scale, by which the gradients and `norm` are
/// multiplied. `limit` or `lossScale` may be null, if there is none.
mlir::Value gradientFactor(mlir::OpBuilder &builder, mlir::Value norm,
                           mlir::Value limit, mlir::Value lossScale);

/// The factor of the errors that averages add to what they send: 1 if they are
/// of the tensor with the number `number`, otherwise 0, because the step before
/// has sent another tensor. Notes in a state that they are of this one if
/// `condition` holds.
mlir::Value keptErrors(mlir::OpBuilder &builder, nn::StepOp step,
                       int64_t number, mlir::Value condition);

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_UPDATECONDITION_H
