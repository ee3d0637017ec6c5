//===- UsualMachine.cpp - Default figures of machines ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/UsualMachine.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::cost;

static constexpr double gibi = double(int64_t(1) << 30);

Cluster cost::usualMachines(plan::DeviceKind device, int64_t ranks) {
  bool hasGpus = device == plan::DeviceKind::Cuda;
  Cluster cluster;
  cluster.name = "usual machines";
  cluster.ranksPerNode = std::min<int64_t>(ranks, 8);
  cluster.nodes = (ranks + cluster.ranksPerNode - 1) / cluster.ranksPerNode;
  cluster.intraNode = Link{(hasGpus ? 200 : 10) * gibi, 2e-6};
  cluster.interNode = Link{(hasGpus ? 20 : 2.5) * gibi, 1e-5};
  cluster.flops = hasGpus ? 2e14 : 5e11;
  cluster.memoryPerSecond = (hasGpus ? 1500 : 20) * gibi;
  cluster.hostMemoryPerSecond = 100 * gibi;
  cluster.pcie = Link{20 * gibi, 1e-5};
  cluster.files = Files{/*bytes=*/0, 3 * gibi, 2 * gibi};
  return cluster;
}

Cluster cost::withUsualTimes(Cluster cluster, plan::DeviceKind device) {
  Cluster usual = usualMachines(device, cluster.ranks());
  auto fill = [](auto &given, const auto &assumed) {
    if (!given)
      given = assumed;
  };
  fill(cluster.intraNode, usual.intraNode);
  fill(cluster.interNode, usual.interNode);
  fill(cluster.flops, usual.flops);
  fill(cluster.memoryPerSecond, usual.memoryPerSecond);
  fill(cluster.hostMemoryPerSecond, usual.hostMemoryPerSecond);
  fill(cluster.pcie, usual.pcie);
  fill(cluster.files, usual.files);
  return cluster;
}
