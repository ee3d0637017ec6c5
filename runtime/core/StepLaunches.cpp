//===- StepLaunches.cpp - What steps with conditions launch ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/StepLaunches.h"

#include <algorithm>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;
using plan::Guard;

namespace {

/// Walks the commands of a program in the order in which CommandList lists
/// them, and divides them into the same groups. A group consists of commands
/// that follow each other, have one guard, and run either all on the device or
/// all on the host. On a GPU, each group of the device becomes a graph.
class LaunchCounter {
public:
  explicit LaunchCounter(const plan::Plan &plan) : plan(plan) {}

  void walk(int64_t number, const Guard &around, int depth = 0);
  StepLaunches sum() const;

private:
  void visit(const Command &command, const plan::Sequence &sequence,
             const Guard &guard, int depth);
  void add(const Guard &guard, bool isOfHost);
  bool isExchanged(const std::vector<plan::Ref> &buffers) const;

  const plan::Plan &plan;
  /// The counts of the commands with a guard, by its condition and value. The
  /// condition is -1 for commands without a guard.
  std::map<std::pair<int64_t, bool>, LaunchCounts> counts;
  std::set<std::string> sending; ///< The channels on which data was sent.
  bool isFirst = true;
  Guard lastGuard;           ///< The guard of the last command.
  bool lastIsOfHost = false; ///< Whether the host runs the last command.
};

} // namespace

void LaunchCounter::walk(int64_t number, const Guard &around, int depth) {
  if (depth > 64) // A plan with such depth cannot be loaded.
    return;
  const plan::Sequence &sequence = plan.sequences.at(number);
  for (const Command &command : sequence.commands)
    visit(command, sequence, command.guard.isAlways() ? around : command.guard,
          depth);
}

/// Adds a command to the last group, or to a new one.
void LaunchCounter::add(const Guard &guard, bool isOfHost) {
  bool isSame = !isFirst && guard == lastGuard && isOfHost == lastIsOfHost;
  isFirst = false;
  lastGuard = guard;
  lastIsOfHost = isOfHost;
  if (!isSame && !isOfHost && plan.device == plan::DeviceKind::Cuda)
    ++counts[{guard.condition, guard.value}].graphs;
}

/// Whether GPUs exchange the contents of these buffers without the host.
bool LaunchCounter::isExchanged(const std::vector<plan::Ref> &buffers) const {
  return plan.collectives == "library" &&
         std::all_of(buffers.begin(), buffers.end(), [](const plan::Ref &ref) {
           return ref.space == plan::Space::Arg ||
                  ref.memory == plan::MemoryKind::Device;
         });
}

void LaunchCounter::visit(const Command &command,
                          const plan::Sequence &sequence, const Guard &guard,
                          int depth) {
  using namespace plan::command;
  auto isOfHost = [&](const Collective &start) {
    return !isExchanged({start.target, start.source});
  };
  command.visit(
      [&](const Launch &) {
        ++counts[{guard.condition, guard.value}].kernels;
        add(guard, /*isOfHost=*/false);
      },
      [&](const Call &call) { walk(call.sequence, guard, depth + 1); },
      [&](const Loop &loop) {
        for (int64_t i = 0; i < loop.count; ++i)
          walk(loop.sequence, guard, depth + 1);
      },
      [&](const Fragments &all) {
        for (const plan::ScheduledFragment &entry : all.order)
          walk(all.fragments.at(entry.fragment).sequence, guard, depth + 1);
      },
      [&](const Collective &start) { add(guard, isOfHost(start)); },
      [&](const Wait &wait) {
        const auto *start = sequence.commands.at(wait.command).as<Collective>();
        add(guard, start && isOfHost(*start));
      },
      [&](const Send &send) {
        sending.insert(send.channel.name);
        add(guard, !isExchanged({}));
      },
      [&](const Receive &) { add(guard, !isExchanged({})); },
      [&](const Flush &flush) {
        // If nothing was sent on the channel, there is nothing to wait for.
        if (sending.count(flush.channel))
          add(guard, !isExchanged({}));
      },
      [&](const auto &) { add(guard, /*isOfHost=*/false); });
}

StepLaunches LaunchCounter::sum() const {
  StepLaunches all;
  auto of = [&](int64_t condition, bool value) {
    auto found = counts.find({condition, value});
    return found == counts.end() ? LaunchCounts() : found->second;
  };
  auto addTo = [](LaunchCounts &sum, int64_t kernels, int64_t graphs) {
    sum.kernels += kernels;
    sum.graphs += graphs;
  };
  LaunchCounts always = of(Guard().condition, Guard().value);
  for (LaunchCounts *sum :
       {&all.allKept, &all.allDropped, &all.fewest, &all.most})
    *sum = always;
  for (size_t i = 0; i < plan.conditions.size(); ++i) {
    LaunchCounts kept = of(int64_t(i), true), dropped = of(int64_t(i), false);
    addTo(all.allKept, kept.kernels, kept.graphs);
    addTo(all.allDropped, dropped.kernels, dropped.graphs);
    addTo(all.fewest, std::min(kept.kernels, dropped.kernels),
          std::min(kept.graphs, dropped.graphs));
    addTo(all.most, std::max(kept.kernels, dropped.kernels),
          std::max(kept.graphs, dropped.graphs));
  }
  return all;
}

StepLaunches heddle::rt::countLaunches(const plan::Plan &plan,
                                       const plan::Program &program) {
  LaunchCounter counter(plan);
  counter.walk(program.sequence, Guard());
  return counter.sum();
}
