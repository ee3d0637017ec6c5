//===- ParameterGroup.cpp - Parameter groups of the optimizer -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/ParameterGroup.h"
#include "heddle/Settings/Settings.h"
#include <sstream>

using namespace heddle;
using namespace heddle::config;

/// Parses `lr=X` or `weight_decay=Y`.
static bool readOption(const std::string &option, ParameterGroup &group,
                       std::string &wrong) {
  size_t equals = option.find('=');
  std::string key = option.substr(0, equals);
  std::optional<double> *value = key == "lr"             ? &group.lr
                                 : key == "weight_decay" ? &group.weightDecay
                                                         : nullptr;
  if (!value)
    wrong = "unknown key \"" + key + "\"";
  else if (*value)
    wrong = key + " is given twice";
  std::string number =
      equals == std::string::npos ? "" : option.substr(equals + 1);
  if (wrong.empty() && !io::ValueRange::numbersFrom(0).take(number))
    wrong = "\"" + number + "\" is no value of " + key;
  if (wrong.empty())
    *value = std::stod(number);
  return wrong.empty();
}

std::optional<ParameterGroup> config::parseGroup(const std::string &text,
                                                 std::string &wrong) {
  ParameterGroup group;
  // Split at the last colon: a regular expression may contain colons.
  size_t colon = text.rfind(':');
  group.pattern = text.substr(0, colon);
  if (colon == std::string::npos || group.pattern.empty()) {
    wrong = "there is no pattern before a colon";
    return std::nullopt;
  }
  std::string rest = text.substr(colon + 1);
  if (rest == "frozen") {
    group.frozen = true;
    return group;
  }
  std::istringstream options(rest + ",");
  for (std::string option; std::getline(options, option, ',');)
    if (!readOption(option, group, wrong))
      return std::nullopt;
  return group;
}
