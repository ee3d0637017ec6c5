//===- ReportPage.cpp - The page of a report ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes one HTML file: the pictures, the data that its tables show, and the
// script that makes the tables. The data is described in docs/report.md.
//
//===----------------------------------------------------------------------===//

#include "ReportPage.h"
#include "Drawings.h"
#include "ExplainCluster.h"
#include "ExplainText.h"
#include "ReportData.h"
#include "RunLog.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include <map>

using namespace heddle;
using namespace heddle::driver;
using draw::SvgWriter;
using nlohmann::json;

namespace heddle::driver {
/// Files of this directory, which CMake makes into strings.
extern const char reportStyle[], reportTables[], reportScript[];
} // namespace heddle::driver

/// The version of the data that the page embeds. It is raised when a field
/// changes its meaning or is removed.
static constexpr int64_t dataVersion = 1;

namespace {

/// Writes the sections of one plan, and collects its data.
class PlanSections {
public:
  PlanSections(ReportedPlan &reported, size_t number, const ReportFiles &files,
               SvgWriter &page)
      : reported(reported), plan(reported.plan), number(number), files(files),
        page(page) {}

  void write();
  json data = json::object();
  std::optional<StepSchedule> planned;

private:
  void describe();
  void writeSummary();
  void writeMemory();
  void writeClass(size_t index);
  json ownFields(const RankClass &of) const;
  json indexStates(const json &states);
  void writeTime();
  void writeRanks();
  void writeModel();
  void openSection(const char *name, const char *title, const char *intro);
  void table(const char *name) {
    page.open("div", {{"data-table", name}, {"data-plan", number}});
    page.close();
  }
  void figure(const std::string &picture) {
    page.open("figure", {});
    page.raw(picture);
    page.close();
  }
  int64_t budgetOf(plan::MemoryKind kind) const {
    return driver::budgetOf(plan, kind, cluster ? &*cluster : nullptr);
  }

  ReportedPlan &reported;
  plan::Plan &plan;
  size_t number;
  const ReportFiles &files;
  SvgWriter &page;
  std::optional<cost::Cluster> cluster;
  std::optional<StepSchedule> measured;
  std::vector<RankClass> classes;
  /// For each program whose memory is shown, the class that has it.
  std::map<std::string, size_t> knownPrograms;
  std::map<std::string, size_t> knownStates; ///< Indices into data["states"].
};

} // namespace

void PlanSections::openSection(const char *name, const char *title,
                               const char *intro) {
  page.open("section", {{"id", "p" + std::to_string(number) + "-" + name},
                        {"data-section", name}});
  page.text("h2", {}, title);
  page.text("p", {{"class", "intro"}}, intro);
}

/// Collects the data of the plan, without timelines.
void PlanSections::describe() {
  if (plan.stages.empty())
    plan.stages = {plan};
  cluster = clusterOf(plan, files.cluster);
  classes = classesOf(plan, cluster ? &*cluster : nullptr);
  json budgets = json::object();
  for (plan::MemoryKind kind : plan::memoryKinds)
    if (int64_t budget = budgetOf(kind); budget > 0)
      budgets[plan::nameOf(kind)] = budget;
  plan.selectStage(plan.mesh.stageOf(classes.front().ranks.front()));
  data = {{"name", reported.name},
          {"family", plan.family},
          {"precision", plan.precision},
          {"batch", plan.batch},
          {"micro_batch", plan.microBatch},
          {"accumulate", plan.accumulate},
          {"seq", plan.seq},
          {"device", plan::nameOf(plan.device)},
          {"optimizer", plan.optimizer.type},
          {"command", commandOf(plan, files.isRedacted)},
          {"settings", settingsOf(plan, files.isRedacted)},
          {"budgets", budgets},
          {"advice", plan::helpForMemory(plan)},
          {"changes", reported.changes},
          {"refusals", reported.refusals},
          {"states", json::array()},
          {"ranks", json::array()}};
  if (cluster && cluster->flops > 0 && cluster->memoryPerSecond > 0)
    data["rates"] = {{"flops", cluster->flops},
                     {"bytes", cluster->memoryPerSecond}};
  if (json strategy = strategyOf(plan, files.isRedacted); !strategy.empty())
    data["strategy"] = std::move(strategy);
  plan.selectStage(plan.mesh.stageOf(0));
  data["explain"] =
      RankExplanation(plan, 0, cluster ? &*cluster : nullptr, "").toJson();
}

