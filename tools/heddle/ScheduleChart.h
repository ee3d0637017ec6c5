//===- ScheduleChart.h - Timeline of a pipeline schedule --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replays the schedules of all stages, and draws them as text for `heddle
// explain`.
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

/// An entry of a stage's schedule line.
struct LineEntry {
  plan::Fragment fragment; ///< The fragment's kind and chunk.
  int64_t microBatch = 0;
};

/// Parses an entry as traces and schedules write it, such as `F3/1`.
std::optional<LineEntry> readEntry(const std::string &word);

/// The schedule line of a stage, without the optimizer.
struct StageLine {
  std::vector<LineEntry> line;
  /// The time of each kind of fragment (`F`, `B/1`), in any unit.
  std::map<std::string, double> times;
  /// Time to send the result of a fragment to another stage.
  double transfer = 0;
  /// The sum of the times of all fragments.
  double seconds() const;
  /// The line as schedules are written: `F0 F1 B0 B1`.
  std::string text() const;
};

/// The fragments of a step, each at its earliest time.
struct Timetable {
  struct Cell {
    std::string name; ///< The fragment's name in the schedule.
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Cell>> stages;
  std::vector<double> idle; ///< Share of the step in which each stage is idle.
  double makespan = 0;

  /// The bubble: the mean of `idle`.
  double meanIdle() const;
};

/// Replays the schedule; empty if `stages` is empty.
Timetable replayLines(const std::vector<StageLine> &stages);

/// Draws a row for each stage, at most `width` columns wide. A fragment is its
/// name (or the name's first letter if there is no room), then `-` while it
/// runs. `.` means that the stage is idle. If the chart is too wide, its middle
/// is left out.
std::vector<std::string> drawChart(const Timetable &table, int64_t width);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H
