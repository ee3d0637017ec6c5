//===- ScheduleChart.h - When the stages of a pipeline do what --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H
#define HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H

#include "heddle/PlanFormat/Command.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle::driver {

/// A fragment in a pipeline stage's line of the schedule.
struct LineEntry {
  plan::Fragment fragment; ///< Its kind and chunk.
  int64_t microBatch = 0;
};

/// Parses an entry as traces and schedules write it, such as `F3/1`.
std::optional<LineEntry> readEntry(const std::string &word);

/// A pipeline stage's line of the schedule, without the optimizer.
struct StageLine {
  std::vector<LineEntry> line;
  /// How long each kind of fragment (`F`, `B/1`) takes, in any unit.
  std::map<std::string, double> times;
  /// From the end of a fragment until another stage has its result.
  double transfer = 0;
  /// Of all fragments, one after the other.
  double seconds() const;
  /// The line as schedules are written: `F0 F1 B0 B1`.
  std::string text() const;
};

/// The fragments of a step when each begins as early as it can.
struct Timetable {
  struct Cell {
    std::string name; ///< As the schedule writes it.
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Cell>> stages;
  std::vector<double> idle; ///< The share in which each stage does nothing.
  double makespan = 0;

  /// The mean of `idle`: the bubble.
  double meanIdle() const;
};

/// Replays the schedule; empty when the lines are none.
Timetable replayLines(const std::vector<StageLine> &stages);

/// A row for each stage of at most `width` columns: a fragment's name, or its
/// letter where it is short, `-` while it runs, `.` while the stage is idle.
/// What does not fit is left out of the middle.
std::vector<std::string> drawChart(const Timetable &table, int64_t width);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H
