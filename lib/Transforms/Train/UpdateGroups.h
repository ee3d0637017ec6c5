//===- UpdateGroups.h - Parameters that are updated alike -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_TRAIN_UPDATEGROUPS_H
#define HEDDLE_LIB_TRANSFORMS_TRAIN_UPDATEGROUPS_H

#include "Optimizers/Optimizers.h"

namespace heddle::train {

/// Parameters for which the optimizer has the same settings. The group has one
/// bucket for their values, one for their gradients, one for their copies in
/// compute precision, and one for each state of the optimizer.
struct UpdateGroup {
  std::string name;
  bool decays = false;
  std::optional<double> ownDecay; ///< The group's weight decay, if it has one.
  /// Whether the copies are quantized. The update then computes no copies.
  bool isQuantized = false;
  double rate = 1; ///< The factor by which the learning rate is multiplied.
  llvm::SmallVector<nn::StateOp> parameters;
  nn::BucketOp values, gradients, copies;
  llvm::SmallVector<nn::BucketOp> states;  ///< The states of the optimizer.
  llvm::SmallVector<nn::BucketOp> numbers; ///< Its numbers of each parameter.

  /// Whether the optimizer update reads the weight decay from an input of the
  /// step.
  bool takesDecay() const { return decays && !ownDecay; }
};

/// Divides the parameters that a step trains into groups: parameters with
/// weight decay, parameters without it, and one group for each option
/// `--group` of the compilation. Parameters that only some of several train
/// programs train have groups of their own.
llvm::SmallVector<UpdateGroup, 0> groupParameters(nn::ModelOp model,
                                                  nn::StepOp step);

/// Adds the states that the optimizer has for the parameters of a group, and
/// the group's buckets.
void addBuckets(nn::StepOp step, UpdateGroup &group,
                const Optimizer &optimizer);

} // namespace heddle::train

#endif // HEDDLE_LIB_TRANSFORMS_TRAIN_UPDATEGROUPS_H
