//===- ExplainCluster.h - A plan on its machines ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H

#include "heddle/Cost/ClusterCost.h"
#include "heddle/runtime/core/Traffic.h"

namespace heddle::driver {

/// The cluster in the file, or with "" the one that the plan was compiled with,
/// or nothing. Throws as readCluster does, and H0227 when the plan has more
/// ranks.
std::optional<cost::Cluster> clusterOf(const plan::Plan &plan,
                                       const std::string &file);

/// Which link each axis of the mesh uses, and which ranks are on which node.
nlohmann::json clusterJson(const plan::Plan &plan,
                           const cost::Cluster &cluster);
void printCluster(const plan::Plan &plan, const cost::Cluster &cluster);

/// Why updates on the host have no time (see ClusterCost::isHostUnrated).
std::string warnOfHostUpdates(const cost::Cluster &cluster);

/// The axes that a line of traffic names, `data,seq`.
std::vector<std::string> axesOf(const rt::TrafficLine &line);
/// What the exchanges of the line take; 0 when the link is not known.
double secondsOf(const rt::TrafficLine &line, const cost::ClusterCost &cost);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINCLUSTER_H