void PlanSections::writeSummary() {
  openSection("summary", "Summary",
              "What a step needs, for the ranks that need most.");
  page.open("div", {{"class", "cards"}, {"data-cards", number}});
  page.close();
  page.open("div", {{"class", "command"}});
  page.text("h3", {}, "The command that makes this plan");
  page.text("pre", {}, data["command"].get<std::string>());
  if (data.contains("strategy")) {
    page.text("p", {{"class", "intro"}}, "strategy.json, which it reads:");
    page.text("pre", {}, data["strategy"].dump());
  }
  page.close();
  table("settings");
  page.close();
}

/// Replaces the numbers of layers in all texts by `*`.
static json patternOfAll(const json &value) {
  if (value.is_string())
    return patternOf(value.get<std::string>());
  if (!value.is_array() && !value.is_object())
    return value;
  json patterns = value;
  for (json &entry : patterns)
    entry = patternOfAll(entry);
  return patterns;
}

/// Returns the fields of a class that differ from those of rank 0. A long field
/// that an earlier class has too is not repeated: it names that class.
json PlanSections::ownFields(const RankClass &of) const {
  constexpr size_t longField = 200;
  json own = json::object();
  for (const auto &[key, value] : of.explained.items()) {
    if (data["explain"].value(key, json()) == value)
      continue;
    own[key] = value;
    for (size_t i = 0; i < data["ranks"].size(); ++i) {
      const json &before = data["ranks"][i]["explain"];
      if (before.contains(key) && before[key] == value &&
          value.dump().size() > longField) {
        own[key] = {{"same_as", i}};
        break;
      }
    }
  }
  return own;
}

/// Adds the states of a class to the plan's list, and returns their indices in
/// it.
json PlanSections::indexStates(const json &states) {
  json indices = json::array();
  for (const json &state : states) {
    auto [entry, isNew] =
        knownStates.emplace(state.dump(), data["states"].size());
    if (isNew)
      data["states"].push_back(state);
    indices.push_back(entry->second);
  }
  return indices;
}

void PlanSections::writeClass(size_t index) {
  const RankClass &of = classes[index];
  std::string ranks = of.text();
  plan.selectStage(of.stages.front());
  json programs = json::array();
  for (const ProgramTimeline &timeline : timelinesOf(plan)) {
    json program = toJson(timeline);
    // Classes whose memory differs in nothing but the numbers of layers share
    // it. The name is compared as it is: the page finds a shared program by it.
    auto [entry, isNew] = knownPrograms.emplace(
        timeline.name + "\n" + patternOfAll(program).dump(), index);
    if (!isNew) {
      programs.push_back({{"name", timeline.name}, {"same_as", entry->second}});
      continue;
    }
    programs.push_back(std::move(program));
    for (const MemoryTimeline &kind : timeline.memory) {
      page.open("figure", {{"data-rank-class", ranks},
                           {"data-class", index},
                           {"data-program", timeline.name},
                           {"data-kind", plan::nameOf(kind.kind)}});
      page.raw(drawMemory(timeline, kind,
                          timeline.isFrame ? 0 : budgetOf(kind.kind),
                          "ranks " + ranks, /*isStandalone=*/false));
      page.close();
    }
  }
  data["ranks"].push_back({{"ranks", ranks},
                           {"count", of.ranks.size()},
                           {"stages", of.stages},
                           {"explain", ownFields(of)},
                           {"programs", programs},
                           {"states", indexStates(describeStates(plan))}});
}

void PlanSections::writeMemory() {
  openSection("memory", "Memory of a rank",
              "Which bytes are in use while each command of a program runs. "
              "Choose a class of like ranks, a program and a kind of memory. "
              "Drag to zoom, double-click to see all; arrow keys move, + and "
              "- zoom.");
  page.open("div", {{"class", "choosers"}, {"data-choosers", number}});
  page.close();
  for (size_t i = 0; i < classes.size(); ++i)
    writeClass(i);
  table("live");
  table("buffers");
  table("owners");
  table("classes");
  table("changes");
  page.text("p", {{"class", "advice"}},
            "To need less: " + data["advice"].get<std::string>());
  page.close();
}

