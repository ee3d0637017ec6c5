//===- TraceFile.h - Reads the traces of a run ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the trace files of a training run, for `heddle explain --trace`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_TRACEFILE_H
#define HEDDLE_TOOLS_HEDDLE_TRACEFILE_H

#include "ScheduleChart.h"
#include "heddle/PlanFormat/Plan.h"

namespace heddle::driver {

/// Measured times of a pipeline stage: medians over its ranks and steps.
struct MeasuredStage {
  /// The recorded order of fragments (empty without a pipeline), and the
  /// seconds of each kind, without waits for other stages.
  StageLine line;
  /// Seconds of a step in which the stage only waits: for collectives, and for
  /// messages of other stages.
  double collectives = 0, transfers = 0;
};

/// Reads the files of all ranks that `--trace path` wrote. Returns an entry for
/// each stage. Throws H0388 if a file is not a trace, or is of another plan.
std::vector<MeasuredStage> readTraces(const std::string &path,
                                      const plan::Plan &plan);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_TRACEFILE_H
