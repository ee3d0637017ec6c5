//===- LearningRate.h - Reads the learning-rate schedule --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps the names of DeepSpeed's learning-rate schedules and parameters to the
// plan format. The import has checked the names that users write. The names are
// checked here again, because they may come from an IR dump that was edited.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_LEARNINGRATE_H
#define HEDDLE_SETTINGS_LEARNINGRATE_H

#include "heddle/PlanFormat/LearningRate.h"
#include "heddle/Settings/Settings.h"

namespace heddle::config {

/// Returns the schedule of the settings `scheduler` and `scheduler_params` in
/// the plan format. If parameters are unknown, missing or of a wrong type,
/// returns nullopt and sets `wrong` to the reason; dist::verifyStrategy then
/// refuses the settings of the compilation.
std::optional<plan::Scheduler> readScheduler(const Settings &settings,
                                             std::string &wrong);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_LEARNINGRATE_H
