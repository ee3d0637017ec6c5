//===- LearningRate.cpp - Reads the learning-rate schedule ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Settings/LearningRate.h"

using namespace heddle;
using nlohmann::json;
using plan::RateParameter;
using plan::RateSchedule;

/// A parameter's value as a number. Throws json::exception if the value has the
/// wrong JSON type.
static double readNumber(RateParameter parameter, const json &value) {
  using Kind = plan::RateParameterKind;
  Kind kind = kindOf(parameter);
  return kind == Kind::Integer ? double(value.get<int64_t>())
         : kind == Kind::Bool  ? value.get<bool>()
         : kind == Kind::WarmupType
             ? value.get_ref<const std::string &>() == "linear"
             : value.get<double>();
}

/// The parameters without a default.
static std::vector<RateParameter> requiredBy(RateSchedule schedule) {
  if (schedule == RateSchedule::OneCycle)
    return {RateParameter::CycleMinLr, RateParameter::CycleMaxLr};
  if (schedule == RateSchedule::WarmupDecayLR ||
      schedule == RateSchedule::WarmupCosineLR)
    return {RateParameter::TotalNumSteps};
  return {};
}

std::optional<plan::Scheduler> config::readScheduler(const Settings &settings,
                                                     std::string &wrong) {
  plan::Scheduler scheduler;
  std::string type = wordOf(settings.scheduler);
  scheduler.type = *plan::parseName<RateSchedule>(type);
  try {
    json params = json::parse(settings.schedulerParams);
    for (const auto &[name, value] : params.items())
      if (auto parameter = json(name).get<RateParameter>(); !value.is_null())
        scheduler.parameters[parameter] = readNumber(parameter, value);
    for (RateParameter parameter : requiredBy(scheduler.type))
      params.at(plan::nameOf(parameter));
  } catch (const json::exception &error) {
    wrong = "the parameters of schedule \"" + type +
            "\" are not right: " + error.what();
    return std::nullopt;
  }
  return scheduler;
}
