//===- Hyperparameters.h - Hyperparameters of a training run ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hyperparameters of a training run. The binary has the initial values, and
// flags of `train` (--lr, --warmup-steps ...) change them. A resumed run keeps
// the values that its earlier flags have set.
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

/// Values by the names of `train`'s flags, with underscores: lr, min_lr,
/// warmup_steps, train_steps, weight_decay, clip.
using HyperValues = std::map<std::string, double>;

/// The optimizer and the learning-rate schedule of a run: the binary's, with
/// the values that the run was given.
class Hyperparameters {
public:
  explicit Hyperparameters(const plan::Plan &plan);

  /// Sets the values of `flags`. `before` has the values that the flags of the
  /// resumed run have set. Each of these is kept, unless `flags` sets it again
  /// or this binary has no such hyperparameter. Returns the values that were
  /// set. Throws H0123 for a flag that the schedule does not have, H0178 for
  /// one that the binary's updates do not read, and H0176 for a lowest rate
  /// above the highest.
  HyperValues tell(const HyperValues &flags, const HyperValues &before = {});

  /// Returns the current values. The schedule's parameters are included only if
  /// the configuration or a flag sets them.
  HyperValues values() const;
  /// Formats the values for messages: AdamW, lr 0.001, WarmupLR, warmup_steps
  /// 100 ...
  std::string text() const;
  /// The values as JSON, with the schedule's own parameters.
  nlohmann::ordered_json toJson() const;

  plan::Optimizer optimizer;
  plan::Scheduler scheduler;

private:
  /// Whether the binary's updates read the weight decay and the maximum
  /// gradient norm as inputs, so that flags can change these.
  bool takesDecay = false, takesNorm = false;
  /// The schedule's parameters that `tell` has set.
  std::set<plan::RateParameter> toldParameters;

  void addSchedule(const HyperValues &told);
  void setOfUpdate(const std::string &name, double value);
  void set(const std::string &name, double value);
  /// Returns the parameter of the schedule that the flag `name` sets. Returns
  /// nothing if the schedule has no such parameter.
  std::optional<plan::RateParameter> parameterOf(const std::string &name) const;
  bool hasOwnRate() const;
  bool has(const std::string &name) const;
};

/// Returns a line for each hyperparameter whose value differs from that in
/// `before`, such as `lr 0.001 (before: 0.0001)`.
std::vector<std::string> describeChanges(const HyperValues &before,
                                         const HyperValues &now);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_OPTIM_HYPERPARAMETERS_H
