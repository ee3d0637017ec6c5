//===- Settings.cpp - Merges the sources of settings ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SettingsMerge.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <set>
#include <tuple>

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

std::string config::settingToString(const Settings &settings,
                                    const SettingField &field) {
  return std::visit(
      [&](auto member) -> std::string {
        const auto &value = settings.*member;
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return value.empty() ? "none" : value;
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::string text;
          for (const std::string &item : value)
            text += (text.empty() ? "" : ",") + item;
          return text.empty() ? "none" : text;
        } else {
          if constexpr (std::is_same_v<T, int64_t>)
            if (value == Settings::noLimit)
              return "no limit";
          return nlohmann::json(value).dump();
        }
      },
      field.member);
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

std::optional<std::pair<double, double>>
config::parseBetas(const std::string &text) {
  size_t comma = text.find(',');
  if (comma == std::string::npos)
    return std::nullopt;
  std::string first = text.substr(0, comma), second = text.substr(comma + 1);
  const io::ValueRange &range = rangeOf("beta1");
  if (!range.take(first) || !range.take(second))
    return std::nullopt;
  return std::make_pair(std::stod(first), std::stod(second));
}

io::ValueRange config::sizeRange() {
  return io::ValueRange::matching(
      "a size from 1 byte, as 16GiB, 512MiB or 1000000",
      [](const std::string &text) { return parseByteSize(text) > 0; });
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

static Origin flagOrigin(const std::string &flag) {
  return {Origin::Kind::Flag, flag, {}};
}

[[noreturn]] static void failFlag(const std::string &flag,
                                  const std::string &value,
                                  const std::string &help) {
  fail("H0114", flag + ": \"" + value + "\" is not possible", help);
}

static int64_t parseAxisSize(const std::string &mesh, std::string text) {
  const io::ValueRange &range = rangeOf("data");
  if (!range.take(text))
    failFlag("--mesh", mesh, "as data=2, each with " + range.describe());
  return std::stoll(text);
}

static void mergeMesh(const std::string &mesh, Merger &merger) {
  static const std::map<std::string,
                        std::pair<const char *, int64_t Settings::*>>
      axes = {{"data", {"data", &Settings::data}},
              {"tensor", {"tensor", &Settings::tensor}},
              {"pipe", {"pipe", &Settings::pipe}},
              {"seq", {"sequence", &Settings::sequence}}};
  std::set<std::string> seen;
  size_t begin = 0;
  while (begin <= mesh.size()) {
    size_t end = std::min(mesh.find(',', begin), mesh.size());
    std::string part = mesh.substr(begin, end - begin);
    begin = end + 1;
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    auto axis = axes.find(name);
    bool known = axis != axes.end() || name == "expert";
    if (equals == std::string::npos || !known || !seen.insert(name).second)
      failFlag("--mesh", mesh,
               "give each axis once, as data=2,tensor=2,pipe=2,seq=1");
    int64_t size = parseAxisSize(mesh, part.substr(equals + 1));
    if (axis != axes.end())
      merger.give(axis->second.first, axis->second.second, size,
                  flagOrigin("--mesh"));
    else if (size != 1)
      fail("H0115", "--mesh: experts on " + std::to_string(size) + " ranks",
           "leave out expert: no family with experts is known");
  }
}

/// Megatron's flags for one axis each; they may repeat what --mesh says.
static void mergeAxes(const Flags &flags, Merger &merger) {
  struct Axis {
    const char *flag, *key;
    std::optional<int64_t> Flags::*given;
    int64_t Settings::*member;
  };
  static const Axis axes[] = {
      {"--tensor-model-parallel-size", "tensor", &Flags::tensor,
       &Settings::tensor},
      {"--pipeline-model-parallel-size", "pipe", &Flags::pipe, &Settings::pipe},
      {"--context-parallel-size", "sequence", &Flags::sequence,
       &Settings::sequence}};
  for (const Axis &axis : axes) {
    const std::optional<int64_t> &size = flags.*axis.given;
    if (!size)
      continue;
    if (merger.isGiven(axis.key) && merger.result.values.*axis.member != *size)
      failFlag(axis.flag, std::to_string(*size),
               "--mesh gives this axis " +
                   std::to_string(merger.result.values.*axis.member) +
                   " ranks: give one of the two");
    merger.give(axis.key, axis.member, *size, flagOrigin(axis.flag));
  }
}

static void mergeZero(const Flags &flags, Merger &merger) {
  if (flags.zero)
    merger.give("zero", &Settings::zero, *flags.zero, flagOrigin("--zero"));
  const std::string distributed = "--use-distributed-optimizer";
  if (flags.distributedOptimizer && flags.zero && *flags.zero == 0)
    failFlag("--zero", "0", distributed + " is --zero 1: give one of the two");
  if (flags.distributedOptimizer)
    merger.give("zero", &Settings::zero, int64_t(1), flagOrigin(distributed));
}

static void mergeOptimizerFlags(const Flags &flags, Merger &merger) {
  using S = Settings;
  if (flags.lr)
    merger.give("lr", &S::lr, *flags.lr, flagOrigin("--lr"));
  if (flags.weightDecay)
    merger.give("weight_decay", &S::weightDecay, *flags.weightDecay,
                flagOrigin("--weight-decay"));
  if (flags.eps)
    merger.give("eps", &S::eps, *flags.eps, flagOrigin("--eps"));
  if (!flags.betas)
    return;
  std::optional<std::pair<double, double>> betas = parseBetas(*flags.betas);
  if (!betas)
    failFlag("--betas", *flags.betas,
             "give two numbers from 0 to below 1, as 0.9,0.999");
  merger.give("beta1", &S::beta1, betas->first, flagOrigin("--betas"));
  merger.give("beta2", &S::beta2, betas->second, flagOrigin("--betas"));
}

void config::mergeFlags(Merger &merger) {
  const Flags &flags = merger.flags;
  auto give = [&](const auto &flag, const char *name, const char *key,
                  auto member) {
    if (flag)
      merger.give(key, member, *flag, flagOrigin(name));
  };
  using S = Settings;
  give(flags.batch, "--batch", "batch", &S::batch);
  give(flags.microBatch, "--micro-batch", "micro_batch", &S::microBatch);
  give(flags.accumulate, "--accumulate", "accumulate", &S::accumulate);
  give(flags.seq, "--seq", "seq", &S::seq);
  give(flags.threads, "--threads", "threads", &S::threads);
  give(flags.precision, "--precision", "precision", &S::precision);
  give(flags.schedule, "--schedule", "schedule", &S::schedule);
  give(flags.virtualStages, "--virtual-stages", "virtual_stages",
       &S::virtualStages);
  give(flags.pipelineLayout, "--pipeline-layout", "pipeline_layout",
       &S::pipelineLayout);
  give(flags.context, "--context", "context", &S::context);
  give(flags.collectives, "--collectives", "collectives", &S::collectives);
  give(flags.communicationType, "--communication-data-type",
       "communication_type", &S::communicationType);
  give(flags.recompute, "--recompute", "recompute", &S::recompute);
  give(flags.march, "--march", "march", &S::march);
  give(flags.target, "--target", "target", &S::target);
  give(flags.noDecay, "--no-decay", "no_decay", &S::noDecay);
  if (!flags.keep.empty())
    merger.give("keep", &S::keep, flags.keep, flagOrigin("--keep"));
  if (flags.sequenceParallel)
    merger.give("sequence_parallel", &S::sequenceParallel, true,
                flagOrigin("--sequence-parallel"));
  if (flags.mesh)
    mergeMesh(*flags.mesh, merger);
  mergeAxes(flags, merger);
  mergeZero(flags, merger);
  mergeOptimizerFlags(flags, merger);
  if (flags.memoryBudget) {
    std::optional<int64_t> bytes = parseByteSize(*flags.memoryBudget);
    if (!bytes)
      failFlag("--memory-budget", *flags.memoryBudget,
               "give a size as 16GiB, 512MiB or 1000000");
    merger.give("memory_budget", &S::memoryBudget, *bytes,
                flagOrigin("--memory-budget"));
  }
}

//===----------------------------------------------------------------------===//
// Strategy files
//===----------------------------------------------------------------------===//

static void giveFromJson(const SettingField &field, const io::JsonValue &value,
                         Merger &merger) {
  Origin origin{Origin::Kind::StrategyFile, field.key, value.location()};
  std::visit(
      [&](auto member) {
        using T = std::decay_t<decltype(std::declval<Settings>().*member)>;
        T read{};
        if constexpr (std::is_same_v<T, int64_t>)
          read = value.asInteger();
        else if constexpr (std::is_same_v<T, double>)
          read = value.asNumber();
        else if constexpr (std::is_same_v<T, bool>)
          read = value.asBool();
        else if constexpr (std::is_same_v<T, std::string>)
          read = value.asString();
        else
          for (const io::JsonValue &element : value.elements())
            read.push_back(element.asString());
        merger.give(field.key, member, std::move(read), std::move(origin));
      },
      field.member);
}

void config::mergeStrategy(const std::string &name, const std::string &text,
                           Merger &merger) {
  io::JsonValue root = io::parseJson(text, {name, io::configJsonCodes, true});
  std::vector<std::string> keys;
  for (const SettingField &field : settingFields())
    keys.push_back(field.key);
  for (const io::JsonMember &member : root.members()) {
    auto field = std::find(keys.begin(), keys.end(), member.key);
    if (field == keys.end()) {
      std::string near = closestMatch(member.key, keys);
      fail("H0107", "unknown key \"" + member.key + "\" in a strategy",
           near.empty() ? "remove it" : "did you mean \"" + near + "\"?",
           member.keyLocation());
    }
    giveFromJson(settingFields()[field - keys.begin()], member.value, merger);
  }
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

ResolvedSettings config::mergeSettings(const Flags &flags,
                                       const std::string &dsConfig,
                                       const std::string &strategyName,
                                       const std::string &strategyText) {
  ResolvedSettings result;
  Merger merger(result, flags);
  mergeFlags(merger);
  if (!strategyName.empty())
    mergeStrategy(strategyName, strategyText, merger);
  if (!dsConfig.empty())
    mergeDsConfig(dsConfig, merger);
  merger.fillMicroBatch();
  if (!merger.isBatchUnsure)
    merger.problems.attempt([&] { resolveBatch(merger); });
  merger.fillOpen();
  mergeScheduleFlags(merger);
  if (result.values.threads == 0) {
    result.values.threads = availableCores();
    result.setOrigin("threads",
                     {Origin::Kind::Derived, "the cores of this machine", {}});
  }
  merger.finishRows();
  checkSettings(merger);
  std::stable_sort(result.problems.begin(), result.problems.end(),
                   [](const Diagnostic &a, const Diagnostic &b) {
                     const SourceLocation &x = a.location, &y = b.location;
                     return std::tie(x.file, x.line, x.column) <
                            std::tie(y.file, y.line, y.column);
                   });
  return result;
}

ResolvedSettings config::resolveSettings(const Flags &flags,
                                         const std::string &dsConfig,
                                         const std::string &strategyName,
                                         const std::string &strategyText) {
  ResolvedSettings result =
      mergeSettings(flags, dsConfig, strategyName, strategyText);
  if (!result.problems.empty())
    throw ConfigErrors(result.problems);
  return result;
}
