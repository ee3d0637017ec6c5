//===- SettingsDefaults.cpp - Defaults of a training run ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the learning rate for fine-tuning. Also makes the note that lists
// defaults which matter to the user.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Parallel.h"
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

/// Whether the user gives the setting, by a flag or in a file.
static bool isChosen(const ResolvedSettings &settings, const char *key) {
  auto found = settings.origins.find(key);
  if (found == settings.origins.end())
    return false;
  Origin::Kind kind = found->second.kind;
  return kind == Origin::Kind::Flag || kind == Origin::Kind::File ||
         kind == Origin::Kind::StrategyFile;
}

void config::settleRate(ResolvedSettings &settings, const ModelSpec &spec) {
  Settings &values = settings.values;
  // If a ds_config.json has an optimizer without a learning rate, DeepSpeed's
  // default applies.
  auto optimizer = settings.origins.find("optimizer");
  bool isDeepSpeeds = optimizer != settings.origins.end() &&
                      optimizer->second.kind == Origin::Kind::File;
  if (values.mode != Mode::Train || spec.random ||
      settings.origins.count("lr") || isDeepSpeeds)
    return;
  double usual = values.lr;
  values.lr = std::get<double>(*settingOf("lr").trainerDefault);
  settings.setOrigin(
      "lr",
      {Origin::Kind::Derived, "the Trainer's default for loaded weights", {}});
  // A learning-rate schedule that was made from flags warms up to the learning
  // rate. That rate has just changed, so change the end of the warmup, too.
  auto schedule = settings.origins.find("scheduler");
  if (schedule == settings.origins.end() ||
      schedule->second.kind != Origin::Kind::Flag)
    return;
  nlohmann::json params = nlohmann::json::parse(values.schedulerParams);
  if (params.value("warmup_max_lr", 0.0) == usual)
    params["warmup_max_lr"] = values.lr;
  values.schedulerParams = params.dump();
}

std::string config::noteOfDefaults(const ResolvedSettings &settings,
                                   const ModelSpec &spec) {
  const Settings &values = settings.values;
  bool isShorter = values.seq < spec.maxPositions && !isChosen(settings, "seq");
  if (values.mode != Mode::Train || (spec.random && !isShorter))
    return "";
  std::vector<std::string> parts;
  auto add = [&](const char *key, const std::string &more = "") {
    const SettingField &field = settingOf(key);
    if (!isChosen(settings, key))
      parts.push_back(field.flags.front().name() + " " +
                      settingToString(values, field) + more);
  };
  bool hasSchedule = values.scheduler != Scheduler::None;
  add("lr", hasSchedule ? "" : " without warm-up or decay");
  add("seq", isShorter ? " of the model's " +
                             std::to_string(spec.maxPositions) + " positions"
                       : "");
  bool choosesRows = isChosen(settings, "batch") ||
                     isChosen(settings, "micro_batch") ||
                     isChosen(settings, "accumulate");
  if (!choosesRows)
    add("batch");
  if (parts.empty())
    return "";
  add("weight_decay");
  add("precision");
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return "defaults: " + text;
}
