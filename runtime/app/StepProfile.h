//===- StepProfile.h - A training step by module ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `BINARY train --profile` reports about a step of one rank.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_STEPPROFILE_H
#define HEDDLE_RUNTIME_APP_STEPPROFILE_H

#include "heddle/runtime/app/JobRate.h"
#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/app/StepParts.h"
#include "heddle/runtime/core/ModuleCosts.h"

#include <nlohmann/json.hpp>
#include <string>

namespace heddle::rt {

/// A measured training step of a rank.
struct StepProfile {
  int64_t step = 0; ///< The number of the step, counted from 1.
  int64_t rank = 0;
  /// The modules, with their costs in the forward pass of a micro-batch, and
  /// with their times in the step.
  ModuleNode model;
  StepParts parts;
};

/// Divides the times of a step among modules and other parts. `times` has an
/// element for each command of `commands`, the step's program.
StepProfile profileStep(const plan::Plan &plan, const CommandList &commands,
                        const LaunchTime *times);

/// The profile as JSON. `modules` has the modules that are at most
/// `options.depth` levels below the model.
nlohmann::json profileJson(const plan::Plan &plan, const StepProfile &profile,
                           const JobRate &rate, const ProfileOptions &options);

/// The profile as text: the fields of DeepSpeed's profiler, the parts of the
/// step, the tree of modules, and the `options.top` most expensive modules of
/// each level.
std::string profileText(const plan::Plan &plan, const StepProfile &profile,
                        const JobRate &rate, const ProfileOptions &options);

/// The commands of the step as nested calls of modules, in the file format of
/// speedscope (https://www.speedscope.app).
nlohmann::json flameJson(const plan::Plan &plan, const CommandList &commands,
                         const LaunchTime *times, int64_t step, int64_t rank);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPPROFILE_H
