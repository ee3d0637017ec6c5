//===- DrawSchedule.cpp - Pictures of the time of a step ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drawings.h"
#include "ExplainPlan.h"
#include "ExplainText.h"
#include <algorithm>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::driver;
using draw::SvgWriter;
using nlohmann::json;

static std::string sourceOf(const StepSchedule &schedule) {
  return schedule.timesFrom() == "flops"     ? "by numbers of operations"
         : schedule.timesFrom() == "cluster" ? "planned, by the cluster's times"
                                             : "measured";
}

static ChartAxis axisOf(const StepSchedule &schedule, double most) {
  if (schedule.timesFrom() != "flops")
    return secondsAxis(most);
  return {most,
          [](double value) { return value > 0 ? formatFlops(value) : "0"; },
          1000, "FLOP"};
}

/// The first letter of a pass is its kind: F, B, I, W or O.
static std::string kindOf(const Timetable::Cell &cell) {
  return cell.name.substr(0, 1);
}

static std::vector<LegendEntry> legendOf(const Timetable &table) {
  static const std::pair<const char *, const char *> names[] = {
      {"F", "forward pass"},
      {"B", "backward pass"},
      {"I", "gradients of inputs"},
      {"W", "gradients of weights"},
      {"O", "optimizer"}};
  std::set<std::string> used;
  for (const auto &stage : table.stages)
    for (const Timetable::Cell &cell : stage)
      used.insert(kindOf(cell));
  std::vector<LegendEntry> legend;
  for (const auto &[kind, name] : names)
    if (used.count(kind))
      legend.push_back({kind, name});
  legend.push_back({"idle", "idle"});
  return legend;
}

namespace {

/// The planned times of passes, with which measured ones are compared.
class PlannedTimes {
public:
  /// If the planned times are numbers of operations, shares of the whole are
  /// compared instead of seconds.
  PlannedTimes(const StepSchedule &planned, const StepSchedule &measured) {
    const Timetable &table = planned.timetable();
    double scale = 1;
    if (planned.timesFrom() == "flops" && table.makespan > 0)
      scale = measured.timetable().makespan / table.makespan;
    for (size_t stage = 0; stage < table.stages.size(); ++stage)
      for (const Timetable::Cell &cell : table.stages[stage])
        times[{stage, cell.name}] = (cell.end - cell.begin) * scale;
  }

  /// Returns the colour of a measured pass: whether it took longer.
  std::string colourOf(size_t stage, const Timetable::Cell &cell) const {
    auto found = times.find({stage, cell.name});
    double time = cell.end - cell.begin;
    // Differences of a sixth are noise on most machines.
    constexpr double noise = 7.0 / 6;
    if (found == times.end() || time > found->second * noise)
      return "slower";
    return time * noise < found->second ? "faster" : "alike";
  }

private:
  std::map<std::pair<size_t, std::string>, double> times;
};

} // namespace

/// Draws the passes of a timetable, a row for each stage. With `planned`, their
/// colours say how the times differ from it.
static void drawTable(const Timetable &table, const ChartAxis &axis,
                      const PlannedTimes *planned, SvgWriter &svg) {
  double row = 1000.0 / double(std::max<size_t>(table.stages.size(), 1));
  for (size_t stage = 0; stage < table.stages.size(); ++stage) {
    svg.open("g", {{"data-stage", stage}});
    double top = double(stage) * row;
    svg.element("rect", {{"class", "c-idle"},
                         {"y", top + row * 0.08},
                         {"width", axis.at(table.makespan)},
                         {"height", row * 0.84}});
    for (const Timetable::Cell &cell : table.stages[stage])
      svg.element("rect",
                  {{"class", "c-" + (planned ? planned->colourOf(stage, cell)
                                             : kindOf(cell))},
                   {"data-pass", cell.name},
                   {"x", axis.at(cell.begin)},
                   {"y", top + row * 0.08},
                   {"width", axis.at(cell.end) - axis.at(cell.begin)},
                   {"height", row * 0.84}});
    svg.close();
  }
}

