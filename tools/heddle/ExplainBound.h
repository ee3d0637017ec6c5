//===- ExplainBound.h - What a step is bound by -----------------*- C++ -*-===//
//
// WorkKind of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINBOUND_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINBOUND_H

#include "heddle/Cost/ClusterCost.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// What a rank does in a run of a program, each kind of work by itself: the one
/// that takes longest bounds the run, however much of the rest goes on beside
/// it. In seconds by the figures of a cluster; without one in bytes for each
/// floating-point operation, which says at which rates work is the bound.
class StepBound {
public:
  StepBound() = default;
  /// `cost` may be null. Of the plan's selected stage, that of the rank.
  StepBound(const plan::Plan &plan, const plan::Program &program, int64_t rank,
            const cost::ClusterCost *cost);

  nlohmann::json toJson() const;
  void print() const;

private:
  struct WorkKind {
    std::string name; ///< As `computation`, `device to host`, `disk`.
    double bytes = 0;
    std::optional<double> seconds; ///< Nothing: the cluster does not say.
  };
  WorkKind &kindOf(const std::string &name);
  void addMoves(const plan::Plan &plan, const plan::Program &program,
                const cost::SequenceTime &time);
  /// The kind that takes longest of those with a time; null without one.
  const WorkKind *longest() const;
  void printSeconds() const;
  void printRates() const;

  const cost::ClusterCost *cost = nullptr; ///< Where it has times.
  double flops = 0;
  std::vector<WorkKind> kinds; ///< Computation first.
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINBOUND_H
