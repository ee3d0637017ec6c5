//===- ExplainSchedule.h - The pipeline schedule of a step ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints when each stage computes, and how long it is idle.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H

#include "TraceFile.h"
#include "heddle/Cost/ClusterCost.h"

namespace heddle::driver {

/// The timeline of a training step, with estimated or measured times.
class StepSchedule {
public:
  /// Makes the timeline of a step from its forward and backward passes. If
  /// `trace` is not "", their order and times come from the trace files of a
  /// run (see readTraces). Otherwise `cost` estimates the times, unless it is
  /// null or lacks rates. In that case the number of floating-point operations
  /// of a pass is used as its time.
  StepSchedule(const plan::Plan &plan, const std::string &trace,
               const cost::ClusterCost *cost);

  /// Adds the fields `schedule`, `schedule_lines`, `bubble`, `idle`,
  /// `fragment_times` and `times_from` (`flops`, `cluster` or `trace`) to the
  /// JSON output of `heddle explain`. If times are in seconds, also adds
  /// `exposed`, the time of waits that no computation hides, and `step`, how
  /// the slowest stage spends a step.
  void addTo(nlohmann::json &json) const;
  void print() const;
  /// The seconds of a step: estimated with a cluster file, or measured. 0 if
  /// times are numbers of operations.
  double stepSeconds() const { return step.seconds; }
  /// The passes of all stages with their times; empty without a pipeline.
  const Timetable &timetable() const { return table; }
  /// The source of the times: `flops`, `cluster` or `trace`.
  const std::string &timesFrom() const { return from; }
  const std::string &name() const { return kind; }
  /// The measured times of modules, as in MeasuredStage, added up over stages.
  /// Empty without a trace.
  const std::map<std::string, double> &moduleTimes() const { return modules; }

private:
  /// The seconds of a step in which a stage only waits: for collectives, for
  /// messages of other stages, and for copies between kinds of memory.
  struct Exposed {
    double collectives = 0, transfers = 0, copies = 0;
  };
  /// A step of the stage that takes longest. All fields but `stage` are in
  /// seconds. `seconds` is the sum of the others.
  struct SlowestStage {
    int64_t stage = 0;
    double seconds = 0;
    double computation = 0; ///< Kernels, and what is not in the fields below.
    double collectives = 0, copies = 0; ///< Waits, as in Exposed.
    double pipeline = 0;                ///< The stage waits for other stages.
  };

  void usePlan(const plan::Plan &plan, const cost::ClusterCost *cost);
  void addStep(SlowestStage candidate);
  void printTimes() const;
  std::string formatTime(double time) const;

  std::string kind;              ///< The schedule's name, such as `1f1b`.
  std::string from;              ///< Source of the times.
  std::vector<StageLine> stages; ///< Empty without a pipeline.
  std::vector<Exposed> exposed;  ///< For each stage, also if there is only one.
  Timetable table;
  SlowestStage step;
  std::map<std::string, double> modules;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H
