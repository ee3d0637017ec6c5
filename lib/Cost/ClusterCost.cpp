//===- ClusterCost.cpp - Estimates a plan's time on a cluster -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/ClusterCost.h"
#include "heddle/runtime/core/Traffic.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::cost;
using plan::Command;

bool Cluster::isInside(const plan::Mesh &mesh,
                       const std::vector<std::string> &axes) const {
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    if (mesh.member(rank, axes, 0) / ranksPerNode != rank / ranksPerNode)
      return false;
  return true;
}

/// The clock of a simulated run. It says when the rank is free to compute, and,
/// for every other stream, when the stream's work ends.
struct ClusterCost::Clock {
  /// Records that a stream is busy until `end`. Spans that follow each other
  /// are joined, so that a long run stays short.
  void record(plan::Stream stream, double end, double seconds) {
    if (!spansOf || seconds <= 0)
      return;
    double begin = end - seconds;
    std::vector<BusySpan> &all = (*spansOf)[size_t(stream)];
    if (!all.empty() && begin - all.back().end < 1e-12)
      all.back().end = end;
    else
      all.push_back({begin, end});
  }
  /// Starts work of `seconds` on a stream other than `compute`. The work begins
  /// when it is submitted and earlier work of the stream is done. Returns the
  /// time at which it ends.
  double start(plan::Stream stream, double seconds) {
    double &end = streams[size_t(stream)];
    end = std::max(end, now) + seconds;
    spans(stream).first += seconds;
    record(stream, end, seconds);
    return end;
  }
  /// Starts a copy from or to a file. In contrast to `start`, the copy also
  /// waits until the disk has finished earlier copies, in either direction.
  double startOnDisk(plan::Stream stream, double seconds, double onDisk) {
    double &end = streams[size_t(stream)];
    end = std::max({end, now, disk});
    disk = end + onDisk;
    return start(stream, seconds);
  }
  /// Lets the stream `waiting` wait until the time `point`, at which the stream
  /// `other` has done the awaited work.
  void wait(plan::Stream waiting, plan::Stream other, double point) {
    if (waiting != plan::Stream::Compute) {
      double &end = streams[size_t(waiting)];
      end = std::max(end, point);
      return;
    }
    double seconds = std::max(0.0, point - now);
    spans(other).second += seconds;
    now += seconds;
  }
  /// Runs a kernel on the device.
  void compute(double seconds) {
    now += seconds;
    time.computing += seconds;
    record(plan::Stream::Compute, now, seconds);
  }
  /// The two times to which the work of a stream other than `compute` is added:
  /// the total time of the work, and the time in which the rank waits for it.
  std::pair<double &, double &> spans(plan::Stream stream) {
    if (plan::copiesBeside(stream))
      return {time.copies, time.exposedCopies};
    if (stream == plan::Stream::Host)
      return {time.onHost, time.exposedCopies};
    return {time.collectives, time.exposed};
  }
  double endOf(plan::Stream stream) const {
    return stream == plan::Stream::Compute ? now : streams[size_t(stream)];
  }

  double now = 0;
  double disk = 0; ///< When the disk has done all earlier copies.
  std::array<double, std::size(plan::streams)> streams{};
  SequenceTime time;
  StreamSpans *spansOf = nullptr; ///< Null: nothing is recorded.
};

const Link *ClusterCost::linkOf(const std::vector<std::string> &axes) const {
  auto [known, isNew] = inside.insert({axes, false});
  if (isNew)
    known->second = cluster.isInside(plan.mesh, axes);
  const std::optional<Link> &link =
      known->second ? cluster.intraNode : cluster.interNode;
  return link ? &*link : nullptr;
}

double ClusterCost::secondsOf(const std::vector<std::string> &axes,
                              const std::string &kind, int64_t calls,
                              int64_t bytes) const {
  const Link *link = linkOf(axes);
  if (!link || kind == "receive")
    return 0;
  int64_t rounds = kind == "send" ? 1 : plan.mesh.groupSize(axes) - 1;
  if (kind == "all_reduce")
    rounds *= 2;
  return double(calls * rounds) * link->latency +
         double(bytes) / link->bytesPerSecond;
}

double ClusterCost::secondsOf(const plan::command::Collective &start) const {
  const plan::Collective &collective = start.collective;
  int64_t ranks = plan.mesh.groupSize(collective.axes);
  if (ranks == 1)
    return 0;
  plan::CollectiveShape shape =
      rt::shapeOf(collective, ranks, start.target.bytes, start.source.bytes);
  return secondsOf(collective.axes, plan::nameOf(collective.kind), 1,
                   plan::bytesSent(shape, 0));
}

double ClusterCost::secondsOnDisk(plan::MemoryKind from, plan::MemoryKind to,
                                  double bytes) const {
  using plan::MemoryKind;
  if (!cluster.files || (from != MemoryKind::File && to != MemoryKind::File))
    return 0;
  double ofNode = from == MemoryKind::File ? cluster.files->readPerSecond
                                           : cluster.files->writePerSecond;
  return bytes * double(cluster.ranksPerNode) / ofNode;
}

