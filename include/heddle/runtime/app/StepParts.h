//===- StepParts.h - How long the parts of a step took ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of a training step whose commands were measured.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_STEPPARTS_H
#define HEDDLE_RUNTIME_APP_STEPPARTS_H

#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/core/CommandList.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::rt {

/// How long the parts of a step took. Together they are the step.
struct StepParts {
  double seconds = 0; ///< Duration of the step.
  /// Kernels of modules in the forward pass, and in the backward pass with its
  /// recomputation.
  double forward = 0, backward = 0;
  /// Kernels that update parameters, or compute what updates need.
  double optimizer = 0;
  /// Waits for other ranks and for copies.
  double waits = 0;
  /// Copies and fills that nothing overlaps with.
  double copies = 0;
  /// The time of copies from and to files. It is not a part of the step,
  /// because these copies overlap with other commands.
  double fileCopies = 0;
  int64_t launches = 0; ///< Launches of kernels.
  /// The launches among these whose kernels compute for several modules.
  int64_t sharedLaunches = 0;
  bool skipsLayers = false; ///< Whether the step has dropped layers.
  /// The highest rate of a launch, in FLOPs of the model per second.
  double bestRate = 0;

  /// The duration minus all parts.
  double notCovered() const;
  /// The names of the parts, as in JSON, and their times.
  std::vector<std::pair<const char *, double>> list() const;
  /// Adds the parts to the log's line about the step.
  void addTo(JsonLine &line) const;
  /// Formats the parts on one line: `forward 12.300 ms, backward ...`.
  std::string text() const;
};

/// Receives a launch of a kernel that computes for modules, and its duration.
using ModuleLaunch = std::function<void(const LaunchInfo &info, bool isBackward,
                                        double seconds)>;

/// Adds up the measured times of a step's commands. Calls `launch`, if there is
/// one, for each launch of a kernel that computes for modules. The result has
/// no duration yet.
StepParts partsOfStep(const plan::Plan &plan, const CommandList &commands,
                      const LaunchTime *times, const ModuleLaunch &launch = {});

/// Whether a command copies from or to a file. Such copies overlap with other
/// commands even while a step is measured.
bool copiesFile(const plan::Command &command);

/// As `12.300 ms`.
std::string formatMilliseconds(double seconds);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STEPPARTS_H