static std::vector<std::string> rowNames(const Timetable &table) {
  std::vector<std::string> names;
  for (size_t stage = 0; stage < table.stages.size(); ++stage)
    names.push_back("stage " + std::to_string(stage));
  return names;
}

static double heightOfRow(size_t rows) {
  return std::clamp(420.0 / double(std::max<size_t>(rows, 1)), 12.0, 30.0);
}

static std::string percent(double share) {
  return formatNumber("%.1f %%", 100 * share);
}

static void addTimetable(Chart &chart, const std::string &name,
                         const StepSchedule &schedule, const ChartAxis &axis,
                         const PlannedTimes *planned = nullptr,
                         const std::string &begin = "") {
  const Timetable &table = schedule.timetable();
  std::string times;
  if (schedule.stepSeconds() > 0)
    times = ", " + formatSeconds(table.meanIdle() * table.makespan) + " of " +
            formatSeconds(table.makespan) + "; a step takes " +
            formatSeconds(schedule.stepSeconds()) + " with what follows";
  chart.addText(begin + sourceOf(schedule) + ": bubble " +
                percent(table.meanIdle()) + times);
  chart.addRows(name, rowNames(table), heightOfRow(table.stages.size()), axis,
                [&](SvgWriter &svg) { drawTable(table, axis, planned, svg); });
}

std::string driver::drawStreams(const plan::Plan &plan,
                                const plan::Program &program,
                                const cost::ClusterCost &cost,
                                bool isStandalone) {
  cost::StreamSpans spans;
  cost::SequenceTime time = cost.timeOf(plan, program.sequence, &spans);
  Chart chart("Streams of program " + program.name,
              "When each stream is busy, of " + formatSeconds(time.seconds));
  chart.addText(
      "planned, by the cluster's times: " + formatSeconds(time.seconds) +
      ", of which " + formatSeconds(time.computing) + " computing" +
      (plan.mesh.stages() > 1 ? "; the first pipeline stage" : ""));
  std::vector<std::string> rows;
  std::vector<plan::Stream> shown;
  for (plan::Stream stream : plan::streams)
    if (!spans[size_t(stream)].empty()) {
      rows.push_back(plan::nameOf(stream));
      shown.push_back(stream);
    }
  ChartAxis axis = secondsAxis(time.seconds);
  chart.addRows("streams", rows, 30, axis, [&](SvgWriter &svg) {
    double row = 1000.0 / double(std::max<size_t>(rows.size(), 1));
    for (size_t i = 0; i < shown.size(); ++i) {
      svg.open("g", {{"data-stream", rows[i]}});
      for (const cost::BusySpan &span : spans[size_t(shown[i])])
        svg.element("rect", {{"class", "c-" + rows[i]},
                             {"x", axis.at(span.begin)},
                             {"y", (double(i) + 0.08) * row},
                             {"width", axis.at(span.end) - axis.at(span.begin)},
                             {"height", row * 0.84}});
      svg.close();
    }
  });
  return chart.finish(isStandalone);
}

std::string driver::drawSchedule(const plan::Plan &plan,
                                 const StepSchedule &planned,
                                 const StepSchedule *measured,
                                 const cost::ClusterCost *cost,
                                 bool isStandalone) {
  const Timetable &table = planned.timetable();
  const plan::Program *program = mainProgram(plan);
  std::string stages = std::to_string(plan.mesh.stages());
  if (!table.stages.empty()) {
    Chart chart("Pipeline schedule " + planned.name() + ", " + stages +
                    " stages",
                "The passes of each stage over time, bubble " +
                    percent(table.meanIdle()));
    chart.addLegend(legendOf(table));
    bool isSame = measured && planned.timesFrom() != "flops";
    double most = table.makespan;
    if (isSame)
      most = std::max(most, measured->timetable().makespan);
    addTimetable(chart, "schedule", planned, axisOf(planned, most));
    if (measured && !measured->timetable().stages.empty()) {
      PlannedTimes times(planned, *measured);
      chart.addLegend({{"slower", "takes longer than planned"},
                       {"faster", "takes less time"},
                       {"alike", "about as planned"}});
      addTimetable(
          chart, "measured", *measured,
          axisOf(*measured, isSame ? most : measured->timetable().makespan),
          &times);
    }
    return chart.finish(isStandalone);
  }
  if (program && cost && cost->hasTimes())
    return drawStreams(plan, *program, *cost, isStandalone);
  Chart chart("Streams of a step", "Not known without a cluster");
  chart.addText("One stage, so no pipeline schedule. With --cluster FILE, this "
                "picture shows when each stream is busy.");
  return chart.finish(isStandalone);
}

