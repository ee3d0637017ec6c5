//===- ExplainSchedule.cpp - What the stages do when ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainSchedule.h"
#include "ExplainText.h"
#include <iostream>
#include <set>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// Floating-point operations of one run of a sequence.
static double flopsOf(const plan::Plan &plan, const plan::Stage &stage,
                      int64_t number) {
  using Kind = plan::Command::Kind;
  double flops = 0;
  for (const plan::Command &command : stage.sequences.at(number).commands) {
    if (command.kind == Kind::Launch)
      flops += plan.kernels.at(command.target).flops;
    else if (command.kind == Kind::Call)
      flops += flopsOf(plan, stage, command.target);
    else if (command.kind == Kind::Loop)
      flops += double(command.count) * flopsOf(plan, stage, command.target);
  }
  return flops;
}

/// The schedule's line of each stage; none without a pipeline.
static std::vector<StageLine> planLines(const plan::Plan &plan) {
  std::vector<StageLine> lines;
  for (const plan::Stage &stage : plan.stages)
    for (const plan::Program &program : stage.programs) {
      if (program.kind != "train")
        continue;
      for (const plan::Command &command :
           stage.sequences.at(program.sequence).commands) {
        if (command.kind != plan::Command::Kind::Fragments)
          continue;
        StageLine &line = lines.emplace_back();
        line.line = command.line;
        for (const plan::Fragment &fragment : command.fragments)
          line.times[fragment.kind] = flopsOf(plan, stage, fragment.sequence);
      }
    }
  return lines;
}

StepSchedule::StepSchedule(const plan::Plan &plan)
    : kind(plan.strategy.value("schedule", std::string("1f1b"))),
      stages(planLines(plan)), table(replayLines(stages)) {}

StepSchedule::StepSchedule(const plan::Plan &plan, const std::string &trace)
    : kind(plan.strategy.value("schedule", std::string("1f1b"))),
      measured(readTraces(trace, plan)) {
  if (plan.mesh.pipe > 1)
    for (const MeasuredStage &stage : measured)
      stages.push_back(stage.line);
  table = replayLines(stages);
}

void StepSchedule::addTo(json &json) const {
  auto lines = nlohmann::json::array(), times = lines;
  for (const StageLine &stage : stages) {
    lines.push_back(stage.line);
    times.push_back(stage.times);
  }
  json["schedule"] = kind;
  json["schedule_lines"] = lines;
  json["bubble"] = table.meanIdle();
  json["idle"] = table.idle;
  json["fragment_times"] = times;
  json["time_unit"] = measured.empty() ? "flop" : "s";
  if (measured.empty())
    return;
  json["exposed"] = nlohmann::json::array();
  for (const MeasuredStage &stage : measured)
    json["exposed"].push_back(
        {{"collectives", stage.collectives}, {"transfers", stage.transfers}});
}

std::string StepSchedule::formatTime(double time) const {
  return measured.empty() ? formatFlops(time) : formatSeconds(time);
}

/// A row for each stage: what its fragments take, and what it waits for.
void StepSchedule::printTimes() const {
  std::set<std::string> kinds;
  for (const StageLine &stage : stages)
    for (const auto &[name, time] : stage.times)
      kinds.insert(name);
  std::vector<TableRow> rows(1);
  rows[0].push_back("");
  rows[0].insert(rows[0].end(), kinds.begin(), kinds.end());
  if (!measured.empty())
    rows[0].insert(rows[0].end(), {"in collectives", "in transfers"});
  for (size_t i = 0; i < std::max(stages.size(), measured.size()); ++i) {
    TableRow &row = rows.emplace_back();
    row.push_back("stage " + std::to_string(i));
    for (const std::string &name : kinds) {
      auto time = stages[i].times.find(name);
      row.push_back(time == stages[i].times.end() ? ""
                                                  : formatTime(time->second));
    }
    if (!measured.empty()) {
      row.push_back(formatTime(measured[i].collectives));
      row.push_back(formatTime(measured[i].transfers));
    }
  }
  printTable(rows);
}

void StepSchedule::print() const {
  const char *by = measured.empty() ? "FLOPs" : "measured times";
  std::cout << "\nschedule ("
            << (stages.empty()
                    ? "one stage: no bubble"
                    : kind + ", idle by " + by + " " +
                          formatNumber("%.1f%%", 100 * table.meanIdle()))
            << ")\n";
  std::vector<std::string> chart = drawChart(table, /*width=*/110);
  for (size_t i = 0; i < chart.size(); ++i)
    std::cout << "  stage " << i << "  " << chart[i] << "  idle "
              << formatNumber("%.1f%%", 100 * table.idle[i]) << "\n";
  if (!stages.empty() || !measured.empty())
    printTimes();
}
