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
#include "heddle/Cost/ClusterCost.h"

namespace heddle::driver {

/// A training step as its schedule orders it, with planned or measured times.
class StepSchedule {
public:
  /// The times, and the order, of a run where `trace` names what it wrote (see
  /// readTraces); else the times of a cluster, where `cost` has them; else the
  /// floating-point operations of each fragment as its time.
  StepSchedule(const plan::Plan &plan, const std::string &trace,
               const cost::ClusterCost *cost);

  /// Adds `schedule`, `schedule_lines`, `bubble`, `idle`, `fragment_times`,
  /// `times_from` (flops, cluster, trace), and but for flops `exposed`.
  void addTo(nlohmann::json &json) const;
  void print() const;
  /// The seconds of a step by the times of a cluster; else 0.
  double stepSeconds() const { return step; }

private:
  /// Seconds of a step in which a stage waits for one of these and does nothing
  /// else.
  struct Exposed {
    double collectives = 0, transfers = 0, copies = 0;
  };

  void usePlan(const plan::Plan &plan, const cost::ClusterCost *cost);
  void printTimes() const;
  std::string formatTime(double time) const;

  std::string kind;              ///< As `1f1b`.
  std::string from;              ///< Where times come from.
  std::vector<StageLine> stages; ///< None without a pipeline.
  std::vector<Exposed> exposed;  ///< Of each stage, also of a single one.
  Timetable table;
  double step = 0;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINSCHEDULE_H
