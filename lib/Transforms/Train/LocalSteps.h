//===- LocalSteps.h - Steps that replicas make by themselves ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In some phases of an optimizer replicas step by themselves between updates in
// which they synchronize. Each computes with parameters of its own then.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_LOCALSTEPS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_LOCALSTEPS_H

#include "UpdateGroups.h"

namespace heddle::train {

/// Lets the step compute with a replica's own values in place of the parameters
/// of the group. They are states that the step computes before its first
/// micro-batch, so that a checkpoint does not need them.
void readLocalParameters(nn::StepOp step, UpdateGroup &group,
                         const Optimizer &optimizer,
                         const dist::Strategy &strategy);

/// Adds the learning rate `lr` to the sum of those since replicas last
/// synchronized, if `condition` holds. If the step `synchronizes`, returns the
/// sum with this step's rate, and the sum begins anew afterwards. Otherwise
/// returns null.
mlir::Value addRate(mlir::OpBuilder &builder, nn::StepOp step, mlir::Value lr,
                    mlir::Value condition, bool synchronizes);

/// Writes zeros to the states of a bucket if `condition` holds. What all
/// replicas have alike must not be computed in one update with it: the state
/// differs between replicas.
void resetState(mlir::OpBuilder &builder, nn::BucketOp state,
                mlir::Value condition);

/// Brings the arguments of an element-wise operation's body into the order of
/// its operands. The arguments are elements of `read`. Those with the numbers
/// `first` come first, in this order, then those of the others that the body
/// reads. Returns the values of these others, and erases reads of states that
/// nothing needs.
llvm::SmallVector<mlir::Value> arrange(mlir::Block &body,
                                       llvm::ArrayRef<mlir::Value> read,
                                       llvm::ArrayRef<unsigned> first);

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_LOCALSTEPS_H
