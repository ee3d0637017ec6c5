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
  /// Makes the timeline of a step. If `trace` is not "", the order and the
  /// times of fragments come from the trace files of a run (see readTraces).
  /// Otherwise the times come from `cost`, if this knows them from a cluster
  /// file. If not, they are the numbers of floating-point operations of the
  /// fragments.
  StepSchedule(const plan::Plan &plan, const std::string &trace,
               const cost::ClusterCost *cost);

  /// Adds `schedule`, `schedule_lines`, `bubble`, `idle`, `fragment_times`,
  /// `times_from` (flops, cluster, trace); unless `times_from` is flops, also
  /// `exposed`.
  void addTo(nlohmann::json &json) const;
  void print() const;
  /// Returns the seconds of a step if times come from a cluster file, otherwise
  /// 0.
  double stepSeconds() const { return step; }

private:
  /// The seconds of a step in which a stage computes nothing, divided by what
  /// the stage waits for.
  struct Exposed {
    double collectives = 0, transfers = 0, copies = 0;
  };

  void usePlan(const plan::Plan &plan, const cost::ClusterCost *cost);
  void printTimes() const;
  std::string formatTime(double time) const;

  std::string kind;              ///< The schedule's name, such as `1f1b`.
  std::string from;              ///< Source of the times.
  std::vector<StageLine> stages; ///< Empty without a pipeline.
  std::vector<Exposed> exposed;  ///< For each stage, also if there is only one.
  Timetable table;
  double step = 0;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H
