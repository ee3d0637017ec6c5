//===- ExplainBound.h - What bounds the time of a step ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A roofline estimate for `heddle explain`: which kind of work limits the speed
// of a program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINBOUND_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINBOUND_H

#include "heddle/Cost/ClusterCost.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// The work of one rank in one run of a program, by kind: computation, and
/// transfers over each link. All kinds of work overlap, so that the kind that
/// takes longest limits the run. With a cluster file, each kind has a time.
/// Without one, transfers are given in bytes per floating-point operation, and
/// the output says at which rate of a link its transfers would be the limit.
class StepBound {
public:
  StepBound() = default;
  /// Adds up the work of the plan's selected stage, to which `rank` must
  /// belong. Without `cost` (null) no kind of work has a time.
  StepBound(const plan::Plan &plan, const plan::Program &program, int64_t rank,
            const cost::ClusterCost *cost);

  nlohmann::json toJson() const;
  void print() const;

private:
  struct WorkKind {
    std::string name; ///< `computation`, `device to host`, `disk` ...
    double bytes = 0;
    std::optional<double> seconds; ///< Nothing: the cluster file has no rate.
  };
  WorkKind &kindOf(const std::string &name);
  void addMoves(const plan::Plan &plan, const plan::Program &program,
                const cost::SequenceTime &time);
  /// Returns the kind of work that takes longest, among the kinds with a known
  /// time. Returns null if no time is known.
  const WorkKind *longest() const;
  void printSeconds() const;
  void printRates() const;

  const cost::ClusterCost *cost = nullptr; ///< Null: without times.
  double flops = 0;
  std::vector<WorkKind> kinds; ///< Computation is first.
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINBOUND_H