void PlanSections::writeTime() {
  openSection("time", "Time of a step",
              "When each pipeline stage computes, and what it waits for.");
  plan.selectStage(0);
  std::optional<cost::ClusterCost> known;
  if (cluster)
    known.emplace(plan, *cluster);
  const cost::ClusterCost *cost = known ? &*known : nullptr;
  planned.emplace(plan, "", cost);
  if (number == 0 && !files.trace.empty()) {
    measured.emplace(plan, files.trace, nullptr);
    json trace = json::object();
    measured->addTo(trace);
    data["measured"] = trace;
  }
  if (data["explain"].contains("step"))
    figure(drawStepBars({{"", data["explain"]["step"]}}));
  if (measured && data["measured"].contains("step")) {
    page.text("h3", {}, "Measured");
    figure(drawStepBars({{"", data["measured"]["step"]}}));
  }
  figure(drawSchedule(plan, *planned, measured ? &*measured : nullptr, cost,
                      false));
  // Programs beside the step's have no schedule, so that of the first stage is
  // drawn. A serving binary can have dozens, of which the first are shown.
  constexpr size_t mostPrograms = 8;
  if (cost && cost->hasTimes())
    for (size_t i = 0; i < std::min(plan.programs.size(), mostPrograms); ++i)
      if (&plan.programs[i] != mainProgram(plan))
        figure(drawStreams(plan, plan.programs[i], *cost, false));
  // Launches of kernels are counted for a training step.
  bool trains = plan.findProgram(plan::ProgramKind::Train);
  if (trains && cluster && cluster->flops > 0 && cluster->memoryPerSecond > 0)
    figure(drawRoofline(data["explain"]["kernels"], *cluster));
  table("times");
  table("kernels");
  table("programs");
  page.close();
}

void PlanSections::writeRanks() {
  openSection("ranks", "Ranks and what they send",
              "Where the ranks are, what each axis of the mesh shares out, and "
              "the bytes of each kind of communication.");
  figure(drawMesh(plan, cluster ? &*cluster : nullptr, false));
  figure(drawTransfers(data["explain"], false));
  if (std::string parameters = drawParameters(plan); !parameters.empty())
    figure(parameters);
  table("communication");
  table("moves");
  table("states");
  page.close();
}

void PlanSections::writeModel() {
  openSection("model", "The model",
              "Modules with their parameters and operations, in one run of the "
              "forward pass; like layers are folded.");
  table("modules");
  for (const std::string &layout : drawLayouts(plan))
    figure(layout);
  table("attention");
  table("quantized");
  table("fusion");
  table("refusals");
  page.close();
}

void PlanSections::write() {
  describe();
  page.open("article", {{"class", "plan"},
                        {"data-plan", number},
                        {"id", "plan-" + std::to_string(number)}});
  page.text("h1", {}, reported.name);
  page.text("p", {{"class", "subtitle"}},
            plan.family + ", " + std::to_string(plan.parameters) +
                " parameters, " + plan.precision + ", " + plan.target + ", " +
                meshText(plan.mesh));
  writeSummary();
  writeMemory();
  writeTime();
  writeRanks();
  data["modules"] = describeModulesOfStages(
      plan, cluster ? &*cluster : nullptr,
      measured ? measured->moduleTimes() : std::map<std::string, double>());
  writeModel();
  page.close();
}

/// Writes how two plans differ.
static void writeComparison(const json &plans,
                            const std::vector<StepSchedule> &schedules,
                            SvgWriter &page) {
  page.open("section", {{"id", "compare"}, {"data-section", "compare"}});
  page.text("h2", {}, "Two plans side by side");
  page.text(
      "p", {{"class", "intro"}},
      "The figures of the ranks that need most memory, and how the second "
      "plan differs from the first.");
  auto owners = [&](size_t plan) {
    const json &worst = plans[plan]["ranks"][0]["explain"];
    const json &memory = worst.contains("memory")
                             ? worst["memory"]
                             : plans[plan]["explain"]["memory"];
    return memory["owners"];
  };
  page.open("figure", {});
  page.raw(drawOwnersOfTwo(owners(0), owners(1), plans[0]["name"],
                           plans[1]["name"]));
  page.close();
  std::vector<NamedStep> steps;
  for (const json &plan : plans)
    if (plan["explain"].contains("step"))
      steps.push_back({plan["name"], plan["explain"]["step"]});
  std::string pictures[] = {
      steps.size() == plans.size() ? drawStepBars(steps) : "",
      drawSchedulesOfTwo(schedules[0], schedules[1], plans[0]["name"],
                         plans[1]["name"])};
  for (const std::string &picture : pictures)
    if (!picture.empty()) {
      page.open("figure", {});
      page.raw(picture);
      page.close();
    }
  page.open("div", {{"data-table", "compare"}, {"data-plan", 0}});
  page.close();
  page.close();
}

