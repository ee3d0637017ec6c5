//===- ClusterCost.h - What a plan takes on a cluster -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_CLUSTERCOST_H
#define HEDDLE_COST_CLUSTERCOST_H

#include "heddle/PlanFormat/Plan.h"
#include <map>

namespace heddle::cost {

/// What a rank gets between it and another.
struct Link {
  double bytesPerSecond = 0;
  double latency = 0; ///< In seconds.
};

/// Files of a node, which its ranks share.
struct Files {
  int64_t bytes = 0; ///< That fit; 0: as many as are wanted.
  double readPerSecond = 0, writePerSecond = 0; ///< In bytes.
};

/// Machines for ranks. Ranks fill the nodes in order: rank r is on node
/// r / ranksPerNode.
struct Cluster {
  std::string name;
  int64_t nodes = 1, ranksPerNode = 1;
  std::optional<Link> intraNode, interNode;
  double flops = 0; ///< Floating-point operations of a rank a second; or 0.
  double memoryPerSecond = 0; ///< Bytes that a rank's memory moves; or 0.
  int64_t deviceMemory = 0;   ///< Of a rank, in bytes; or 0.
  int64_t hostMemory = 0;     ///< Of a node, in bytes; or 0.
  /// Bytes that a node's memory moves for the cores of the host; or 0.
  double hostMemoryPerSecond = 0;
  std::optional<Link> pcie; ///< Between a rank's device and the host.
  std::optional<Files> files;
  int64_t ranks() const { return nodes * ranksPerNode; }
  /// Whether every rank of the group along `axes` has the others on its node,
  /// for all groups.
  bool isInside(const plan::Mesh &mesh,
                const std::vector<std::string> &axes) const;
};

/// One run of a sequence by the ranks of a pipeline stage.
struct SequenceTime {
  double seconds = 0;     ///< Computing, and waiting for what is under way.
  double computing = 0;   ///< Kernels of the device, one by one.
  double collectives = 0; ///< All of them, one after the other.
  double exposed = 0;     ///< The part of them that nothing is computed in.
  double copies = 0;      ///< Between kinds of memory, one after the other.
  double onHost = 0;      ///< Kernels on the host's cores, one by one.
  /// The part of copies, and of the kernels on the host that they come behind,
  /// that nothing is computed in.
  double exposedCopies = 0;
  /// Copies from one kind of memory to another, one after the other.
  std::map<std::pair<plan::MemoryKind, plan::MemoryKind>, double> links;
};

/// The time of a plan's communication and computation: latency and bandwidth of
/// the slowest link for each round of an exchange (runtime/comm/Collectives.cpp
/// has n - 1 of them among n ranks, an all-reduce twice as many), and the
/// cluster's figures for kernels, of which each takes as long as its operations
/// or, if the cluster says how fast memory is, its bytes. A kernel on the
/// host's cores takes as long as its bytes, of the node's memory that the ranks
/// share; no time where the cluster does not say how fast that is. A copy
/// between a file and a GPU takes as long as the slower of disk and link. What
/// a disk reads and what it writes take its time one after the other: a device
/// that does both at a time is as fast as either alone at best.
class ClusterCost {
public:
  /// Both must outlive this.
  ClusterCost(const plan::Plan &plan, const Cluster &cluster)
      : plan(plan), cluster(cluster) {}

  /// The slowest link along the axes; null when the cluster does not say.
  const Link *linkOf(const std::vector<std::string> &axes) const;
  /// `calls` exchanges of a kind (`all_reduce`, `send`) in which a rank sends
  /// `bytes` in all; 0 when the link is not known.
  double secondsOf(const std::vector<std::string> &axes,
                   const std::string &kind, int64_t calls, int64_t bytes) const;
  /// Whether the cluster says enough for `timeOf`: of links, those that the
  /// plan's ranks have.
  bool hasTimes() const {
    int64_t ranks = plan.mesh.ranks();
    bool knowsInside =
        cluster.intraNode || ranks == 1 || cluster.ranksPerNode == 1;
    bool knowsBetween = cluster.interNode || ranks <= cluster.ranksPerNode;
    return cluster.flops > 0 && knowsInside && knowsBetween;
  }
  /// Whether the plan has kernels on the host's cores of which the cluster says
  /// too little for a time.
  bool isHostUnrated() const;
  /// Whether it says enough for copies from one kind of memory to another.
  bool knows(plan::MemoryKind from, plan::MemoryKind to) const;
  /// Whether it says enough for kernels on the host's cores.
  bool knowsHost() const { return cluster.hostMemoryPerSecond > 0; }
  /// One run of a sequence, without waits for other pipeline stages.
  /// Collectives run one after the other, beside what is computed, and so do
  /// copies between kinds of memory in each direction, of which those of files
  /// share the disk, and kernels on the host's cores.
  SequenceTime timeOf(const plan::Stage &stage, int64_t sequence) const;
  /// The longest that a message takes which the sequence itself sends.
  double transferSeconds(const plan::Sequence &sequence) const;

private:
  /// Its copies in memory, and what is on the stream Host, hold up its kernels.
  bool isCpu() const { return plan.device == plan::DeviceKind::Cpu; }
  struct Clock;
  void run(const plan::Stage &stage, int64_t sequence, Clock &clock) const;
  double secondsOf(const plan::command::Collective &start) const;
  /// Of a copy.
  double secondsOf(plan::MemoryKind from, plan::MemoryKind to,
                   double bytes) const;
  /// The part of it in which the disk can do nothing else; 0: it is of none.
  double secondsOnDisk(plan::MemoryKind from, plan::MemoryKind to,
                       double bytes) const;
  double secondsOnHost(const plan::Kernel &kernel) const;

  const plan::Plan &plan;
  const Cluster &cluster;
  mutable std::map<std::vector<std::string>, bool> inside;
};

} // namespace heddle::cost

#endif // HEDDLE_COST_CLUSTERCOST_H
