//===- RunChoices.h - What a run may change in a plan -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names for what a run of a binary can choose, such as hyperparameters of
// training or the number of threads. The compiler and the runtime share these
// names.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_RUNCHOICES_H
#define HEDDLE_PLANFORMAT_RUNCHOICES_H

#include "heddle/PlanFormat/Plan.h"

#include <optional>
#include <string>
#include <string_view>

namespace heddle::plan {

/// Names of the inputs through which a training step gets hyperparameters other
/// than the learning rate. These inputs have the role PortRole::Value.
inline constexpr char weightDecayPort[] = "weight_decay";
inline constexpr char maxNormPort[] = "max_norm";
inline bool isRunNumber(std::string_view name) {
  return name == weightDecayPort || name == maxNormPort;
}

/// The name of a state with one f32. A step whose loss or gradient norm is not
/// finite sets it to 1; with a loss scale, only a step after which the scale
/// can fall no further. While it is 1, steps do not update parameters. The
/// runtime resets it to 0.
inline constexpr char nonfiniteState[] = "nonfinite";

/// The name of a state with one f64: how many updates the device has made since
/// the run began, which is less than the number of steps if steps were skipped.
/// The runtime sets it when a run begins.
inline constexpr char updatesState[] = "updates";

/// Names of states with one f32 each, which training steps with a loss scale
/// advance: the loss scale, how many further overflows its hysteresis allows
/// before it is halved, and the number of steps without overflow.
inline constexpr char lossScaleState[] = "loss_scale";
inline constexpr char lossScaleLeftState[] = "loss_scale_hysteresis";
inline constexpr char lossScaleStepsState[] = "loss_scale_steps";
/// A key of `Plan::strategy`: how the loss scale begins and changes. Absent if
/// the binary does not scale the loss.
inline constexpr char lossScaleKey[] = "loss_scale";

/// Names of two uses of memory in the memory report. The first is the scratch
/// memory of a CPU's threads. The second is the part of the arena that is
/// unused at the time of peak use.
inline constexpr char scratchOwner[] = "scratch of threads";
inline constexpr char unusedOwner[] = "not used at the peak";

/// Sets the size of the arena (of the pipeline stage that `plan` has selected)
/// to what a run with `threads` threads needs, because each thread has scratch
/// memory.
void setThreads(Plan &plan, int64_t threads);

/// A key of `Plan::strategy`, the settings of the compilation. If the key is
/// present, the user chose no number of threads, and the plan has as many
/// threads as the machine that compiled it has cores.
inline constexpr char threadsOfMachineKey[] = "threads_of_machine";
bool hasThreadsOfMachine(const Plan &plan);

/// The profile that a training run writes without flags.
struct ProfileChoice {
  int64_t step = 0;   ///< The step to profile, counted from 1.
  int64_t depth = -1; ///< Levels of modules to show; -1: all.
  int64_t top = 1;    ///< Modules to list by cost, for each level.
  std::string file;   ///< "": the profile is printed.
};

/// A key of `Plan::strategy`. Its value is a ProfileChoice. The key is present
/// if the user asked for a profile when the plan was compiled.
inline constexpr char profileKey[] = "profile";
std::optional<ProfileChoice> profileOf(const Plan &plan);
void setProfile(Plan &plan, const ProfileChoice &choice);

/// The reports that training runs make without flags.
struct ReportChoice {
  bool wallClockBreakdown = false;
  bool commsLogger = false;
  bool memoryBreakdown = false;
  /// The paths of logs; "": none.
  std::string logTensorBoard, logCsv;
};

/// A key of `Plan::strategy`. Its value is a ReportChoice. The key is present
/// if the user asked for a report when the plan was compiled.
inline constexpr char reportsKey[] = "reports";
ReportChoice reportsOf(const Plan &plan);
void setReports(Plan &plan, const ReportChoice &choice);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_RUNCHOICES_H