/// Writes what a run logged.
static void writeRun(const RunLog &log, SvgWriter &page) {
  page.open("section", {{"id", "run"}, {"data-section", "run"}});
  page.text("h2", {}, "The run");
  page.text("p", {{"class", "intro"}},
            std::to_string(log.steps) + " steps were logged.");
  page.open("div", {{"class", "curves"}});
  for (const RunCurve &curve : log.curves) {
    page.open("figure", {});
    page.raw(drawCurve(curve));
    page.close();
  }
  page.close();
  page.open("div", {{"data-table", "events"}, {"data-plan", 0}});
  page.close();
  page.open("div", {{"data-table", "steps"}, {"data-plan", 0}});
  page.close();
  page.close();
}

static json logJson(const RunLog &log, bool isRedacted) {
  json curves = json::array(), events = log.events;
  for (const RunCurve &curve : log.curves)
    curves.push_back({{"name", curve.name}, {"points", curve.points}});
  if (isRedacted)
    for (json &event : events)
      for (const char *key : {"path", "message"})
        event.erase(key);
  return {{"steps", log.steps}, {"curves", curves}, {"events", events}};
}

/// Writes the begin of the page up to its main part.
static void writeHead(const std::string &title, const std::string &links,
                      std::string &page) {
  page += "<!doctype html>\n<html lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
          "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\">\n"
          "<meta name=\"generator\" content=\"heddle " HEDDLE_VERSION "\">\n"
          "<title>" +
          draw::escapeXml(title) + "</title>\n<style>\n" + chartStyle +
          reportStyle +
          "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to "
          "the figures</a>\n<header class=\"top\"><strong>heddle "
          "report</strong><nav aria-label=\"Sections\">" +
          links +
          "</nav><button id=\"theme\" type=\"button\">Dark or light</button>"
          "</header>\n<main id=\"main\">\n<noscript><p>The pictures are here "
          "without a script; tables, choosers and zoom need one.</p>"
          "</noscript>\n";
}

static std::string link(const std::string &target, const std::string &text) {
  return "<a href=\"#" + target + "\">" + draw::escapeXml(text) + "</a>";
}

std::string driver::makeReport(std::vector<ReportedPlan> plans,
                               const ReportFiles &files) {
  json data = {{"version", dataVersion},
               {"heddle", HEDDLE_VERSION},
               {"plans", json::array()}};
  SvgWriter body;
  std::optional<RunLog> log;
  if (!files.log.empty())
    log = readRunLog(files.log, plans.front().plan);
  std::vector<StepSchedule> schedules;
  std::string links, title;
  for (size_t i = 0; i < plans.size(); ++i) {
    PlanSections sections(plans[i], i, files, body);
    sections.write();
    data["plans"].push_back(std::move(sections.data));
    schedules.push_back(std::move(*sections.planned));
    std::string begin = "p" + std::to_string(i) + "-";
    if (plans.size() > 1)
      links += "<span>" + draw::escapeXml(plans[i].name) + ":</span>";
    for (const auto &[name, text] :
         {std::pair<const char *, const char *>{"memory", "Memory"},
          {"time", "Time"},
          {"ranks", "Ranks"},
          {"model", "Model"}})
      links += link(begin + name, text);
    title += (title.empty() ? "" : " and ") + plans[i].name;
  }
  if (plans.size() > 1) {
    writeComparison(data["plans"], schedules, body);
    links += link("compare", "Compare");
  }
  if (log) {
    writeRun(*log, body);
    data["log"] = logJson(*log, files.isRedacted);
    links += link("run", "Run");
  }
  std::string page;
  writeHead(title + " - heddle report", links, page);
  page += body.result() + "</main>\n";
  // In a script element, `<` could begin its end, or a comment.
  std::string text = data.dump(-1, ' ', /*ensure_ascii=*/false,
                               json::error_handler_t::replace);
  std::string escaped;
  for (char c : text)
    escaped += c == '<' ? std::string("\\u003c") : std::string(1, c);
  page += "<script type=\"application/json\" id=\"heddle-plan\">" + escaped +
          "</script>\n<script>\n" + reportTables + reportScript +
          "</script>\n</body>\n</html>\n";
  return page;
}
