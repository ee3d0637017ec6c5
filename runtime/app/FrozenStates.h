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

/// What of the optimizer begins with its first values when a run resumes from a
/// checkpoint, although the other states go on.
struct FirstValues {
  /// Parameters that were frozen in the run that wrote the checkpoint: it has
  /// optimizer states of other parameters, but not of these.
  std::set<std::string> parameters;
  /// States with the errors of compressed averages.
  std::set<std::string> errors;
};

/// Finds what begins with its first values. If `resetOptimizer`, all does, and
/// the result has only errors. Errors begin if `resetErrors`, if they are of
/// another optimizer, or if some do not fit, as of another number of ranks or
/// with other buckets. If `warns`, warns
/// of what the user has not asked for (H0414, H0415). Throws H0335 if moments
/// would begin in a phase in which they do not change any more.
FirstValues firstValuesIn(const io::Checkpoint &checkpoint,
                          const plan::Plan &plan, bool resetOptimizer,
                          bool resetErrors, bool warns);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_FROZENSTATES_H
