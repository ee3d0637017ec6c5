//===- Settings.cpp - The settings of a compilation -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/Settings.h"
#include "heddle/Settings/LayerDrop.h"
#include "heddle/Settings/LossScale.h"
#include "heddle/Settings/PositionExtension.h"

using namespace heddle;
using namespace heddle::config;

std::string Setting::section() const {
  size_t dot = path.find('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string Setting::name() const { return path.substr(path.find('.') + 1); }

bool Setting::holds(const Settings &settings) const {
  SettingValue value = get(settings);
  if (const auto *integer = std::get_if<int64_t>(&value))
    return range.holds(*integer);
  if (const auto *number = std::get_if<double>(&value))
    return range.holds(*number);
  const auto *text = std::get_if<std::string>(&value);
  return !text || text->empty() || range.holds(*text);
}

template <auto Member> static SettingValue getMember(const Settings &settings) {
  return toSettingValue(settings.*Member);
}

template <auto Member>
static bool setMember(Settings &settings, const SettingValue &value) {
  return setFromValue(settings.*Member, value);
}

const std::vector<Setting> &config::allSettings() {
  static const std::vector<Setting> all = {
#define HEDDLE_SETTING(TYPE, MEMBER, DEFAULT, KEY, PATH, RANGE, ...)           \
  {KEY, PATH, RANGE, getMember<&Settings::MEMBER>,                             \
   setMember<&Settings::MEMBER>},
#include "heddle/Settings/Settings.def"
  };
  return all;
}
