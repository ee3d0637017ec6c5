//===- ScheduleChart.h - How long stages wait -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H
#define HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H

#include <map>
#include <string>
#include <vector>

namespace heddle::driver {

/// A pipeline stage's line of the schedule, without the optimizer.
struct StageLine {
  std::string line;
  /// How long each kind of fragment (`F`, `B/1`) takes, in any unit.
  std::map<std::string, double> times;
};

/// The share of a step in which each stage does nothing, when every fragment
/// starts as early as it can; empty when the lines are no schedule.
std::vector<double> idleShares(const std::vector<StageLine> &stages);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H
