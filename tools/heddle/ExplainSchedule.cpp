//===- ExplainSchedule.cpp - The pipeline schedule of a step --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the schedule of a training step. The times of its forward and backward
// passes come from a trace, or are estimated with a cluster file or from the
// numbers of floating-point operations. The schedule is replayed with these
// times.
//
//===----------------------------------------------------------------------===//

#include "ExplainSchedule.h"
#include "ExplainText.h"
#include <algorithm>
#include <iostream>
#include <set>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// Returns the number of floating-point operations in one run of a command
/// sequence.
static double flopsOf(const plan::Plan &plan, const plan::Stage &stage,
                      int64_t number) {
  double flops = 0;
  for (const plan::Command &command : stage.sequences.at(number).commands) {
    if (const auto *launch = command.as<plan::command::Launch>())
      flops += plan.kernels.at(launch->kernel).flops;
    for (plan::SequenceRuns runs : runsOf(command))
      flops += double(runs.times) * flopsOf(plan, stage, runs.sequence);
  }
  return flops;
}

/// Returns the training program of a stage; null if the stage has none.
static const plan::Program *trainingOf(const plan::Stage &stage) {
  for (const plan::Program &program : stage.programs)
    if (program.kind == plan::ProgramKind::Train)
      return &program;
  return nullptr;
}

/// Returns the forward and backward passes of a stage in the order of the
/// schedule, with their times. Returns nothing if the plan has no pipeline.
static std::optional<StageLine> lineOf(const plan::Plan &plan,
                                       const plan::Stage &stage,
                                       const cost::ClusterCost *cost) {
  const plan::Program *program = trainingOf(stage);
  if (!program)
    return std::nullopt;
  for (const plan::Command &command :
       stage.sequences.at(program->sequence).commands) {
    const auto *all = command.as<plan::command::Fragments>();
    if (!all)
      continue;
    StageLine line;
    for (const plan::ScheduledFragment &entry : all->order)
      line.line.push_back(
          {all->fragments.at(entry.fragment), entry.microBatch});
    for (const plan::Fragment &fragment : all->fragments) {
      line.times[fragment.name()] =
          cost ? cost->timeOf(stage, fragment.sequence).seconds
               : flopsOf(plan, stage, fragment.sequence);
      if (cost)
        line.transfer = std::max(
            line.transfer,
            cost->transferSeconds(stage.sequences.at(fragment.sequence)));
    }
    return line;
  }
  return std::nullopt;
}

StepSchedule::StepSchedule(const plan::Plan &plan, const std::string &trace,
                           const cost::ClusterCost *cost)
    : kind(plan.strategy.value("schedule", std::string("1f1b"))) {
  if (trace.empty()) {
    usePlan(plan, cost && cost->hasTimes() ? cost : nullptr);
    return;
  }
  from = "trace";
  for (const MeasuredStage &stage : readTraces(trace, plan)) {
    addStep({int64_t(exposed.size()), stage.seconds, 0, stage.collectives, 0,
             stage.transfers});
    exposed.push_back({stage.collectives, stage.transfers});
    for (const auto &[path, seconds] : stage.modules)
      modules[path] += seconds;
    if (plan.mesh.stages() > 1)
      stages.push_back(stage.line);
  }
  table = replayLines(stages);
}

/// Keeps `candidate` if its step takes longer than those of the stages before.
/// Its computation is the time that its other fields leave.
void StepSchedule::addStep(SlowestStage candidate) {
  if (candidate.seconds <= step.seconds)
    return;
  candidate.computation = candidate.seconds - candidate.collectives -
                          candidate.copies - candidate.pipeline;
  step = candidate;
}

