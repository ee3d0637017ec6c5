//===- FrozenStates.h - Parameters that were frozen -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_FROZENSTATES_H
#define HEDDLE_RUNTIME_APP_FROZENSTATES_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/io/Checkpoint.h"

#include <set>
#include <string>

namespace heddle::rt {

/// Returns the prefix of an optimizer state's tensors in a checkpoint, such as
/// `exp_avg.`. A checkpoint calls a tensor `exp_avg.<parameter>`, and a plan
/// calls it `<parameter>.exp_avg`.
std::string checkpointPrefix(const plan::State &state);

/// Returns the parameters that were frozen in the run that wrote the
/// checkpoint: the checkpoint has optimizer states of other parameters, but not
/// of these.
std::set<std::string> frozenIn(const io::Checkpoint &checkpoint,
                               const plan::Plan &plan);

/// Returns the states with the errors of compressed averages that begin at
/// zero: with `all` each of them. Otherwise none, or each of them if some do
/// not fit, as of another number of ranks or with other buckets.
std::set<std::string> errorsThatBegin(const plan::Plan &plan,
                                      const io::Checkpoint &checkpoint,
                                      bool all);
/// Throws H0335 if states of the optimizer begin at zero (`begin`) in a phase
/// of the training after the first, in which moments do not change any more.
void requireMoments(const plan::Plan &plan, int64_t updates, bool begin);

/// Warns that such errors start from zero.
void warnOfOtherRanks();

/// Warns that the optimizer states of the parameters `frozen` start from zero.
void warnOfFrozen(const std::set<std::string> &frozen);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_FROZENSTATES_H