std::string driver::drawSchedulesOfTwo(const StepSchedule &first,
                                       const StepSchedule &second,
                                       const std::string &firstName,
                                       const std::string &secondName) {
  const Timetable &one = first.timetable(), &other = second.timetable();
  if (one.stages.empty() || other.stages.empty() ||
      first.timesFrom() != second.timesFrom())
    return "";
  Chart chart("Pipeline schedules of both plans",
              "The passes of each stage over time, bubble " +
                  percent(one.meanIdle()) + " and " +
                  percent(other.meanIdle()));
  chart.addLegend(legendOf(one));
  ChartAxis axis = axisOf(first, std::max(one.makespan, other.makespan));
  addTimetable(chart, "first", first, axis, nullptr, firstName + ", ");
  addTimetable(chart, "second", second, axis, nullptr, secondName + ", ");
  return chart.finish(/*isStandalone=*/false);
}

namespace {

/// A part of a step's time.
struct StepPart {
  const char *key, *colour, *name;
};

constexpr StepPart stepParts[] = {
    {"computation", "compute", "computation"},
    {"collectives", "exposed", "waits for collectives"},
    {"copies", "copy", "waits for copies"},
    {"pipeline", "idle", "waits for other stages"}};

} // namespace

/// The parts of the steps. Of a step alone, also their times.
static std::vector<LegendEntry> legendOf(const std::vector<NamedStep> &steps) {
  std::vector<LegendEntry> legend;
  for (const StepPart &part : stepParts) {
    double most = 0;
    for (const auto &[plan, step] : steps)
      most = std::max(most, step.value(part.key, 0.0));
    if (most <= 0)
      continue;
    double seconds = steps.front().second.value("seconds", 0.0);
    std::string time =
        " " + formatSeconds(most) + " (" + percent(most / seconds) + ")";
    legend.push_back(
        {part.colour, part.name + (steps.size() == 1 ? time : "")});
  }
  return legend;
}

std::string driver::drawStepBars(const std::vector<NamedStep> &steps) {
  std::vector<std::string> rows;
  std::string described;
  double most = 0;
  for (const auto &[plan, step] : steps) {
    double seconds = step.value("seconds", 0.0);
    most = std::max(most, seconds);
    rows.push_back((plan.empty() ? "" : plan + ", ") + "stage " +
                   step.value("stage", json(0)).dump());
    described += (described.empty() ? "" : "; ") + rows.back() + ", " +
                 formatSeconds(seconds);
  }
  Chart chart("Where a step's time goes", described);
  chart.addLegend(legendOf(steps));
  ChartAxis axis = secondsAxis(most);
  chart.addRows("step", rows, 36, axis, [&](SvgWriter &svg) {
    double row = 1000.0 / double(rows.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      double begin = 0;
      for (const StepPart &of : stepParts) {
        double part = steps[i].second.value(of.key, 0.0);
        if (part <= 0)
          continue;
        svg.element("rect", {{"class", std::string("c-") + of.colour},
                             {"data-part", of.key},
                             {"x", axis.at(begin)},
                             {"y", (double(i) + 0.06) * row},
                             {"width", axis.at(part)},
                             {"height", row * 0.88}});
        begin += part;
      }
    }
  });
  return chart.finish(/*isStandalone=*/false);
}
