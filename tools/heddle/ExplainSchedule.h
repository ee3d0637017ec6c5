//===- ExplainSchedule.h - What the stages do when --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H

#include "TraceFile.h"

namespace heddle::driver {

/// A training step as its schedule orders it, with planned or measured times.
class StepSchedule {
public:
  /// With the floating-point operations of each fragment as its time.
  explicit StepSchedule(const plan::Plan &plan);
  /// With the times, and the order, of the trace of a run (see readTraces).
  StepSchedule(const plan::Plan &plan, const std::string &trace);

  /// Adds `schedule`, `schedule_lines`, `bubble`, `idle`, `fragment_times`,
  /// `time_unit`, and from a trace `exposed`.
  void addTo(nlohmann::json &json) const;
  void print() const;

private:
  void printTimes() const;
  std::string formatTime(double time) const;

  std::string kind;              ///< As `1f1b`.
  std::vector<StageLine> stages; ///< None without a pipeline.
  std::vector<MeasuredStage> measured;
  Timetable table;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H
