//===- LearningRate.h - Evaluates learning-rate schedules -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates learning-rate schedules. `train` and the interpreter pass the rate
// of an update as an input to the program that computes the update.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_OPTIM_LEARNINGRATE_H
#define HEDDLE_RUNTIME_OPTIM_LEARNINGRATE_H

#include "heddle/PlanFormat/Plan.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// The learning rate of each update of a run: the rate that DeepSpeed's
/// optimizer uses in that update. With DeepSpeed's warm-up schedules, an update
/// uses the rate that the schedule's formula gives for the previous update,
/// because DeepSpeed computes the rate after each update.
class LearningRate {
public:
  /// `baseRate` is the optimizer's rate.
  LearningRate(const plan::Scheduler &scheduler, double baseRate);

  /// The rate of update `update`, counted from 1.
  double at(int64_t update) const;
  /// The rates of the next `count` updates after `updates` updates. The rate of
  /// the update after u updates is at index u modulo `count`; see
  /// plan::ratesPerStep.
  std::vector<double> next(int64_t updates, int64_t count) const;

private:
  double warmup(int64_t update) const;
  double warmupCosine(int64_t update) const;
  double oneCycle(int64_t update) const;
  double rangeTest(int64_t update) const;
  double warmupFraction(int64_t iteration) const;

  plan::RateSchedule schedule;
  double baseRate;
  double minimum = 0, maximum = 0; ///< Learning rates.
  double minimumRatio = 0, cosineRatio = 0;
  bool logarithmic = true;
  int64_t warmupSteps = 2, totalSteps = 0;
  double firstSize = 0, secondSize = 0, decaySize = 0; ///< In steps.
  int64_t firstStairs = 0, secondStairs = 0;
  /// lr_range_test_step_rate of LRRangeTest, or decay_lr_rate of OneCycle: how
  /// fast the rate grows in the test, or decays after the cycle.
  double stepRate = 0;
  bool staircase = false;
};

/// The schedule's parameters as in ds_config.json: `{"warmup_num_steps": 100,
/// ...}`.
nlohmann::json describeParameters(const plan::Scheduler &scheduler);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_OPTIM_LEARNINGRATE_H
