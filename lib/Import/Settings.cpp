//===- Settings.cpp - Merges all sources of settings ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges flags, a strategy file, a ds_config.json and defaults into the
// settings of a compilation.
//
//===----------------------------------------------------------------------===//

#include "SettingsMerge.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sched.h>

using namespace heddle;
using namespace heddle::config;

std::string Origin::describe() const {
  switch (kind) {
  case Kind::Default:
    return "default";
  case Kind::Derived:
    return "from " + text;
  case Kind::Model:
    return "model";
  case Kind::Flag:
    return "flag " + text;
  case Kind::File:
  case Kind::StrategyFile:
    return location.file + ":" + std::to_string(location.line);
  }
  return "";
}

std::optional<int64_t> config::parseByteSize(const std::string &text) {
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception &) {
    return std::nullopt;
  }
  static const std::vector<std::pair<const char *, int>> units = {
      {"", 0},     {"B", 0},  {"KiB", 10}, {"MiB", 20}, {"GiB", 30},
      {"TiB", 40}, {"K", 10}, {"M", 20},   {"G", 30},   {"T", 40}};
  for (const auto &[name, shift] : units)
    if (text.substr(end) == name) {
      double bytes = std::ldexp(number, shift);
      if (!(bytes >= 0 && bytes < 9e18))
        return std::nullopt;
      return static_cast<int64_t>(bytes);
    }
  return std::nullopt;
}

io::ValueRange config::sizeRange() {
  return io::ValueRange::matching(
      "a size from 1 byte, as 16GiB, 512MiB or 1000000",
      [](const std::string &text) { return parseByteSize(text) > 0; });
}

//===----------------------------------------------------------------------===//
// Strategy files
//===----------------------------------------------------------------------===//

/// Converts a JSON value to the type of a setting.
static SettingValue valueFromJson(const SettingField &field,
                                  const io::JsonValue &value) {
  return std::visit(
      [&](const auto &like) -> SettingValue {
        using T = std::decay_t<decltype(like)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          return value.asInteger();
        } else if constexpr (std::is_same_v<T, double>) {
          return value.asNumber();
        } else if constexpr (std::is_same_v<T, bool>) {
          return value.asBool();
        } else if constexpr (std::is_same_v<T, std::string>) {
          return value.asString();
        } else {
          std::vector<std::string> items;
          for (const io::JsonValue &element : value.elements())
            items.push_back(element.asString());
          return items;
        }
      },
      field.get(Settings()));
}

static void giveFromStrategy(const io::JsonMember &member, Merger &merger) {
  const SettingField *field = findSetting(member.key);
  if (!field) {
    std::vector<std::string> keys;
    for (const SettingField &known : settingFields())
      keys.push_back(known.key);
    std::string near = closestMatch(member.key, keys);
    fail("H0107", "unknown key \"" + member.key + "\" in a strategy",
         near.empty() ? "remove it" : "did you mean \"" + near + "\"?",
         member.keyLocation());
  }
  merger.give(
      field->key, valueFromJson(*field, member.value),
      {Origin::Kind::StrategyFile, field->key, member.value.location()});
}

void config::mergeStrategy(const SettingsFile &strategy, Merger &merger) {
  io::JsonValue root =
      io::parseJson(strategy.text, {strategy.name, io::configJsonCodes, true},
                    &merger.result.problems);
  for (const io::JsonMember &member : root.members())
    merger.problems.attempt([&] { giveFromStrategy(member, merger); });
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

static int64_t availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::clamp(CPU_COUNT(&set), 1, 1024);
  return 1;
}

/// Whether collectives of the library (NCCL) are the default of all targets.
static bool defaultsToLibrary(const ResolvedSettings &settings) {
  auto isDefault = [](Target target) {
    return factsOf(target).collectives == Collectives::Library;
  };
  const std::vector<Target> &targets = settings.targets;
  return targets.empty()
             ? isDefault(settings.values.target)
             : std::all_of(targets.begin(), targets.end(), isDefault);
}

MemoryKind config::memoryOfGradients(const Settings &values) {
  MemoryKind kind = values.placeOptimizer;
  bool isBeside = factsOf(values.target).hasDeviceMemory &&
                  (kind == MemoryKind::Host || kind == MemoryKind::Pinned);
  // Gradients must stay on the device in two cases. First, a delayed update
  // runs during the next backward pass as soon as a gradient is on the device,
  // without waiting for the gradient norm. Second, replicas that all-reduce
  // gradients at the end of a step need all gradients there.
  bool sumsAll = values.zero < 2 && values.data * values.sequence > 1;
  bool waits = !values.delayedUpdate && !sumsAll;
  return isBeside && waits && values.mode == Mode::Train ? kind
                                                         : MemoryKind::Device;
}

ResolvedSettings config::mergeSettings(const Flags &flags,
                                       const SettingsFile &dsConfig,
                                       const SettingsFile &strategy) {
  ResolvedSettings result;
  Merger merger(result, flags);
  mergeFlags(merger);
  if (!strategy.name.empty())
    mergeStrategy(strategy, merger);
  if (!dsConfig.name.empty())
    mergeDsConfig(dsConfig, merger);
  merger.fillMicroBatch();
  if (!merger.isBatchUnsure)
    merger.problems.attempt([&] { resolveBatch(merger); });
  mergeOptimizerDefaults(merger);
  mergeLossScaleDefault(merger);
  merger.fillOpen();
  mergeScheduleFlags(merger);
  bool isOpen = !merger.isGiven("threads");
  if (isOpen)
    merger.give("threads", availableCores(),
                {Origin::Kind::Derived, "the cores of this machine", {}});
  if (!merger.isGiven("threads_of_machine"))
    merger.give("threads_of_machine", isOpen, *merger.originOf("threads"));
  if (defaultsToLibrary(result) && !merger.isGiven("collectives"))
    merger.give("collectives", std::string(wordOf(Collectives::Library)),
                {Origin::Kind::Derived, "the default on GPUs", {}});
  if (MemoryKind kind = memoryOfGradients(result.values);
      kind != MemoryKind::Device && !merger.isGiven("place_gradients"))
    merger.give("place_gradients", toSettingValue(kind),
                {Origin::Kind::Derived, "the optimizer's memory", {}});
  if (result.values.optimizer == Optimizer::ZeroOneAdam &&
      result.values.zero > 0 && !merger.isGiven("local_steps"))
    merger.give("local_steps", false,
                {Origin::Kind::Derived, "the ZeRO stage", {}});
  merger.finishRows();
  checkSettings(merger);
  merger.markRefused();
  sortProblems(result.problems);
  return result;
}

ResolvedSettings config::resolveSettings(const Flags &flags,
                                         const std::string &dsConfig,
                                         const std::string &strategyName,
                                         const std::string &strategyText) {
  ResolvedSettings result = mergeSettings(
      flags, dsConfig.empty() ? SettingsFile() : readDsConfig(dsConfig),
      {strategyName, strategyText});
  throwProblems(result.problems);
  return result;
}
