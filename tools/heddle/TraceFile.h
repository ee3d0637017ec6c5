//===- TraceFile.h - What a run measured ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_TRACEFILE_H
#define HEDDLE_TOOLS_HEDDLE_TRACEFILE_H

#include "ScheduleChart.h"
#include "heddle/PlanFormat/Plan.h"

namespace heddle::driver {

/// What the ranks of one pipeline stage measured; medians over ranks and steps.
struct MeasuredStage {
  /// The order of the fragments as it was recorded, empty where there are none,
  /// and the seconds of each kind without its waits for other stages.
  StageLine line;
  /// Seconds of a step in which nothing is computed: in collectives, and for
  /// messages of other stages.
  double collectives = 0, transfers = 0;
};

/// Reads what `--trace path` of a run of the plan wrote: the files of all
/// ranks. One entry for each stage. Throws H0388 for a file that is no such
/// trace, or that of another plan.
std::vector<MeasuredStage> readTraces(const std::string &path,
                                      const plan::Plan &plan);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_TRACEFILE_H
