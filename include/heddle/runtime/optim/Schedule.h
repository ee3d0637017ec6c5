//===- Schedule.h - Learning rates over the steps of a run ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_OPTIM_SCHEDULE_H
#define HEDDLE_RUNTIME_OPTIM_SCHEDULE_H

#include "heddle/PlanFormat/Plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

/// A learning-rate schedule with DeepSpeed's names, parameters and defaults. It
/// gives the rate that DeepSpeed's optimizer uses in an update, which for the
/// warm-up schedules lags one step behind their formula.
class Schedule {
public:
  /// `scheduler.type` is empty for a constant rate, or one of `names()`. Throws
  /// H0194 for another, and for parameters that are missing or of a wrong type.
  Schedule(const plan::Scheduler &scheduler, double baseRate);

  /// The rate of update `update`, counted from 1.
  double rate(int64_t update) const;

  /// The schedules there are.
  static const std::vector<std::string> &names();

private:
  double warmup(int64_t update) const;
  double warmupCosine(int64_t update) const;
  double oneCycle(int64_t update) const;
  double rangeTest(int64_t update) const;
  double warmupFraction(int64_t iteration) const;
  void readWarmup(const nlohmann::json &params);
  void readOneCycle(const nlohmann::json &params);

  enum class Kind { Constant, Warmup, Decay, Cosine, OneCycle, RangeTest };
  Kind kind = Kind::Constant;
  double baseRate;
  double minimum = 0, maximum = 0;
  double minimumRatio = 0, cosineRatio = 0;
  bool logarithmic = true;
  int64_t warmupSteps = 2, totalSteps = 0;
  double firstSize = 0, secondSize = 0, decaySize = 0;
  int64_t firstStairs = 0, secondStairs = 0;
  double stepRate = 0; ///< Of the range test, or of a cycle's decay.
  bool staircase = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_OPTIM_SCHEDULE_H
