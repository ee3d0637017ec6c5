//===- MeasuredSteps.h - The steps that a run measures ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures steps of a training run, as `--trace` and `--profile` ask.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MEASUREDSTEPS_H
#define HEDDLE_RUNTIME_APP_MEASUREDSTEPS_H

#include "StepProfile.h"
#include "Trace.h"
#include "heddle/runtime/app/JobRate.h"
#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/app/StepParts.h"

#include <chrono>
#include <string>
#include <vector>

namespace heddle::rt {

/// Measures the first steps of a run for its trace, one step for its profile,
/// and all steps if the log reports their parts. Other steps run without
/// measurements.
class MeasuredSteps {
public:
  /// `programs` are those that steps may run, `done` is the number of steps
  /// before the run. Throws H0199 if the step to profile is not a step of the
  /// run, and H0402 if a file cannot be written.
  MeasuredSteps(const TrainOptions &options, const plan::Plan &plan,
                const std::vector<const LoadedProgram *> &programs,
                int64_t done, int64_t rank);

  /// Whether the parts of `step` are measured. No other step may be pending
  /// when it begins or ends: its duration would include that of the other step.
  bool measures(int64_t step) const { return measuresAll || step == profiled; }
  /// Begins a step that runs `program`. Returns the array into which the step's
  /// launches write their times; null if the step is not measured.
  LaunchTime *beginStep(int64_t step, const LoadedProgram &program);
  /// Ends the step that `beginStep` began. If it is the step to profile, writes
  /// its profile; without a file, rank 0 prints it on stderr. `rate` has the
  /// peak for its MFU. Returns the parts of the step if they are measured.
  std::optional<StepParts> endStep(int64_t step, const JobRate &rate);
  /// Writes the trace. Returns a line about each file that the run has written,
  /// or that it could not write because it ended too early.
  std::vector<std::string> finish();

private:
  /// Writes the profile of the step that `endStep` has measured.
  void report(JobRate rate, StepProfile &profile);

  ProfileOptions given; ///< Those of the command line.
  ProfileOptions options;
  const plan::Plan &plan;
  const LoadedProgram *program = nullptr; ///< The program of the running step.
  int64_t rank;
  Trace trace;
  bool measuresAll;      ///< Whether all steps are measured.
  int64_t profiled = -1; ///< The number of the step to profile; -1: none.
  bool isReported = false;
  std::vector<LaunchTime> ownTimes; ///< Of steps that are not traced.
  LaunchTime *times = nullptr; ///< Of the running step; null: not measured.
  std::chrono::steady_clock::time_point begin;
  std::string file, flame; ///< This rank's files; "": none.
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MEASUREDSTEPS_H
