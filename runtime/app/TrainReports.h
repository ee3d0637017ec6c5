//===- TrainReports.h - Reports on a training run ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `train` reports besides losses: its communication and its memory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TRAINREPORTS_H
#define HEDDLE_RUNTIME_APP_TRAINREPORTS_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/app/Progress.h"

#include <string>
#include <vector>

namespace heddle::rt {

/// A report: an event of the log, and lines for the console.
struct TrainReport {
  JsonLine event;
  std::vector<std::string> lines;
};

/// Returns `options` with the logs that the plan asks for and no flag names.
TrainOptions withLogs(TrainOptions options, const plan::Plan &plan);

/// Creates the directory of the table whose path the plan has, as DeepSpeed
/// does. Throws H0402.
void makeLogDirectory(const TrainOptions &options, const plan::Plan &plan);

class TrainReports {
public:
  /// `job` must outlive the object.
  TrainReports(const ReportOptions &options, Job &job);

  /// Adds the measured parts of a step to its report if the user asks for
  /// them. The time in which the step reads data and returns results is in none
  /// of the parts.
  void addParts(StepReport &report,
                const std::optional<StepParts> &parts) const;
  /// Begins to log communication. Called before the first step.
  void begin();
  /// Returns the reports for which the user asked. Called after the last step.
  /// Collective.
  std::vector<TrainReport> finish();

  /// Returns the bytes of memory that this rank has mapped, without offload
  /// files.
  int64_t mappedBytes();
  /// Returns the memory of the run as JSON: the bytes that the plan needs, the
  /// bytes that are mapped on this rank, and the bytes that are mapped on each
  /// rank. Bytes in offload files are listed separately. Collective.
  std::string peakBytes();

private:
  TrainReport reportCommunication();
  TrainReport reportMemory();

  Job &job;
  plan::ReportChoice choice;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TRAINREPORTS_H
