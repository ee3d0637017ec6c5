//===- ClusterCost.cpp - What a plan takes on a cluster -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/ClusterCost.h"
#include "heddle/runtime/core/Traffic.h"
#include <algorithm>
#include <sstream>

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

/// The state of a run: when the rank is free, and when the last collective that
/// it started will be done.
struct ClusterCost::Clock {
  double now = 0, free = 0;
  double collectives = 0, exposed = 0;
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

void ClusterCost::run(const plan::Stage &stage, int64_t sequence,
                      Clock &clock) const {
  const std::vector<Command> &commands = stage.sequences.at(sequence).commands;
  std::vector<double> ends(commands.size());
  for (size_t i = 0; i < commands.size(); ++i) {
    auto runFragments = [&](const plan::command::Fragments &all) {
      std::istringstream words(all.line);
      for (std::string word; words >> word;)
        for (const plan::Fragment &fragment : all.fragments)
          if (fragment.kind == plan::parseFragment(word).first)
            run(stage, fragment.sequence, clock);
    };
    auto start = [&](const plan::command::Collective &collective) {
      double time = secondsOf(collective);
      clock.free = std::max(clock.free, clock.now) + time;
      clock.collectives += time;
      ends[i] = clock.free;
    };
    auto wait = [&](const plan::command::Wait &wait) {
      double time = std::max(0.0, ends.at(wait.command) - clock.now);
      clock.exposed += time;
      clock.now += time;
    };
    commands[i].visit(
        [&](const plan::command::Launch &launch) {
          clock.now += plan.kernels.at(launch.kernel).flops / cluster.flops;
        },
        [&](const plan::command::Call &call) {
          run(stage, call.sequence, clock);
        },
        [&](const plan::command::Loop &loop) {
          for (int64_t turn = 0; turn < loop.count; ++turn)
            run(stage, loop.sequence, clock);
        },
        runFragments, start, wait, [](const auto &) {});
  }
}

SequenceTime ClusterCost::timeOf(const plan::Stage &stage,
                                 int64_t sequence) const {
  Clock clock;
  run(stage, sequence, clock);
  return {clock.now, clock.collectives, clock.exposed};
}

double ClusterCost::transferSeconds(const plan::Sequence &sequence) const {
  double longest = 0;
  for (const Command &command : sequence.commands)
    if (const auto *send = command.as<plan::command::Send>())
      longest = std::max(longest, secondsOf({send->channel.axis}, send->name, 1,
                                            send->data.bytes));
  return longest;
}
