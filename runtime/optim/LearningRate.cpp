//===- LearningRate.cpp - Evaluates learning-rate schedules ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/optim/LearningRate.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;
using P = plan::RateParameter;
using plan::RateSchedule;

LearningRate::LearningRate(const plan::Scheduler &scheduler, double baseRate)
    : schedule(scheduler.type), baseRate(baseRate) {
  auto get = [&](P parameter, double fallback) {
    auto found = scheduler.parameters.find(parameter);
    return found == scheduler.parameters.end() ? fallback : found->second;
  };
  bool isCycle = schedule == RateSchedule::OneCycle;
  bool isRangeTest = schedule == RateSchedule::LRRangeTest;
  // DeepSpeed's defaults. Parameters that must be given have 0 here.
  minimum = isCycle       ? get(P::CycleMinLr, 0)
            : isRangeTest ? get(P::LrRangeTestMinLr, 1e-3)
                          : get(P::WarmupMinLr, 0);
  maximum = isCycle
                ? get(P::CycleMaxLr, 0)
                : get(P::WarmupMaxLr,
                      schedule == RateSchedule::WarmupLR ? baseRate : 0.001);
  minimumRatio = get(P::WarmupMinRatio, 0);
  cosineRatio = get(P::CosMinRatio, 0.0001);
  logarithmic = get(P::WarmupType, 0) == 0;
  warmupSteps = std::max<int64_t>(2, int64_t(get(P::WarmupNumSteps, 1000)));
  totalSteps = int64_t(get(P::TotalNumSteps, 0));
  firstSize = isRangeTest ? get(P::LrRangeTestStepSize, 2000)
                          : get(P::CycleFirstStepSize, 2000);
  secondSize = get(P::CycleSecondStepSize, firstSize);
  decaySize = get(P::DecayStepSize, 0);
  firstStairs = int64_t(get(P::CycleFirstStairCount, 0));
  secondStairs = int64_t(get(P::CycleSecondStairCount, double(firstStairs)));
  stepRate =
      isRangeTest ? get(P::LrRangeTestStepRate, 1) : get(P::DecayLrRate, 0);
  staircase = get(P::LrRangeTestStaircase, 0) != 0;
}

std::vector<double> LearningRate::next(int64_t updates, int64_t count) const {
  std::vector<double> rates(count);
  for (int64_t before = updates; before < updates + count; ++before)
    rates[before % count] = at(before + 1);
  return rates;
}

double LearningRate::at(int64_t update) const {
  switch (schedule) {
  case RateSchedule::Constant:
    return baseRate;
  case RateSchedule::WarmupLR:
  case RateSchedule::WarmupDecayLR:
    return warmup(update);
  case RateSchedule::WarmupCosineLR:
    return warmupCosine(update);
  case RateSchedule::OneCycle:
    return oneCycle(update);
  case RateSchedule::LRRangeTest:
    return rangeTest(update);
  }
  return baseRate;
}

double LearningRate::warmupFraction(int64_t iteration) const {
  if (logarithmic)
    return std::log(iteration + 1.0) / std::log(double(warmupSteps));
  return double(iteration) / warmupSteps;
}

double LearningRate::warmup(int64_t update) const {
  // DeepSpeed sets the rate of iteration 0 after the first update, so update u
  // uses the rate of iteration u - 2. The first update uses that of iteration
  // 0, too.
  int64_t iteration = std::max<int64_t>(0, update - 2);
  double fraction = 1;
  if (iteration < warmupSteps)
    fraction = warmupFraction(iteration);
  else if (schedule == RateSchedule::WarmupDecayLR)
    fraction =
        std::max(0.0, double(totalSteps - iteration) /
                          std::max<int64_t>(1, totalSteps - warmupSteps));
  return minimum + fraction * (maximum - minimum);
}

double LearningRate::warmupCosine(int64_t update) const {
  int64_t iteration = update - 2;
  if (iteration < 0)
    return 0;
  if (iteration < warmupSteps)
    return baseRate *
           (minimumRatio + warmupFraction(iteration) * (1 - minimumRatio));
  double done = double(iteration - warmupSteps + 1) /
                std::max<int64_t>(1, totalSteps - warmupSteps);
  double cosine = (1 + std::cos(M_PI * std::min(1.0, done))) / 2;
  return baseRate * (cosineRatio + (1 - cosineRatio) * cosine);
}

double LearningRate::oneCycle(int64_t update) const {
  double iteration = double(update - 1);
  if (iteration > firstSize + secondSize) {
    double after = iteration - (firstSize + secondSize);
    double intervals = decaySize > 0 ? after / decaySize : 0;
    return minimum / (1 + stepRate * intervals);
  }
  bool rising = iteration <= firstSize;
  double height =
      rising ? iteration / firstSize : 1 - (iteration - firstSize) / secondSize;
  int64_t stairs = rising ? firstStairs : secondStairs;
  if (stairs > 0)
    height = std::floor(height * stairs) / stairs;
  return minimum + (maximum - minimum) * height;
}

double LearningRate::rangeTest(int64_t update) const {
  double intervals = double(update - 1) / firstSize;
  if (staircase)
    intervals = std::floor(intervals);
  return minimum * (1 + stepRate * intervals);
}

/// A parameter's value as ds_config.json writes it.
static nlohmann::json describe(plan::RateParameterKind kind, double value) {
  using Kind = plan::RateParameterKind;
  if (kind == Kind::WarmupType)
    return value == 0 ? "log" : "linear";
  return kind == Kind::Integer ? nlohmann::json(int64_t(value))
         : kind == Kind::Bool  ? nlohmann::json(value != 0)
                               : nlohmann::json(value);
}

nlohmann::json
heddle::rt::describeParameters(const plan::Scheduler &scheduler) {
  auto json = nlohmann::json::object();
  for (auto [parameter, value] : scheduler.parameters)
    json[plan::nameOf(parameter)] = describe(kindOf(parameter), value);
  return json;
}
