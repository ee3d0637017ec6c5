//===- Warnings.h - Warnings ------------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_WARNINGS_H
#define HEDDLE_RUNTIME_APP_WARNINGS_H

#include "heddle/PlanFormat/UpdateCounts.h"
#include "heddle/runtime/io/Diagnostic.h"

namespace heddle::rt {

class Job;

/// Prints code, message and help of a warning to stderr. The job continues.
void warn(const Diagnostic &diagnostic);

/// Compares the phases of the training with a run up to step `steps`, of which
/// `madeSteps` steps and the updates `made` are made. Throws H0108 if the run
/// goes beyond the updates that there are programs for. Warns of each phase
/// (H0416) that the run does not reach, such as that in which ranks send signs.
void checkPhases(Job &job, const plan::UpdateCounts &made, int64_t madeSteps,
                 int64_t steps);

/// Warns (H0418) if the config.json beside the weights describes another
/// computation than the binary although all shapes match: another number of
/// heads, epsilon or base of rotary positions. `directory` may be "" or have no
/// config.json.
void warnOfOtherModel(const Job &job, const std::string &directory);

/// Warns (H0143) if the checkpoint in `directory` was trained with layouts of
/// attention and the binary computes dense attention.
void warnOfDense(const Job &job, const std::string &directory);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WARNINGS_H