double ClusterCost::secondsOf(plan::MemoryKind from, plan::MemoryKind to,
                              double bytes) const {
  using plan::MemoryKind;
  bool crosses = (from == MemoryKind::Device) != (to == MemoryKind::Device);
  double onLink =
      !isCpu() && crosses && cluster.pcie
          ? cluster.pcie->latency + bytes / cluster.pcie->bytesPerSecond
          : 0;
  // A copy between a file and a GPU takes as long as the slower of disk and
  // link, because one chunk of the bytes crosses the link while the next chunk
  // is read or written.
  if (from == MemoryKind::File || to == MemoryKind::File)
    return std::max(secondsOnDisk(from, to, bytes), onLink);
  // On a CPU, the copy takes the time of its memory accesses: the cores read
  // one side of the copy and write the other.
  if (isCpu() && from != to && cluster.memoryPerSecond > 0)
    return 2 * bytes / cluster.memoryPerSecond;
  return onLink;
}

bool ClusterCost::knows(plan::MemoryKind from, plan::MemoryKind to) const {
  using plan::MemoryKind;
  bool crosses = (from == MemoryKind::Device) != (to == MemoryKind::Device);
  if (from == MemoryKind::File || to == MemoryKind::File)
    return cluster.files && (isCpu() || !crosses || cluster.pcie);
  return isCpu() ? cluster.memoryPerSecond > 0 : cluster.pcie.has_value();
}

double ClusterCost::secondsOnHost(const plan::Kernel &kernel) const {
  if (cluster.hostMemoryPerSecond == 0)
    return 0;
  return kernel.bytes * double(cluster.ranksPerNode) /
         cluster.hostMemoryPerSecond;
}

/// Whether a command sequence of the stage launches a kernel on the host's
/// cores.
static bool usesHost(const plan::Stage &stage) {
  for (const plan::Sequence &sequence : stage.sequences)
    for (const Command &command : sequence.commands)
      if (command.stream == plan::Stream::Host &&
          command.as<plan::command::Launch>())
        return true;
  return false;
}

bool ClusterCost::isHostUnrated() const {
  return !isCpu() && cluster.hostMemoryPerSecond == 0 &&
         (usesHost(plan) ||
          std::any_of(plan.stages.begin(), plan.stages.end(), usesHost));
}

void ClusterCost::run(const plan::Stage &stage, int64_t sequence,
                      Clock &clock) const {
  const std::vector<Command> &commands = stage.sequences.at(sequence).commands;
  std::vector<double> ends(commands.size());
  for (size_t i = 0; i < commands.size(); ++i) {
    plan::Stream stream = commands[i].stream;
    auto runFragments = [&](const plan::command::Fragments &all) {
      for (const plan::ScheduledFragment &entry : all.order)
        run(stage, all.fragments.at(entry.fragment).sequence, clock);
    };
    auto move = [&](const plan::Ref &from, const plan::Ref &to, int64_t bytes,
                    bool isRows) {
      if (stream == plan::Stream::Compute)
        return;
      double seconds = secondsOf(from.memory, to.memory, double(bytes));
      if (from.memory != to.memory)
        clock.time.links[{from.memory, to.memory}] += seconds;
      double onDisk = secondsOnDisk(from.memory, to.memory, double(bytes));
      ends[i] = onDisk > 0 ? clock.startOnDisk(stream, seconds, onDisk)
                           : clock.start(stream, seconds);
      bool isFile = from.memory == plan::MemoryKind::File ||
                    to.memory == plan::MemoryKind::File;
      // On a CPU, most copies occupy the cores, so that kernels wait for them.
      // Only contiguous copies from and to files run beside kernels.
      if (isCpu() && (isRows || !isFile))
        clock.wait(plan::Stream::Compute, stream, ends[i]);
    };
    commands[i].visit(
        [&](const plan::command::Launch &launch) {
          const plan::Kernel &kernel = plan.kernels.at(launch.kernel);
          if (stream == plan::Stream::Host && !isCpu()) {
            ends[i] = clock.start(stream, secondsOnHost(kernel));
            return;
          }
          clock.compute(cluster.kernelSeconds(kernel.flops, kernel.bytes));
        },
        [&](const plan::command::Call &call) {
          run(stage, call.sequence, clock);
        },
        [&](const plan::command::Loop &loop) {
          for (int64_t turn = 0; turn < loop.count; ++turn)
            run(stage, loop.sequence, clock);
        },
        [&](const plan::command::Collective &collective) {
          ends[i] =
              clock.start(plan::Stream::Communication, secondsOf(collective));
        },
        [&](const plan::command::Copy &copy) {
          move(copy.source, copy.target, copy.target.bytes, false);
        },
        [&](const plan::command::CopyRows &copy) {
          move(copy.source, copy.target, rt::bytesMoved(copy), true);
        },
        [&](const plan::command::Record &) { ends[i] = clock.endOf(stream); },
        [&](const plan::command::Wait &wait) {
          // On a CPU, the cores execute the work of all streams but Copy.
          // Kernels therefore wait whenever one of these streams waits.
          bool holdsUp = isCpu() && stream != plan::Stream::Copy;
          clock.wait(holdsUp ? plan::Stream::Compute : stream,
                     commands.at(wait.command).stream, ends.at(wait.command));
        },
        runFragments, [](const auto &) {});
  }
}

SequenceTime ClusterCost::timeOf(const plan::Stage &stage, int64_t sequence,
                                 StreamSpans *spans) const {
  Clock clock;
  clock.spansOf = spans;
  run(stage, sequence, clock);
  clock.time.seconds = clock.now;
  return clock.time;
}

double ClusterCost::transferSeconds(const plan::Sequence &sequence) const {
  double longest = 0;
  for (const Command &command : sequence.commands)
    if (const auto *send = command.as<plan::command::Send>())
      longest = std::max(longest, secondsOf({send->channel.axis}, send->name, 1,
                                            send->data.bytes));
  return longest;
}
