//===- ExplainPlan.h - A rank of a plan as JSON -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What `heddle explain --json` and `heddle report` say about a rank.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINPLAN_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINPLAN_H

#include "ExplainAttention.h"
#include "ExplainBound.h"
#include "ExplainLayerDrop.h"
#include "ExplainSchedule.h"
#include "heddle/runtime/core/Traffic.h"

namespace heddle::driver {

/// Returns the program whose step is described: the training program, or the
/// first program if the plan does not train. Null if there is none.
const plan::Program *mainProgram(const plan::Plan &plan);
/// Returns how often a kernel is launched in a training step.
int64_t callsOf(const plan::Plan &plan, size_t kernel);
/// Returns what a rank sends in a step. Each entry sums up the collectives or
/// messages of one kind over the same mesh axes.
std::vector<rt::TrafficLine> trafficOf(const plan::Plan &plan, int64_t rank);
/// Returns the bytes that a rank copies in a step between kinds of memory.
std::vector<rt::MoveLine> movesOf(const plan::Plan &plan);
rt::HostUpdates hostUpdatesOf(const plan::Plan &plan);
/// Returns the number of floating-point operations of a step, summed over all
/// ranks.
double flopsPerStep(const plan::Plan &plan);

/// The figures of a rank of a plan, whose stage the plan has selected.
class RankExplanation {
public:
  /// `cluster` may be null. `trace` is "" or names the trace files of a run
  /// (see readTraces). `plan` and `cluster` must outlive this object.
  RankExplanation(const plan::Plan &plan, int64_t rank,
                  const cost::Cluster *cluster, const std::string &trace);

  /// Returns the output of `heddle explain --json`, without `--modules`.
  nlohmann::json toJson() const;
  /// The times of the plan on the cluster; null without a cluster.
  const cost::ClusterCost *cost() const { return known ? &*known : nullptr; }

private:
  const plan::Plan &plan;
  int64_t rank;
  const cost::Cluster *cluster;
  std::optional<cost::ClusterCost> known;

public:
  const plan::Program *const program; ///< Of the step; null if there is none.
  const StepSchedule schedule;
  const StepBound bound;
  const LayerDropCost drops;
  const AttentionLayouts layouts;
};

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINPLAN_H
