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

/// The measured times of a pipeline stage. Each is a median over the stage's
/// ranks and the recorded steps.
struct MeasuredStage {
  /// The order in which the stage ran its forward and backward passes. It is
  /// empty without a pipeline. The times of the passes do not include waits for
  /// other stages.
  StageLine line;
  /// The seconds of a step in which the stage only waits: for collectives, and
  /// for messages from other stages.
  double collectives = 0, transfers = 0;
  double seconds = 0; ///< From the begin of a step's first command to its end.
  /// The seconds of a step in which kernels of a module ran. The path of a
  /// module of a layer has `*` in place of the layer's index, and the time is
  /// that of all layers.
  std::map<std::string, double> modules;
};

/// Reads the trace files that all ranks of a run wrote with `--trace path`.
/// Returns an entry for each pipeline stage. Throws H0388 if a file is no
/// trace, or is a trace of another plan.
std::vector<MeasuredStage> readTraces(const std::string &path,
                                      const plan::Plan &plan);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_TRACEFILE_H
