//===- StepLaunches.h - What steps with conditions launch -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts what a run of a program launches, depending on which layers it keeps.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_STEPLAUNCHES_H
#define HEDDLE_RUNTIME_CORE_STEPLAUNCHES_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::rt {

/// What a run of a program launches.
struct LaunchCounts {
  int64_t kernels = 0; ///< Launches of the plan's kernels.
  /// Launches of CUDA graphs; 0 in a plan for CPUs. If NCCL transports the data
  /// between ranks, it is all that a run launches, because the graphs contain
  /// the kernels.
  int64_t graphs = 0;
};

struct StepLaunches {
  LaunchCounts allKept;    ///< If all conditions are true.
  LaunchCounts allDropped; ///< If all conditions are false.
  /// The range over all values of the conditions.
  LaunchCounts fewest, most;
};

/// Counts the launches of `program`, a program of the pipeline stage that is
/// selected in `plan`. Graphs are counted for ranks that exchange data through
/// NCCL if the plan was compiled for that.
StepLaunches countLaunches(const plan::Plan &plan,
                           const plan::Program &program);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_STEPLAUNCHES_H
