//===- LearningRate.h - Learning-rate schedules as numbers ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DeepSpeed's learning-rate schedules in a plan: an enumerator and numbers. The
// import reads them by name (Settings/LearningRate.h), and
// runtime/optim/LearningRate.h evaluates them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_LEARNINGRATE_H
#define HEDDLE_PLANFORMAT_LEARNINGRATE_H

#include "heddle/PlanFormat/Names.h"

#include <map>

namespace heddle::plan {

/// How the learning rate changes from step to step.
enum class RateSchedule {
  Constant,
  WarmupLR,
  WarmupDecayLR,
  WarmupCosineLR,
  OneCycle,
  LRRangeTest
};
template <>
inline constexpr std::array enumNames<RateSchedule> = {
    "",         "WarmupLR",   "WarmupDecayLR", "WarmupCosineLR",
    "OneCycle", "LRRangeTest"};

/// The parameters of the schedules, sorted by name.
enum class RateParameter {
  CosMinRatio,
  CycleFirstStairCount,
  CycleFirstStepSize,
  CycleMaxLr,
  CycleMaxMom,
  CycleMinLr,
  CycleMinMom,
  CycleMomentum,
  CycleSecondStairCount,
  CycleSecondStepSize,
  DecayLrRate,
  DecayMomRate,
  DecayStepSize,
  LrRangeTestMinLr,
  LrRangeTestStaircase,
  LrRangeTestStepRate,
  LrRangeTestStepSize,
  TotalNumSteps,
  WarmupMaxLr,
  WarmupMinLr,
  WarmupMinRatio,
  WarmupNumSteps,
  WarmupType
};
template <>
inline constexpr std::array enumNames<RateParameter> = {
    "cos_min_ratio",
    "cycle_first_stair_count",
    "cycle_first_step_size",
    "cycle_max_lr",
    "cycle_max_mom",
    "cycle_min_lr",
    "cycle_min_mom",
    "cycle_momentum",
    "cycle_second_stair_count",
    "cycle_second_step_size",
    "decay_lr_rate",
    "decay_mom_rate",
    "decay_step_size",
    "lr_range_test_min_lr",
    "lr_range_test_staircase",
    "lr_range_test_step_rate",
    "lr_range_test_step_size",
    "total_num_steps",
    "warmup_max_lr",
    "warmup_min_lr",
    "warmup_min_ratio",
    "warmup_num_steps",
    "warmup_type"};

/// How ds_config.json writes a parameter.
enum class RateParameterKind {
  Number,
  Integer,
  Bool,       ///< true is 1, false is 0.
  WarmupType, ///< "log" is 0, "linear" is 1.
};
constexpr RateParameterKind kindOf(RateParameter parameter) {
  switch (parameter) {
  case RateParameter::CycleFirstStairCount:
  case RateParameter::CycleFirstStepSize:
  case RateParameter::CycleSecondStairCount:
  case RateParameter::CycleSecondStepSize:
  case RateParameter::DecayStepSize:
  case RateParameter::LrRangeTestStepSize:
  case RateParameter::TotalNumSteps:
  case RateParameter::WarmupNumSteps:
    return RateParameterKind::Integer;
  case RateParameter::CycleMomentum:
  case RateParameter::LrRangeTestStaircase:
    return RateParameterKind::Bool;
  case RateParameter::WarmupType:
    return RateParameterKind::WarmupType;
  default:
    return RateParameterKind::Number;
  }
}

/// A schedule and the parameters that are given for it. Others have DeepSpeed's
/// defaults.
struct Scheduler {
  RateSchedule type = RateSchedule::Constant;
  std::map<RateParameter, double> parameters;
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_LEARNINGRATE_H
