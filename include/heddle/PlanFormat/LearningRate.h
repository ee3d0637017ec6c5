//===- LearningRate.h - Learning-rate schedules as numbers ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DeepSpeed's learning-rate schedules, as a plan has them: the kind of schedule
// and its parameters. The import reads them by name (Settings/LearningRate.h),
// and runtime/optim/LearningRate.h evaluates them.
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

/// How ds_config.json writes a parameter.
enum class RateParameterKind {
  Number,
  Integer,
  Bool,       ///< JSON's true or false, stored as 1 or 0.
  WarmupType, ///< "log" or "linear", stored as 0 or 1.
};

/// The parameters of the schedules, sorted by name. Each has an enumerator, a
/// name, and the type of its values.
#define HEDDLE_RATE_PARAMETERS(X)                                              \
  X(CosMinRatio, "cos_min_ratio", Number)                                      \
  X(CycleFirstStairCount, "cycle_first_stair_count", Integer)                  \
  X(CycleFirstStepSize, "cycle_first_step_size", Integer)                      \
  X(CycleMaxLr, "cycle_max_lr", Number)                                        \
  X(CycleMaxMom, "cycle_max_mom", Number)                                      \
  X(CycleMinLr, "cycle_min_lr", Number)                                        \
  X(CycleMinMom, "cycle_min_mom", Number)                                      \
  X(CycleMomentum, "cycle_momentum", Bool)                                     \
  X(CycleSecondStairCount, "cycle_second_stair_count", Integer)                \
  X(CycleSecondStepSize, "cycle_second_step_size", Integer)                    \
  X(DecayLrRate, "decay_lr_rate", Number)                                      \
  X(DecayMomRate, "decay_mom_rate", Number)                                    \
  X(DecayStepSize, "decay_step_size", Integer)                                 \
  X(LrRangeTestMinLr, "lr_range_test_min_lr", Number)                          \
  X(LrRangeTestStaircase, "lr_range_test_staircase", Bool)                     \
  X(LrRangeTestStepRate, "lr_range_test_step_rate", Number)                    \
  X(LrRangeTestStepSize, "lr_range_test_step_size", Integer)                   \
  X(TotalNumSteps, "total_num_steps", Integer)                                 \
  X(WarmupMaxLr, "warmup_max_lr", Number)                                      \
  X(WarmupMinLr, "warmup_min_lr", Number)                                      \
  X(WarmupMinRatio, "warmup_min_ratio", Number)                                \
  X(WarmupNumSteps, "warmup_num_steps", Integer)                               \
  X(WarmupType, "warmup_type", WarmupType)

enum class RateParameter {
#define X(PARAMETER, NAME, KIND) PARAMETER,
  HEDDLE_RATE_PARAMETERS(X)
#undef X
};
#define X(PARAMETER, NAME, KIND) NAME,
template <>
inline constexpr std::array enumNames<RateParameter> = {
    HEDDLE_RATE_PARAMETERS(X)};
#undef X

constexpr RateParameterKind kindOf(RateParameter parameter) {
#define X(PARAMETER, NAME, KIND) RateParameterKind::KIND,
  constexpr RateParameterKind kinds[] = {HEDDLE_RATE_PARAMETERS(X)};
#undef X
  return kinds[size_t(parameter)];
}
#undef HEDDLE_RATE_PARAMETERS

/// A schedule, and the parameters that are given for it. Parameters that are
/// not given have DeepSpeed's defaults.
struct Scheduler {
  RateSchedule type = RateSchedule::Constant;
  std::map<RateParameter, double> parameters;
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_LEARNINGRATE_H
