//===- DsLossScale.cpp - The section fp16 of a ds_config.json -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the section `fp16`: whether it chooses the precision, and the loss
// scale. Also chooses the default of the loss scale.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

/// Gives the precision fp16. The section `bf16` of the file may have given fp32
/// because it is off; then this section wins.
static void chooseFp16(const io::JsonValue &enabled, Merger &merger) {
  const Origin *origin = merger.originOf("precision");
  if (origin && origin->kind == Origin::Kind::File) {
    if (merger.result.values.precision == Precision::BF16)
      enabled.fail("H0171", "\"fp16\" and \"bf16\" are both enabled",
                   "set \"enabled\" to false in one of the two sections");
    merger.result.origins.erase("precision");
  }
  merger.give("precision", toSettingValue(Precision::FP16),
              fileOrigin(enabled));
}

/// Gives the loss scale of the key `loss_scale`, where 0 means a dynamic one.
static void mergeScale(const io::JsonValue *scale, const io::JsonValue &enabled,
                       Merger &merger) {
  if (!scale || isAuto(*scale) || scale->asNumber() == 0)
    return merger.give("loss_scale", std::string("dynamic"),
                       fileOrigin(scale ? *scale : enabled));
  merger.give("loss_scale", nlohmann::json(scale->asNumber()).dump(),
              fileOrigin(*scale));
}

void config::mergeFp16(const io::JsonValue &root, Merger &merger) {
  const io::JsonValue *section = root.find("fp16");
  if (!section || !section->isObject())
    return;
  const io::JsonValue *enabled = section->find("enabled");
  bool isOpen = enabled && isAuto(*enabled);
  if (isOpen)
    merger.leaveOpen(enabled->path(), "precision");
  else if (enabled && enabled->asBool())
    chooseFp16(*enabled, merger);
  bool isOn = enabled && (isOpen || enabled->asBool()) &&
              merger.result.values.precision == Precision::FP16;
  if (!isOn) {
    for (const io::JsonMember &member : section->members())
      if (member.key != "enabled")
        merger.mark(member.value.path(), "no meaning here",
                    "the precision is not fp16");
    return;
  }
  mergeScale(section->find("loss_scale"), *enabled, merger);
  if (const io::JsonValue *power = section->findNonNull("initial_scale_power");
      power && !isAuto(*power)) {
    constexpr int64_t most = 1000;
    auto exponent = int(std::clamp(power->asInteger(), -most, most));
    merger.give("loss_scale_initial", std::ldexp(1.0, exponent),
                fileOrigin(*power));
  }
  for (auto [key, name] : {std::pair("loss_scale_window", "loss_scale_window"),
                           std::pair("loss_scale_hysteresis", "hysteresis"),
                           std::pair("loss_scale_min", "min_loss_scale"),
                           std::pair("loss_scale_consecutive_hysteresis",
                                     "consecutive_hysteresis")})
    if (const io::JsonValue *value = section->findNonNull(name))
      readKey(settingOf(key), *value, merger);
}

void config::mergeLossScaleDefault(Merger &merger) {
  const Settings &values = merger.result.values;
  if (values.precision == Precision::FP16 && values.mode == Mode::Train &&
      !merger.isGiven("loss_scale"))
    merger.give("loss_scale", std::string("dynamic"),
                {Origin::Kind::Derived, "the default of fp16", {}});
}
