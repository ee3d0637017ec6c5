//===- ExplainCluster.cpp - A plan on the machines of a cluster -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the link of the cluster over which each axis of the mesh communicates,
// and estimates the times of collectives and messages.
//
//===----------------------------------------------------------------------===//

#include "ExplainCluster.h"
#include "ExplainText.h"
#include "heddle/Import/Parallel.h"
#include "heddle/PlanFormat/Format.h"
#include <algorithm>
#include <iostream>
#include <sstream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

std::optional<cost::Cluster> driver::clusterOf(const plan::Plan &plan,
                                               const std::string &file) {
  if (file.empty() && !plan.strategy.contains("cluster"))
    return std::nullopt;
  config::Cluster cluster =
      file.empty()
          ? config::parseCluster(plan.strategy["cluster"].dump(), "the plan")
          : config::readCluster(file);
  if (plan.mesh.ranks() > cluster.ranks())
    fail("H0227",
         "the plan has " + std::to_string(plan.mesh.ranks()) + " ranks, " +
             cluster.name + " " + std::to_string(cluster.ranks()),
         "give a cluster of as many ranks", cluster.nodesLocation);
  return cluster;
}

std::string driver::warnOfHostUpdates(const cost::Cluster &cluster) {
  return "updates on the host's cores count as no time: " + cluster.name +
         " does not say host_memory_bandwidth";
}

std::vector<std::string> driver::axesOf(const rt::TrafficLine &line) {
  std::vector<std::string> axes;
  std::istringstream text(line.axes);
  for (std::string axis; std::getline(text, axis, ',');)
    axes.push_back(axis);
  return axes;
}

double driver::secondsOf(const rt::TrafficLine &line,
                         const cost::ClusterCost &cost) {
  return cost.secondsOf(axesOf(line), line.kind, line.calls, line.bytesSent);
}

/// Returns the number of nodes on which the plan's ranks are.
static int64_t nodesOf(const plan::Plan &plan, const cost::Cluster &cluster) {
  return (plan.mesh.ranks() + cluster.ranksPerNode - 1) / cluster.ranksPerNode;
}

json driver::clusterJson(const plan::Plan &plan, const cost::Cluster &cluster) {
  json links = json::object(), nodes = json::array();
  for (const plan::Mesh::Axis &axis : plan.mesh.axes)
    if (axis.size > 1)
      links[axis.name] = cluster.isInside(plan.mesh, {axis.name})
                             ? "intra_node"
                             : "inter_node";
  for (int64_t node = 0; node < nodesOf(plan, cluster); ++node)
    nodes.push_back(
        {node * cluster.ranksPerNode,
         std::min((node + 1) * cluster.ranksPerNode, plan.mesh.ranks()) - 1});
  return {{"name", cluster.name}, {"links", links}, {"nodes", nodes}};
}

void driver::printCluster(const plan::Plan &plan,
                          const cost::Cluster &cluster) {
  std::cout << "\ncluster " << cluster.name << " (" << cluster.nodes
            << " nodes of " << cluster.ranksPerNode
            << " ranks; rank r is on node r / " << cluster.ranksPerNode
            << ": hostfile lines HOST slots=" << cluster.ranksPerNode << ")\n";
  std::vector<TableRow> rows = {
      {"axis", "ranks", "bandwidth", "latency", "link"}};
  for (const plan::Mesh::Axis &axis : plan.mesh.axes) {
    if (axis.size == 1)
      continue;
    bool inside = cluster.isInside(plan.mesh, {axis.name});
    const auto &link = inside ? cluster.intraNode : cluster.interNode;
    rows.push_back(
        {axis.name, std::to_string(axis.size),
         link ? plan::formatBytes(int64_t(link->bytesPerSecond)) + "/s" : "",
         link ? formatSeconds(link->latency) : "",
         inside ? "inside a node" : "between nodes"});
  }
  printTable(rows);
  rows = {{"node", "ranks", "pipeline stages"}};
  int64_t all = nodesOf(plan, cluster), shown = std::min<int64_t>(all, 8);
  for (int64_t node = 0; node < shown; ++node) {
    int64_t first = node * cluster.ranksPerNode;
    int64_t last =
        std::min(first + cluster.ranksPerNode, plan.mesh.ranks()) - 1;
    auto range = [](int64_t from, int64_t to) {
      return std::to_string(from) +
             (from == to ? "" : " to " + std::to_string(to));
    };
    rows.push_back({std::to_string(node), range(first, last),
                    range(plan.mesh.stageOf(first), plan.mesh.stageOf(last))});
  }
  if (shown < all)
    rows.push_back({"...", "", "and so on, " + std::to_string(all) + " nodes"});
  printTable(rows);
}