void StepSchedule::usePlan(const plan::Plan &plan,
                           const cost::ClusterCost *cost) {
  from = cost ? "cluster" : "flops";
  std::vector<const plan::Stage *> all;
  for (const plan::Stage &stage : plan.stages)
    all.push_back(&stage);
  if (all.empty())
    all.push_back(&plan);
  for (const plan::Stage *stage : all)
    if (auto line = lineOf(plan, *stage, cost))
      stages.push_back(std::move(*line));
  table = replayLines(stages);
  if (!cost)
    return;
  std::vector<StageLine> atOnce = stages;
  for (StageLine &stage : atOnce)
    stage.transfer = 0;
  double transfers = table.makespan - replayLines(atOnce).makespan;
  for (const plan::Stage *stage : all)
    if (const plan::Program *program = trainingOf(*stage)) {
      // The seconds in which the stage exchanges data after its last backward
      // pass: it reduces the gradients of parameters that it shares with other
      // stages.
      double exchange =
          cost->transferSeconds(stage->sequences.at(program->sequence));
      cost::SequenceTime time = cost->timeOf(*stage, program->sequence);
      exposed.push_back(
          {time.exposed, transfers + exchange, time.exposedCopies});
      // The seconds of the stage's work outside of forward and backward passes,
      // for example of the optimizer's update.
      double rest = time.seconds + exchange;
      if (auto line = lineOf(plan, *stage, cost))
        rest -= line->seconds();
      addStep({int64_t(exposed.size()) - 1, table.makespan + rest, 0,
               time.exposed, time.exposedCopies,
               table.makespan + rest - time.seconds});
    }
}

void StepSchedule::addTo(json &json) const {
  auto lines = nlohmann::json::array(), times = lines;
  for (const StageLine &stage : stages) {
    lines.push_back(stage.text());
    times.push_back(stage.times);
  }
  json["schedule"] = kind;
  json["schedule_lines"] = lines;
  json["bubble"] = table.meanIdle();
  json["idle"] = table.idle;
  json["fragment_times"] = times;
  json["times_from"] = from;
  if (from == "flops")
    return;
  json["exposed"] = nlohmann::json::array();
  for (const Exposed &stage : exposed) {
    nlohmann::json one = {{"collectives", stage.collectives},
                          {"transfers", stage.transfers}};
    if (from == "cluster") // Traces do not record waits for copies.
      one["copies"] = stage.copies;
    json["exposed"].push_back(std::move(one));
  }
  if (step.seconds == 0)
    return;
  json["step"] = {{"stage", step.stage},
                  {"seconds", step.seconds},
                  {"computation", step.computation},
                  {"collectives", step.collectives},
                  {"pipeline", step.pipeline}};
  if (from == "cluster")
    json["step"]["copies"] = step.copies;
}

std::string StepSchedule::formatTime(double time) const {
  return from == "flops" ? formatFlops(time) : formatSeconds(time);
}

/// Prints a row for each stage: the times of its forward and backward passes,
/// and of its waits.
void StepSchedule::printTimes() const {
  std::set<std::string> kinds;
  for (const StageLine &stage : stages)
    for (const auto &[name, time] : stage.times)
      kinds.insert(name);
  std::vector<TableRow> rows(1);
  rows[0].push_back("");
  rows[0].insert(rows[0].end(), kinds.begin(), kinds.end());
  if (!exposed.empty())
    rows[0].insert(rows[0].end(), {"exposed collectives", "exposed transfers"});
  if (from == "cluster")
    rows[0].push_back("exposed copies");
  for (size_t i = 0; i < std::max(stages.size(), exposed.size()); ++i) {
    TableRow &row = rows.emplace_back();
    row.push_back("stage " + std::to_string(i));
    for (const std::string &name : kinds) {
      auto time = stages[i].times.find(name);
      row.push_back(time == stages[i].times.end() ? ""
                                                  : formatTime(time->second));
    }
    if (!exposed.empty()) {
      row.push_back(formatTime(exposed[i].collectives));
      row.push_back(formatTime(exposed[i].transfers));
      if (from == "cluster")
        row.push_back(formatTime(exposed[i].copies));
    }
  }
  printTable(rows);
}

void StepSchedule::print() const {
  std::string by = from == "flops"     ? "FLOPs"
                   : from == "cluster" ? "the cluster's times"
                                       : "measured times";
  std::cout << "\nschedule ("
            << (stages.empty()
                    ? "one stage: no bubble"
                    : kind + ", idle by " + by + " " +
                          formatNumber("%.1f%%", 100 * table.meanIdle()))
            << ")\n";
  if (step.seconds > 0)
    std::cout << "  a step takes " << formatSeconds(step.seconds) << "\n";
  std::vector<std::string> chart = drawChart(table, /*width=*/110);
  for (size_t i = 0; i < chart.size(); ++i)
    std::cout << "  stage " << i << "  " << chart[i] << "  idle "
              << formatNumber("%.1f%%", 100 * table.idle[i]) << "\n";
  if (!stages.empty() || !exposed.empty())
    printTimes();
}
