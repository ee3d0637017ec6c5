//===- ExplainCluster.h - A plan on the machines of a cluster ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of `heddle explain` that need a cluster file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H

#include "heddle/Cost/ClusterCost.h"
#include "heddle/runtime/core/Traffic.h"

namespace heddle::driver {

/// Returns the cluster that `file` describes. If `file` is "", returns the
/// cluster that the plan contains, or nothing. Throws the errors of
/// readCluster, and H0227 if the plan has more ranks than the cluster.
std::optional<cost::Cluster> clusterOf(const plan::Plan &plan,
                                       const std::string &file);

/// Returns as JSON the link of each axis of the mesh, and the ranks that are on
/// each node.
nlohmann::json clusterJson(const plan::Plan &plan,
                           const cost::Cluster &cluster);
void printCluster(const plan::Plan &plan, const cost::Cluster &cluster);

/// Returns the warning that updates on the host are estimated to take no time,
/// since the cluster file lacks their rate (see ClusterCost::isHostUnrated).
std::string warnOfHostUpdates(const cost::Cluster &cluster);

/// Returns the names of the mesh axes over which the collectives or messages of
/// `line` communicate, for example `data` and `seq`.
std::vector<std::string> axesOf(const rt::TrafficLine &line);
/// Returns the seconds that the collectives or messages of `line` take in one
/// run of the program. Returns 0 if the cluster file lacks the rate of the link
/// that they use.
double secondsOf(const rt::TrafficLine &line, const cost::ClusterCost &cost);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H
