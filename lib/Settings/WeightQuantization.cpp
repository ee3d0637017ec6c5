//===- WeightQuantization.cpp - Quantization while training ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/WeightQuantization.h"
#include "heddle/Settings/Settings.h"
#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

using namespace heddle;
using namespace heddle::config;

std::string QuantizedGroup::toText() const {
  std::string text = name + " start_bits=" + std::to_string(startBits) +
                     " target_bits=" + std::to_string(targetBits) +
                     " period=" + std::to_string(period);
  for (const std::string &pattern : modules)
    text += " modules=" + pattern;
  return text;
}

bool config::takesModule(const std::string &pattern,
                         const std::string &module) {
  return pattern == "*" || std::regex_search(module, std::regex(pattern));
}

bool QuantizedGroup::takes(const std::string &module) const {
  return std::any_of(
      modules.begin(), modules.end(),
      [&](const std::string &pattern) { return takesModule(pattern, module); });
}

/// Returns the reason why `pattern` is no regular expression, else "".
static std::string wrongWith(const std::string &pattern) {
  if (pattern.empty())
    return "\"modules\" has no pattern";
  try {
    takesModule(pattern, "");
  } catch (const std::regex_error &error) {
    return "the pattern \"" + pattern +
           "\" is no regular expression: " + error.what();
  }
  return "";
}

/// Whether `name` can be a part of the name of a state.
static bool isName(const std::string &name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '_' || c == '-';
         });
}

/// Reads `KEY=VALUE`. Returns the reason if this is not possible, else "".
static std::string readOption(const std::string &option,
                              QuantizedGroup &group) {
  size_t equals = option.find('=');
  std::string key = option.substr(0, equals);
  std::string value =
      equals == std::string::npos ? "" : option.substr(equals + 1);
  if (key == "modules") {
    group.modules.push_back(value);
    return wrongWith(value);
  }
  constexpr int64_t mostBits = 16;
  int64_t *number = key == "start_bits"    ? &group.startBits
                    : key == "target_bits" ? &group.targetBits
                    : key == "period"      ? &group.period
                                           : nullptr;
  if (!number)
    return "unknown key \"" + key + "\"";
  int64_t most = key == "period" ? int64_t(1) << 24 : mostBits;
  io::ValueRange range = Range::integers(1, most);
  if (!range.take(value))
    return "\"" + value + "\" is no value of " + key + ", which is " +
           range.describe();
  *number = std::stoll(value);
  return "";
}

std::optional<QuantizedGroup>
config::parseQuantizedGroup(const std::string &text, std::string &wrong) {
  std::istringstream words(text);
  QuantizedGroup group;
  words >> group.name;
  if (!isName(group.name))
    wrong = "it does not begin with a name of letters and digits";
  for (std::string option; wrong.empty() && words >> option;)
    wrong = readOption(option, group);
  if (wrong.empty() && group.targetBits > group.startBits)
    wrong = "its " + std::to_string(group.targetBits) +
            " target bits are more than its " +
            std::to_string(group.startBits) + " bits at the start";
  if (!wrong.empty())
    return std::nullopt;
  if (group.modules.empty())
    group.modules = {"*"};
  return group;
}

std::vector<QuantizedGroup>
config::quantizedGroupsOf(const Settings &settings) {
  std::vector<QuantizedGroup> groups;
  std::string wrong;
  for (const std::string &text : settings.moq)
    if (auto group = parseQuantizedGroup(text, wrong)) {
      if (settings.moqInForward)
        group->startBits = group->targetBits;
      groups.push_back(*group);
    }
  return groups;
}

std::string config::checkQuantizedTraining(const Settings &settings) {
  if (settings.moq.empty() || settings.mode != Mode::Train)
    return "";
  for (const QuantizedGroup &group : quantizedGroupsOf(settings))
    if (settings.moqType == MoqType::Asymmetric && group.targetBits < 3)
      return "H0100: the group \"" + group.name + "\" of --moq has " +
             std::to_string(group.targetBits) +
             " target bits, but values from the least one on have 3 bits or "
             "more; use --moq-type symmetric, or 3 target bits";
  if (settings.moqInForward && settings.moqChangeRatio > 0)
    return "H0100: --moq-in-forward rounds weights at once, but "
           "--moq-change-ratio mixes in exact ones; leave one of them out";
  std::string what;
  if (64 % settings.tensor != 0)
    what = std::to_string(settings.tensor) + " tensor ranks";
  else if (sendsSigns(settings.optimizer))
    what = wordOf(settings.optimizer);
  else if (settings.delayedUpdate)
    what = "delayed updates";
  else if (settings.placeOptimizer != MemoryKind::Device ||
           settings.placeGradients != MemoryKind::Device ||
           settings.placeParameters != MemoryKind::Device)
    what = "offloaded states";
  else
    return "";
  return "H0108: --moq with " + what +
         " is not supported; leave one of the two out";
}

QuantizationSchedule QuantizationSchedule::first(const Settings &settings) {
  QuantizationSchedule schedule;
  std::vector<QuantizedGroup> groups = quantizedGroupsOf(settings);
  for (const QuantizedGroup &group : groups) {
    schedule.bits.push_back(group.startBits);
    schedule.periods.push_back(group.period);
  }
  schedule.quantizations = -settings.moqOffset;
  if (settings.moqOffset == 0)
    schedule.advance(groups, settings.moqChangeRatio);
  return schedule;
}

void QuantizationSchedule::advance(const std::vector<QuantizedGroup> &groups,
                                   double changeRatio) {
  if (++quantizations < 1)
    return;
  // Without a change of the ratio, weights are rounded at once.
  ratio = changeRatio > 0 ? std::max(0.0, ratio - changeRatio) : 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (bits[i] <= groups[i].targetBits || quantizations < periods[i])
      continue;
    --bits[i];
    periods[i] *= 2;
    if (changeRatio > 0)
      ratio = 1;
  }
}
