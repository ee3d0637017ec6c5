//===- ScheduleChart.cpp - Timeline of a pipeline schedule ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replays the schedules of all pipeline stages, and draws each stage as a row
// of text.
//
//===----------------------------------------------------------------------===//

#include "ScheduleChart.h"
#include "dialects/Pipe/Schedule.h"
#include <algorithm>
#include <cmath>

using namespace heddle;

/// Returns the times of the forward and backward passes of each chunk of
/// layers. The time is 0 for a kind of pass that the stage does not have.
static pipe::StageTimes timesOf(const driver::StageLine &stage,
                                int64_t chunks) {
  using Kind = pipe::Action::Kind;
  auto time = [&](Kind kind, int64_t chunk) {
    auto found = stage.times.find(pipe::Action{kind, 0, chunk}.name());
    return found == stage.times.end() ? 0.0 : found->second;
  };
  pipe::StageTimes times;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    times.chunks.push_back({time(Kind::Forward, chunk),
                            time(Kind::Backward, chunk),
                            time(Kind::BackwardInput, chunk),
                            time(Kind::BackwardWeight, chunk), stage.transfer});
  return times;
}

std::optional<driver::LineEntry> driver::readEntry(const std::string &word) {
  auto read = pipe::parseStage(word);
  if (!read || read->size() != 1)
    return std::nullopt;
  const pipe::Action &action = read->front();
  return LineEntry{{action.kind, action.chunk}, action.microBatch};
}

std::string driver::StageLine::text() const {
  std::string text;
  for (const LineEntry &entry : line)
    text += (text.empty() ? "" : " ") +
            entry.fragment.name(std::to_string(entry.microBatch));
  return text;
}

double driver::StageLine::seconds() const {
  double sum = 0;
  for (const LineEntry &entry : line)
    sum += times.at(entry.fragment.name());
  return sum;
}

double driver::Timetable::meanIdle() const {
  double sum = 0;
  for (double share : idle)
    sum += share;
  return idle.empty() ? 0 : sum / double(idle.size());
}

driver::Timetable driver::replayLines(const std::vector<StageLine> &stages) {
  if (stages.empty())
    return {};
  pipe::Schedule schedule;
  int64_t microBatches = 0;
  for (const StageLine &stage : stages) {
    pipe::Line &line = schedule.emplace_back();
    for (const LineEntry &entry : stage.line)
      line.push_back(
          {entry.fragment.kind, entry.microBatch, entry.fragment.chunk});
    line.push_back({pipe::Action::Kind::Optimizer});
    for (const pipe::Action &action : line)
      microBatches = std::max(microBatches, action.microBatch + 1);
  }
  if (!pipe::checkSchedule(schedule, microBatches).empty())
    return {};
  std::vector<pipe::StageTimes> times;
  for (const StageLine &stage : stages)
    times.push_back(timesOf(stage, pipe::chunksOf(schedule)));
  pipe::Replay replay = pipe::replaySchedule(schedule, times);
  Timetable table;
  table.makespan = replay.makespan;
  for (size_t i = 0; i < stages.size(); ++i) {
    table.idle.push_back(replay.idleShare(i));
    auto &cells = table.stages.emplace_back();
    // The last entry of each schedule is the optimizer. It is left out, since
    // its time is not part of the schedule.
    for (size_t j = 0; j + 1 < schedule[i].size(); ++j) {
      double begin = replay.begins[i][j];
      cells.push_back(
          {schedule[i][j].str(), begin, begin + times[i].of(schedule[i][j])});
    }
  }
  return table;
}

/// Returns how many columns of the chart a unit of time gets. Every forward and
/// backward pass then has room for its name, unless the chart would be wider
/// than `width`. In this case each pass has at least one column.
static double scaleOf(const driver::Timetable &table, int64_t width) {
  double longest = 0, shortest = table.makespan;
  size_t letters = 0;
  for (const auto &cells : table.stages)
    for (const driver::Timetable::Cell &cell : cells) {
      longest = std::max(longest, cell.end - cell.begin);
      letters = std::max(letters, cell.name.size());
    }
  // Passes that are much shorter than the longest one do not determine the
  // scale: if they had room for their names, the chart would be too wide.
  for (const auto &cells : table.stages)
    for (const driver::Timetable::Cell &cell : cells)
      if (cell.end - cell.begin >= longest / 6)
        shortest = std::min(shortest, cell.end - cell.begin);
  double names = double(letters + 1) / shortest;
  if (names * table.makespan <= double(width))
    return names;
  return std::max(1 / shortest, double(width) / table.makespan);
}

std::vector<std::string> driver::drawChart(const Timetable &table,
                                           int64_t width) {
  std::vector<std::string> rows;
  if (!(table.makespan > 0))
    return rows;
  double scale = scaleOf(table, width);
  size_t columns = size_t(std::llround(table.makespan * scale));
  for (const auto &cells : table.stages) {
    std::string row(columns, '.');
    for (const Timetable::Cell &cell : cells) {
      size_t begin = size_t(std::llround(cell.begin * scale));
      size_t end = size_t(std::llround(cell.end * scale));
      std::string text = cell.name.size() <= end - begin
                             ? cell.name
                             : cell.name.substr(0, end > begin);
      text.resize(end - begin, '-');
      row.replace(begin, text.size(), text);
    }
    if (columns > size_t(width)) {
      size_t side = (size_t(width) - 5) / 2;
      row = row.substr(0, side) + " ... " + row.substr(columns - side);
    }
    rows.push_back(row);
  }
  return rows;
}
