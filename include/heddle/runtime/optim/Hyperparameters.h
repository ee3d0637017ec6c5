//===- Hyperparameters.h - The numbers of a run's updates -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_OPTIM_HYPERPARAMETERS_H
#define HEDDLE_RUNTIME_OPTIM_HYPERPARAMETERS_H

#include "heddle/PlanFormat/Plan.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace heddle::rt {

/// Numbers by the names of `train`'s flags, with underscores: lr, min_lr,
/// warmup_steps, train_steps, weight_decay, clip.
using HyperValues = std::map<std::string, double>;

/// What the updates of a run take: the binary's optimizer and schedule, with
/// the numbers that the run was told in their place.
class Hyperparameters {
public:
  explicit Hyperparameters(const plan::Plan &plan);

  /// Takes the numbers of flags, and where there is no flag those that the
  /// resumed run was told before, as far as the schedule still has them.
  /// Returns what was taken. Throws H0123 for a flag that the schedule does not
  /// have, H0178 for one that the binary's updates do not read, and H0176 for a
  /// lowest rate above the highest.
  HyperValues tell(const HyperValues &flags, const HyperValues &before = {});

  /// The numbers that there are: those of the schedule only where it has them.
  HyperValues values() const;
  /// All of them, for people: AdamW, lr 0.001, WarmupLR, warmup_steps 100 ...
  std::string text() const;
  /// The same as JSON, with the schedule's own parameters.
  nlohmann::ordered_json toJson() const;

  plan::Optimizer optimizer;
  plan::Scheduler scheduler;

private:
  /// What the steps of the plan read, besides the learning rate.
  bool takesDecay = false, takesNorm = false;
  /// The schedule's parameters that `tell` has set.
  std::set<plan::RateParameter> toldParameters;

  void addSchedule(const HyperValues &told);
  void setOfUpdate(const std::string &name, double value);
  void set(const std::string &name, double value);
  /// The schedule's parameter that a flag sets; nothing when it has none.
  std::optional<plan::RateParameter> parameterOf(const std::string &name) const;
  bool hasOwnRate() const;
  bool has(const std::string &name) const;
};

/// What differs, a line for each number: lr 0.001 (before: 0.0001).
std::vector<std::string> describeChanges(const HyperValues &before,
                                         const HyperValues &now);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_OPTIM_HYPERPARAMETERS_H
