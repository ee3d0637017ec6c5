//===- ReportData.cpp - The figures of a report's plan --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReportData.h"
#include "ExplainModules.h"
#include "ExplainPlan.h"
#include "heddle/Import/SettingTable.h"
#include "heddle/PlanFormat/MemoryHelp.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/runtime/core/ModuleCosts.h"
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Classes of ranks
//===----------------------------------------------------------------------===//

std::string RankClass::text() const {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (end > i + 1)
      text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

/// What a rank sends, as text to compare.
static std::string trafficText(const plan::Plan &plan, int64_t rank) {
  std::string text;
  for (const plan::Program &program : plan.programs)
    for (const rt::TrafficLine &line : rt::countTraffic(plan, program, rank))
      text += line.axes + " " + line.kind + " " + line.reason + " " +
              std::to_string(line.calls) + " " +
              std::to_string(line.bytesSent) + ";";
  return text;
}

/// Returns for each coordinate along `axis` the first coordinate at which a
/// rank of the stage sends the same.
static std::vector<int64_t> likeCoordinates(const plan::Plan &plan,
                                            int64_t first,
                                            const std::string &axis) {
  std::map<std::string, int64_t> known;
  std::vector<int64_t> like;
  int64_t size = plan.mesh.groupSize({axis});
  for (int64_t at = 0; at < size; ++at)
    like.push_back(
        known
            .emplace(trafficText(plan, plan.mesh.member(first, {axis}, at)), at)
            .first->second);
  return like;
}

/// Whether all ranks of the stage that `plan` has selected send the same, which
/// is quickly found: then each collective splits its buffer evenly.
static bool sendsAlike(const plan::Plan &plan) {
  for (const plan::Sequence &sequence : plan.sequences)
    for (const plan::Command &command : sequence.commands) {
      const auto *start = command.as<plan::command::Collective>();
      if (!start)
        continue;
      int64_t ranks = plan.mesh.groupSize(start->collective.axes);
      plan::CollectiveShape shape = rt::shapeOf(
          start->collective, ranks, start->target.bytes, start->source.bytes);
      for (int64_t rank = 1; rank < ranks; ++rank)
        if (plan::bytesSent(shape, rank) != plan::bytesSent(shape, 0))
          return false;
    }
  return true;
}

/// Groups the ranks of the stage that `plan` has selected. What a rank sends
/// depends on its coordinates alone, and on each axis by itself.
static std::map<std::vector<int64_t>, std::vector<int64_t>>
groupStage(const plan::Plan &plan, const std::vector<int64_t> &ranks) {
  if (sendsAlike(plan))
    return {{{}, ranks}};
  std::vector<std::pair<std::string, std::vector<int64_t>>> axes;
  for (const std::string &axis : plan.mesh.atoms())
    if (plan.mesh.roleOf(axis) != plan::AxisRole::Pipeline &&
        plan.mesh.groupSize({axis}) > 1)
      axes.emplace_back(axis, likeCoordinates(plan, ranks.front(), axis));
  std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
  for (int64_t rank : ranks) {
    std::vector<int64_t> key;
    for (const auto &[axis, like] : axes)
      key.push_back(like[plan.mesh.coordinate(rank, {axis})]);
    groups[key].push_back(rank);
  }
  return groups;
}

std::vector<RankClass> driver::classesOf(plan::Plan &plan,
                                         const cost::Cluster *cluster) {
  std::vector<std::vector<int64_t>> ofStage(plan.mesh.stages());
  for (int64_t rank = 0; rank < plan.mesh.ranks(); ++rank)
    ofStage[plan.mesh.stageOf(rank)].push_back(rank);
  std::vector<RankClass> classes;
  std::map<std::string, size_t> known;
  for (size_t stage = 0; stage < ofStage.size(); ++stage) {
    plan.selectStage(int64_t(stage));
    for (const auto &[key, ranks] : groupStage(plan, ofStage[stage])) {
      json explained =
          RankExplanation(plan, ranks.front(), cluster, "").toJson();
      json figures = explained;
      figures.erase("rank");
      figures.erase("stage");
      auto [entry, isNew] = known.emplace(figures.dump(), classes.size());
      if (isNew)
        classes.push_back({{}, {}, std::move(explained)});
      RankClass &of = classes[entry->second];
      of.ranks.insert(of.ranks.end(), ranks.begin(), ranks.end());
      if (of.stages.empty() || of.stages.back() != int64_t(stage))
        of.stages.push_back(int64_t(stage));
    }
  }
  for (RankClass &of : classes)
    std::sort(of.ranks.begin(), of.ranks.end());
  std::stable_sort(classes.begin(), classes.end(),
                   [](const RankClass &a, const RankClass &b) {
                     return a.explained["memory"]["peak"] >
                            b.explained["memory"]["peak"];
                   });
  return classes;
}

std::vector<ProgramTimeline> driver::timelinesOf(const plan::Plan &plan) {
  std::vector<ProgramTimeline> all;
  std::set<int64_t> called;
  for (const plan::Program &program : plan.programs)
    all.push_back(timelineOf(plan, program));
  for (const plan::Sequence &sequence : plan.sequences)
    for (const plan::Command &command : sequence.commands)
      if (const auto *call = command.as<plan::command::Call>())
        called.insert(call->sequence);
  for (int64_t sequence : called)
    if (!plan.sequences.at(sequence).buffers.empty())
      all.push_back(frameTimelineOf(plan, sequence));
  return all;
}

//===----------------------------------------------------------------------===//
// States and modules
//===----------------------------------------------------------------------===//

std::string driver::patternOf(const std::string &path) {
  std::string pattern;
  for (size_t i = 0; i < path.size();) {
    size_t end = i;
    while (end < path.size() && std::isdigit((unsigned char)path[end]))
      ++end;
    bool isSegment = end > i && (i == 0 || path[i - 1] == '.') &&
                     (end == path.size() || path[end] == '.');
    if (isSegment) {
      pattern += "*";
      i = end;
    } else {
      pattern += path[i++];
    }
  }
  return pattern;
}

/// Folds entries that are equal apart from the numbers in the string at `key`.
/// Each entry of the result has a `count`, and the name of the first if there
/// is one alone.
static json fold(const json &entries, const char *key) {
  json folded = json::array();
  std::map<std::string, size_t> known;
  for (const json &entry : entries) {
    json pattern = entry;
    pattern[key] = patternOf(entry[key]);
    auto [found, isNew] = known.emplace(pattern.dump(), folded.size());
    if (isNew) {
      folded.push_back(entry);
      folded.back()["count"] = 1;
      continue;
    }
    json &first = folded[found->second];
    first["count"] = first["count"].get<int64_t>() + 1;
    first[key] = pattern[key];
    first["last"] = entry[key];
  }
  return folded;
}

json driver::describeStates(const plan::Plan &plan) {
  json states = json::array();
  for (const plan::State &state : plan.states) {
    const plan::Placement &placement = state.placement;
    json one = {{"name", state.name},
                {"role", plan::nameOf(state.role)},
                {"owner", plan::stateOwner(state.role, !state.parameter.empty(),
                                           state.memory)},
                {"type", plan::nameOf(state.type)},
                {"shape", state.shape},
                {"memory", plan::nameOf(state.memory)},
                {"bytes", state.numBytes()}};
    if (!placement.whole.empty()) {
      one["whole"] = placement.whole;
      one["split"] = placement.split;
    }
    if (!placement.flatAxes.empty())
      one["zero"] = placement.flatAxes;
    if (!state.packed.empty()) {
      const plan::PackedWeight &packed = state.packed[0];
      one["packed"] = {{"part", plan::nameOf(packed.part)},
                       {"bits", packed.bits},
                       {"group", packed.group},
                       {"shape", packed.shape}};
    }
    states.push_back(std::move(one));
  }
  // Stages have other layers, and may share the entries.
  json folded = fold(states, "name");
  for (json &state : folded) {
    state.erase("last");
    state["name"] = patternOf(state["name"]);
  }
  return folded;
}

/// The seconds of the module's kernels, and of those of the modules inside, if
/// each kernel takes as long as its operations or its bytes.
static double secondsOf(const rt::ModuleNode &module,
                        const cost::Cluster &cluster) {
  double seconds =
      cluster.kernelSeconds(module.own.kernelFlops, module.own.bytes);
  for (const auto &inner : module.children)
    seconds += secondsOf(*inner, cluster);
  return seconds;
}

/// Adds the times of a step of the stage that `plan` has selected.
static void addSeconds(const plan::Plan &plan, const cost::Cluster &cluster,
                       json &modules) {
  const plan::Program *step = mainProgram(plan);
  if (!step || cluster.flops <= 0)
    return;
  std::map<std::string, double> times;
  rt::countModules(plan, *step)
      .model.walk(/*depth=*/64, [&](const rt::ModuleNode &module, int64_t) {
        times[module.path] = secondsOf(module, cluster);
      });
  for (json &module : modules)
    if (auto found = times.find(module["path"]); found != times.end())
      module["seconds"] = found->second;
}

/// Adds the measured times to the folded modules of all stages. Layers that are
/// alike were measured together; each gets its share.
static void addMeasured(const std::map<std::string, double> &measured,
                        json &stages) {
  std::map<std::string, int64_t> counts;
  for (const json &stage : stages)
    for (const json &module : stage["modules"])
      counts[patternOf(module["path"])] +=
          module["count"].get<int64_t>() * int64_t(stage["stages"].size());
  for (json &stage : stages)
    for (json &module : stage["modules"]) {
      std::string path = patternOf(module["path"]);
      double seconds = 0;
      for (const auto &[of, time] : measured)
        if (path.empty() || of == path || of.rfind(path + ".", 0) == 0)
          seconds += time;
      module["measured"] = seconds / double(counts[path]);
    }
}

json driver::describeModulesOfStages(
    plan::Plan &plan, const cost::Cluster *cluster,
    const std::map<std::string, double> &measured) {
  json stages = json::array();
  auto count = std::max<int64_t>(int64_t(plan.stages.size()), 1);
  for (int64_t stage = 0; stage < count; ++stage) {
    plan.selectStage(stage);
    if (plan.programs.empty())
      continue;
    json modules = describeModules(plan, "", /*depth=*/64);
    if (cluster)
      addSeconds(plan, *cluster, modules);
    modules = fold(modules, "path");
    // Stages that have equal modules, apart from the numbers of their layers.
    json pattern = modules;
    for (json &module : pattern) {
      module["path"] = patternOf(module["path"]);
      module.erase("last");
    }
    bool isLike = !stages.empty() && stages.back()["pattern"] == pattern;
    if (isLike) {
      stages.back()["stages"].push_back(stage);
      stages.back()["modules"] = pattern;
    } else
      stages.push_back(
          {{"stages", {stage}}, {"modules", modules}, {"pattern", pattern}});
  }
  for (json &stage : stages)
    stage.erase("pattern");
  if (!measured.empty())
    addMeasured(measured, stages);
  return stages;
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

/// Returns the last component of a path. That of `/x/model/` is `model`.
static std::string lastOf(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return std::filesystem::path(path).filename().string();
}

/// Returns the value without the directories of its paths. An entry of a list
/// may be `GLOB=FILE`, whose GLOB names layers of the model.
static json redact(const json &value) {
  if (value.is_array()) {
    json all = json::array();
    for (const json &entry : value) {
      std::string text = entry.is_string() ? entry.get<std::string>() : "";
      size_t end = text.find('=');
      if (end == std::string::npos || end > text.find('/'))
        all.push_back(redact(entry));
      else
        all.push_back(text.substr(0, end + 1) + lastOf(text.substr(end + 1)));
    }
    return all;
  }
  if (!value.is_string() ||
      value.get_ref<const std::string &>().find('/') == std::string::npos)
    return value;
  return lastOf(value.get<std::string>());
}

json driver::settingsOf(const plan::Plan &plan, bool isRedacted) {
  json settings = plan.strategy.value("settings", json::object());
  if (isRedacted)
    for (json &value : settings)
      value = redact(value);
  return settings;
}

/// Quotes an argument for a shell where it needs it.
static std::string quote(const std::string &text) {
  bool isPlain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return std::isalnum((unsigned char)c) ||
               std::string("-_./=,:+@%").find(c) != std::string::npos;
      });
  if (isPlain)
    return text;
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Returns the value of a setting whose default is not what a compilation
/// without its flag takes, so that the flag is needed. Null for other settings.
static json writtenDefault(const config::SettingField &field,
                           const plan::Plan &plan, const json &settings) {
  bool isOfMachine = field.key == "threads" &&
                     settings.value(plan::threadsOfMachineKey, false);
  bool isOfTraining =
      field.key != "threads" && !plan.findProgram(plan::ProgramKind::Train);
  if (field.whenLeftOut.empty() || isOfMachine || isOfTraining)
    return nullptr;
  json value = std::visit([](const auto &same) { return json(same); },
                          field.get(config::Settings()));
  bool isNothing = value == "" || value == 0 || value == false;
  return isNothing ? json() : value;
}

/// Whether the setting is the number of ranks along an axis, which --mesh
/// gives.
static bool isMeshAxis(const config::SettingField &field) {
  return field.path.rfind("mesh.", 0) == 0;
}

/// Returns the value that has to be given for a setting of the plan; null if
/// none has to be.
static json neededValue(const config::SettingField &field,
                        const plan::Plan &plan, const json &settings) {
  // Without the flag --threads, the threads are those of the machine.
  if (isMeshAxis(field) || field.key == plan::threadsOfMachineKey)
    return nullptr;
  return settings.value(field.key, writtenDefault(field, plan, settings));
}

/// Returns the flag that gives a setting of the plan; "" if there is none, or
/// if it needs none.
static std::string flagOf(const config::SettingField &field,
                          const plan::Plan &plan, const json &settings) {
  const std::string place = "place_";
  json value = neededValue(field, plan, settings);
  // The flag --lr would also change the rate of the scheduler.
  if (value.is_null() || (field.key == "lr" && settings.contains("scheduler")))
    return "";
  std::string text =
      value.is_string() ? value.get<std::string>() : value.dump();
  if (field.key.rfind(place, 0) == 0 && value.is_string())
    return " --place " + field.key.substr(place.size()) + "=" + text;
  if (field.flags.empty())
    return "";
  const config::SettingFlag &flag = field.flags.front();
  if (*flag.type == 0)
    return " " + flag.name();
  if (!value.is_array())
    return " " + flag.name() + " " + quote(text);
  std::string flags;
  for (const json &entry : value)
    flags += " " + flag.name() + " " +
             quote(entry.is_string() ? entry.get<std::string>() : entry.dump());
  return flags;
}

std::string driver::commandOf(const plan::Plan &plan, bool isRedacted) {
  const json settings = settingsOf(plan, isRedacted);
  std::string directory =
      isRedacted ? redact(plan.weights.directory).get<std::string>()
                 : plan.weights.directory;
  std::string command =
      "heddle compile " +
      (directory.empty() ? std::string("config.json") : quote(directory));
  if (plan.weights.random)
    command += " --init random --seed " + std::to_string(plan.weights.seed);
  std::string mesh;
  for (const plan::Mesh::Axis &axis : plan.mesh.axes)
    if (axis.size > 1)
      mesh += (mesh.empty() ? "" : ",") + axis.name + "=" +
              std::to_string(axis.size);
  if (!mesh.empty())
    command += " --mesh " + mesh;
  for (const config::SettingField &field : config::settingFields())
    command += flagOf(field, plan, settings);
  if (!strategyOf(plan, isRedacted).empty())
    command += " --strategy strategy.json";
  return command;
}

json driver::strategyOf(const plan::Plan &plan, bool isRedacted) {
  const json settings = settingsOf(plan, isRedacted);
  json strategy = json::object();
  for (const config::SettingField &field : config::settingFields())
    if (json value = neededValue(field, plan, settings);
        !value.is_null() && flagOf(field, plan, settings).empty())
      strategy[field.key] = std::move(value);
  return strategy;
}

int64_t driver::budgetOf(const plan::Plan &plan, plan::MemoryKind kind,
                         const cost::Cluster *cluster) {
  const json settings = plan.strategy.value("settings", json::object());
  const char *key = kind == plan::MemoryKind::Device ? "memory_budget"
                    : kind == plan::MemoryKind::File ? "file_budget"
                                                     : "host_budget";
  int64_t budget = settings.value(key, int64_t(0));
  if (budget == 0 && kind == plan::MemoryKind::Device && cluster)
    budget = cluster->deviceMemory;
  return budget == config::Settings::noLimit ? 0 : budget;
}
