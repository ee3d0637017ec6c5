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

/// The cluster in `file`; if "", the one in the plan, or nothing. Throws as
/// readCluster does, and H0227 if the plan has more ranks than the cluster.
std::optional<cost::Cluster> clusterOf(const plan::Plan &plan,
                                       const std::string &file);

/// The link of each axis of the mesh, and the ranks of each node, as JSON.
nlohmann::json clusterJson(const plan::Plan &plan,
                           const cost::Cluster &cluster);
void printCluster(const plan::Plan &plan, const cost::Cluster &cluster);

/// The warning that updates on the host count as no time, since the cluster
/// file lacks their rate (see ClusterCost::isHostUnrated).
std::string warnOfHostUpdates(const cost::Cluster &cluster);

/// The axes over which a line of traffic communicates, such as `data` and
/// `seq`.
std::vector<std::string> axesOf(const rt::TrafficLine &line);
/// Seconds of the line's exchanges; 0 if the link's rate is unknown.
double secondsOf(const rt::TrafficLine &line, const cost::ClusterCost &cost);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H
