//===- ClusterCost.h - Estimates a plan's time on a cluster -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Estimates the time of a plan's step on machines that the user describes in a
// cluster file. `explain` and `fit` use it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_CLUSTERCOST_H
#define HEDDLE_COST_CLUSTERCOST_H

#include "heddle/PlanFormat/Plan.h"
#include <algorithm>
#include <map>

namespace heddle::cost {

/// A connection between a rank and another rank.
struct Link {
  double bytesPerSecond = 0;
  /// Time in seconds before the first byte of a message arrives.
  double latency = 0;
};

/// The disk of a node, which its ranks share.
struct Files {
  int64_t bytes = 0; ///< The capacity of the disk; 0: not limited.
  /// Bytes per second that the disk reads, and that it writes.
  double readPerSecond = 0, writePerSecond = 0;
};

/// The machines that run the ranks. The first `ranksPerNode` ranks are on the
/// first node, the next ones on the second node, and so on.
struct Cluster {
  std::string name;
  int64_t nodes = 1, ranksPerNode = 1;
  std::optional<Link> intraNode, interNode;
  /// Floating-point operations that a rank computes per second. 0 if not known.
  double flops = 0;
  /// Bytes per second of a rank's device memory. 0 if not known.
  double memoryPerSecond = 0;
  int64_t deviceMemory = 0; ///< Bytes of a rank's device memory; 0: not known.
  int64_t hostMemory = 0;   ///< Bytes of a node's host memory; 0: not known.
  /// Bytes per second of a node's host memory, which its ranks share. 0 if not
  /// known.
  double hostMemoryPerSecond = 0;
  /// The link between a rank's device and the host's memory.
  std::optional<Link> pcie;
  std::optional<Files> files;
  int64_t ranks() const { return nodes * ranksPerNode; }
  /// The time of a kernel on a rank's device: that of its operations, or of its
  /// bytes. `flops` of the cluster must be known.
  double kernelSeconds(double kernelFlops, double bytes) const {
    return std::max(kernelFlops / flops,
                    memoryPerSecond > 0 ? bytes / memoryPerSecond : 0);
  }
  /// Whether each group of ranks along `axes` is on a single node.
  bool isInside(const plan::Mesh &mesh,
                const std::vector<std::string> &axes) const;
};

/// The time of one run of a command sequence on a pipeline stage, in seconds.
struct SequenceTime {
  /// The time of the stream `compute` from the beginning to the end of the
  /// sequence: the time in which the stream runs kernels, and the time in which
  /// it waits for other streams.
  double seconds = 0;
  double computing = 0;   ///< The sum of the times of kernels on the device.
  double collectives = 0; ///< The sum of the times of collectives.
  /// The time in which collectives run and nothing is computed.
  double exposed = 0;
  /// The sum of the times of copies between kinds of memory.
  double copies = 0;
  double onHost = 0; ///< The sum of the times of kernels on the host's cores.
  /// The time in which the device computes nothing while a copy runs, or while
  /// the host runs a kernel whose result is to be copied.
  double exposedCopies = 0;
  /// For each pair of kinds of memory: the sum of the times of copies from the
  /// first kind to the second.
  std::map<std::pair<plan::MemoryKind, plan::MemoryKind>, double> links;
};

/// A time during which a stream is busy, in seconds from the begin of a
/// sequence.
struct BusySpan {
  double begin = 0, end = 0;
};
/// The times during which each stream is busy, by plan::Stream.
using StreamSpans = std::array<std::vector<BusySpan>, std::size(plan::streams)>;

/// Times of a plan's communication and computation, by these rules.
/// - A collective takes the latency of the slowest link in each of its rounds,
///   and the time in which this link transfers the bytes that a rank sends. As
///   in runtime/comm/Collectives.cpp, there are n - 1 rounds among n ranks, and
///   twice as many for an all-reduce.
/// - A kernel takes the time for its operations. If the cluster's description
///   states the speed of the memory, and the time for the kernel's bytes is
///   longer, it takes that time.
/// - A kernel on the host's cores takes the time for its bytes at its rank's
///   share of the node's memory bandwidth. If that bandwidth is not known, it
///   takes no time.
/// - A copy between a file and a GPU takes as long as the slower of disk and
///   link.
/// - Reads and writes of one disk follow each other, because a disk that does
///   both at the same time is not faster.
class ClusterCost {
public:
  /// `plan` and `cluster` must outlive this object.
  ClusterCost(const plan::Plan &plan, const Cluster &cluster)
      : plan(plan), cluster(cluster) {}

  /// The slowest link between ranks along the axes. Null if the cluster's
  /// description has no such link.
  const Link *linkOf(const std::vector<std::string> &axes) const;
  /// The time of `calls` collectives or messages of one kind (`all_reduce`,
  /// `send`). `bytes` is what a rank sends in all of them together. 0 if the
  /// link is not known.
  double secondsOf(const std::vector<std::string> &axes,
                   const std::string &kind, int64_t calls, int64_t bytes) const;
  /// Whether the cluster's description states what `timeOf` needs: the speed of
  /// kernels and of the links that the plan's ranks use.
  bool hasTimes() const {
    int64_t ranks = plan.mesh.ranks();
    bool knowsInside =
        cluster.intraNode || ranks == 1 || cluster.ranksPerNode == 1;
    bool knowsBetween = cluster.interNode || ranks <= cluster.ranksPerNode;
    return cluster.flops > 0 && knowsInside && knowsBetween;
  }
  /// Whether the plan has kernels on the host's cores whose time is not known,
  /// because the cluster's description does not state the speed of host memory.
  bool isHostUnrated() const;
  /// Whether the cluster's description states the speeds that determine the
  /// time of copies from one kind of memory to another.
  bool knows(plan::MemoryKind from, plan::MemoryKind to) const;
  /// Whether the cluster's description states the speed of host memory, which
  /// determines the time of kernels on the host's cores.
  bool knowsHost() const { return cluster.hostMemoryPerSecond > 0; }
  /// The time of one run of a command sequence, without waits for other
  /// pipeline stages. Collectives run one after the other, at the same time as
  /// kernels. Copies in one direction also run one after the other, as do
  /// kernels on the host's cores. All copies from and to files share the disk.
  /// With `spans`, also records when each stream is busy.
  SequenceTime timeOf(const plan::Stage &stage, int64_t sequence,
                      StreamSpans *spans = nullptr) const;
  /// The longest time of a message that the sequence sends.
  double transferSeconds(const plan::Sequence &sequence) const;

private:
  /// Whether the plan is for a CPU. There a copy in memory or a command on the
  /// stream `Host` occupies the cores, so that kernels wait for it.
  bool isCpu() const { return plan.device == plan::DeviceKind::Cpu; }
  struct Clock;
  void run(const plan::Stage &stage, int64_t sequence, Clock &clock) const;
  double secondsOf(const plan::command::Collective &start) const;
  /// The time of a copy of `bytes` bytes between two kinds of memory.
  double secondsOf(plan::MemoryKind from, plan::MemoryKind to,
                   double bytes) const;
  /// The time during which a copy occupies the disk, so that the disk can do
  /// nothing else. 0 if no file takes part in the copy.
  double secondsOnDisk(plan::MemoryKind from, plan::MemoryKind to,
                       double bytes) const;
  double secondsOnHost(const plan::Kernel &kernel) const;

  const plan::Plan &plan;
  const Cluster &cluster;
  mutable std::map<std::vector<std::string>, bool> inside;
};

} // namespace heddle::cost

#endif // HEDDLE_COST_CLUSTERCOST_H
