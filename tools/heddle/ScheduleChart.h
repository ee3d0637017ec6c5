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

/// An entry of a stage's schedule: a forward or backward pass of one
/// micro-batch.
struct LineEntry {
  plan::Fragment fragment; ///< The fragment's kind and chunk.
  int64_t microBatch = 0;
};

/// Parses an entry of a schedule, for example `F3/1`: the forward pass of
/// micro-batch 3 through chunk 1 of the stage's layers. Traces and schedules
/// have entries in this form.
std::optional<LineEntry> readEntry(const std::string &word);

/// The forward and backward passes of a stage in a step, in order. The
/// optimizer is not included.
struct StageLine {
  std::vector<LineEntry> line;
  /// The time of each kind of pass, in any unit. The key is the kind and the
  /// chunk of layers, for example `F` or `B/1`.
  std::map<std::string, double> times;
  /// The time to send activations or their gradients to another stage.
  double transfer = 0;
  /// Returns the sum of the times of all passes in `line`.
  double seconds() const;
  /// Returns the line in the form in which schedules are written, for example
  /// `F0 F1 B0 B1`.
  std::string text() const;
};

/// The forward and backward passes of a step with their times. Each pass begins
/// as soon as its inputs are there and its stage is idle.
struct Timetable {
  struct Cell {
    std::string name; ///< The fragment's name in the schedule.
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Cell>> stages;
  std::vector<double> idle; ///< Share of the step in which each stage is idle.
  double makespan = 0;

  /// Returns the bubble of the schedule: the mean, over all stages, of the
  /// share of the step in which a stage is idle.
  double meanIdle() const;
};

/// Replays the schedule of all stages. Returns an empty timetable if `stages`
/// is empty.
Timetable replayLines(const std::vector<StageLine> &stages);

/// Draws one row for each stage, at most `width` columns wide. A forward or
/// backward pass is drawn as its name, followed by `-` while it runs. If there
/// is no room for the name, its first letter is drawn. `.` means that the stage
/// is idle. If the chart is too wide, its middle is left out.
std::vector<std::string> drawChart(const Timetable &table, int64_t width);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SCHEDULECHART_H
