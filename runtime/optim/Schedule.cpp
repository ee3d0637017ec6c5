//===- Schedule.cpp - Learning rates over the steps of a run --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/optim/Schedule.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

const std::vector<std::string> &Schedule::names() {
  static const std::vector<std::string> all = {
      "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"};
  return all;
}

/// A parameter, or its default when it is absent or null.
template <typename T>
static T parameter(const json &params, const char *name, T fallback) {
  auto found = params.find(name);
  if (found == params.end() || found->is_null())
    return fallback;
  return found->get<T>();
}

Schedule::Schedule(const plan::Scheduler &scheduler, double baseRate)
    : baseRate(baseRate) {
  const std::string &type = scheduler.type;
  const json &params = scheduler.params;
  try {
    if (type.empty())
      return;
    if (type == "WarmupLR" || type == "WarmupDecayLR") {
      kind = type == "WarmupLR" ? Kind::Warmup : Kind::Decay;
      minimum = parameter(params, "warmup_min_lr", 0.0);
      maximum = parameter(params, "warmup_max_lr",
                          kind == Kind::Warmup ? baseRate : 0.001);
      readWarmup(params);
    } else if (type == "WarmupCosineLR") {
      kind = Kind::Cosine;
      minimumRatio = parameter(params, "warmup_min_ratio", 0.0);
      cosineRatio = parameter(params, "cos_min_ratio", 0.0001);
      readWarmup(params);
    } else if (type == "OneCycle") {
      kind = Kind::OneCycle;
      readOneCycle(params);
    } else if (type == "LRRangeTest") {
      kind = Kind::RangeTest;
      minimum = parameter(params, "lr_range_test_min_lr", 1e-3);
      firstSize = parameter(params, "lr_range_test_step_size", 2000);
      stepRate = parameter(params, "lr_range_test_step_rate", 1.0);
      staircase = parameter(params, "lr_range_test_staircase", false);
    } else {
      std::string nearest = closestMatch(type, names());
      fail("H0194", "unknown learning-rate schedule \"" + type + "\"",
           nearest.empty() ? "use WarmupLR, WarmupDecayLR, WarmupCosineLR, "
                             "OneCycle or LRRangeTest"
                           : "did you mean \"" + nearest + "\"?");
    }
  } catch (const json::exception &error) {
    fail("H0194",
         "the parameters of schedule \"" + type +
             "\" are not right: " + error.what(),
         "give each of them the type that DeepSpeed documents");
  }
}

void Schedule::readWarmup(const json &params) {
  warmupSteps = std::max<int64_t>(
      2, parameter<int64_t>(params, "warmup_num_steps", 1000));
  logarithmic =
      parameter<std::string>(params, "warmup_type", "log") != "linear";
  if (kind != Kind::Warmup)
    totalSteps = params.at("total_num_steps").get<int64_t>();
}

void Schedule::readOneCycle(const json &params) {
  minimum = params.at("cycle_min_lr").get<double>();
  maximum = params.at("cycle_max_lr").get<double>();
  stepRate = parameter(params, "decay_lr_rate", 0.0);
  firstSize = parameter(params, "cycle_first_step_size", 2000);
  secondSize = parameter(params, "cycle_second_step_size", firstSize);
  firstStairs = parameter<int64_t>(params, "cycle_first_stair_count", 0);
  secondStairs =
      parameter<int64_t>(params, "cycle_second_stair_count", firstStairs);
  decaySize = parameter(params, "decay_step_size", 0.0);
}

double Schedule::rate(int64_t update) const {
  switch (kind) {
  case Kind::Constant:
    return baseRate;
  case Kind::Warmup:
  case Kind::Decay:
    return warmup(update);
  case Kind::Cosine:
    return warmupCosine(update);
  case Kind::OneCycle:
    return oneCycle(update);
  case Kind::RangeTest:
    return rangeTest(update);
  }
  return baseRate;
}

double Schedule::warmupFraction(int64_t iteration) const {
  if (logarithmic)
    return std::log(iteration + 1.0) / std::log(double(warmupSteps));
  return double(iteration) / warmupSteps;
}

double Schedule::warmup(int64_t update) const {
  // The schedule's own counter starts at 0, and advances after an update.
  int64_t iteration = std::max<int64_t>(0, update - 2);
  double fraction = 1;
  if (iteration < warmupSteps)
    fraction = warmupFraction(iteration);
  else if (kind == Kind::Decay)
    fraction =
        std::max(0.0, double(totalSteps - iteration) /
                          std::max<int64_t>(1, totalSteps - warmupSteps));
  return minimum + fraction * (maximum - minimum);
}

double Schedule::warmupCosine(int64_t update) const {
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

double Schedule::oneCycle(int64_t update) const {
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

double Schedule::rangeTest(int64_t update) const {
  double intervals = double(update - 1) / firstSize;
  if (staircase)
    intervals = std::floor(intervals);
  return minimum * (1 + stepRate * intervals);
}
