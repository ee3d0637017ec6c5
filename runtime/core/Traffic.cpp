//===- Traffic.cpp - What a rank sends in a step --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Traffic.h"

#include <charconv>
#include <map>
#include <sstream>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;

std::pair<std::string, int64_t>
heddle::rt::parseFragment(const std::string &word) {
  size_t digits =
      std::min(word.find_first_not_of("0123456789", 1), word.size());
  int64_t microBatch = -1;
  const char *first = word.data() + 1, *last = word.data() + digits;
  auto [end, error] = std::from_chars(first, last, microBatch);
  if (word.empty() || error != std::errc() || end != last)
    microBatch = -1;
  return {word.substr(0, 1) + word.substr(digits), microBatch};
}

plan::CollectiveShape heddle::rt::shapeOf(const plan::Collective &collective,
                                          int64_t ranks, int64_t targetBytes,
                                          int64_t sourceBytes) {
  using Kind = plan::Collective::Kind;
  plan::CollectiveShape shape;
  shape.kind = collective.kind;
  shape.type = collective.type;
  shape.wire = collective.wire;
  shape.ranks = ranks;
  bool gathers = collective.kind == Kind::AllGather;
  shape.count =
      (gathers ? targetBytes : sourceBytes) / plan::byteSize(collective.type);
  bool splitsAndGathers = collective.kind == Kind::AllToAll;
  shape.layout.outer =
      splitsAndGathers ? collective.splitOuter : collective.outer;
  shape.layout.segments =
      splitsAndGathers ? collective.splitSegments : collective.segments;
  shape.concat.outer = collective.outer;
  shape.concat.segments = collective.segments;
  return shape;
}

namespace {

/// Walks the sequences of a program, each as often as it runs.
class TrafficCounter {
public:
  TrafficCounter(const plan::Plan &plan, int64_t rank)
      : plan(plan), rank(rank) {}

  void count(int64_t number, int64_t times, int depth = 0);
  std::map<std::tuple<std::string, std::string, std::string, plan::DType>,
           TrafficLine>
      lines;

private:
  void countCommand(const Command &command, int64_t times, int depth);
  void addCollective(const Command &command, int64_t times);
  void add(const Command &command, const std::string &axes,
           const std::string &kind, plan::DType wire, int64_t times,
           int64_t bytes);

  const plan::Plan &plan;
  int64_t rank;
};

} // namespace

void TrafficCounter::add(const Command &command, const std::string &axes,
                         const std::string &kind, plan::DType wire,
                         int64_t times, int64_t bytes) {
  TrafficLine &line = lines[{axes, kind, command.path, wire}];
  line.axes = axes;
  line.kind = kind;
  line.reason = command.path;
  line.wire = wire;
  line.calls += times;
  line.bytesSent += times * bytes;
}

void TrafficCounter::addCollective(const Command &command, int64_t times) {
  const plan::Collective &collective = *command.collective;
  int64_t ranks = plan.mesh.groupSize(collective.axes);
  if (ranks == 1)
    return;
  std::string axes;
  for (const std::string &axis : collective.axes)
    axes += (axes.empty() ? "" : ",") + axis;
  plan::CollectiveShape shape = shapeOf(
      collective, ranks, command.refs.at(0).bytes, command.refs.at(1).bytes);
  add(command, axes, plan::collectiveName(collective.kind), collective.wire,
      times,
      plan::bytesSent(shape, plan.mesh.coordinate(rank, collective.axes)));
}

void TrafficCounter::countCommand(const Command &command, int64_t times,
                                  int depth) {
  switch (command.kind) {
  case Command::Kind::Call:
    return count(command.target, times, depth + 1);
  case Command::Kind::Loop:
    return count(command.target, times * command.count, depth + 1);
  case Command::Kind::Fragments: {
    std::map<std::string, int64_t> runs;
    std::istringstream words(command.line);
    for (std::string word; words >> word;)
      ++runs[parseFragment(word).first];
    for (const plan::Fragment &fragment : command.fragments)
      if (int64_t often = runs[fragment.kind])
        count(fragment.sequence, times * often, depth + 1);
    return;
  }
  case Command::Kind::Collective:
    return addCollective(command, times);
  case Command::Kind::Send:
    return add(command, command.channel->axis, "send", plan::DType::U8, times,
               command.refs.at(0).bytes);
  case Command::Kind::Receive:
    return add(command, command.channel->axis, "receive", plan::DType::U8,
               times, 0);
  default:
    return;
  }
}

void TrafficCounter::count(int64_t number, int64_t times, int depth) {
  if (depth > 64) // Such a plan cannot be loaded.
    return;
  for (const Command &command : plan.sequences.at(number).commands)
    countCommand(command, times, depth);
}

std::vector<TrafficLine> heddle::rt::countTraffic(const plan::Plan &plan,
                                                  const plan::Program &program,
                                                  int64_t rank) {
  TrafficCounter counter(plan, rank);
  counter.count(program.sequence, 1);
  std::vector<TrafficLine> lines;
  for (const auto &[key, line] : counter.lines)
    lines.push_back(line);
  return lines;
}

std::vector<TrafficLine>
heddle::rt::sumByKind(const std::vector<TrafficLine> &lines) {
  std::vector<TrafficLine> sums;
  for (const TrafficLine &line : lines) {
    if (sums.empty() || sums.back().axes != line.axes ||
        sums.back().kind != line.kind) {
      sums.emplace_back();
      sums.back().axes = line.axes;
      sums.back().kind = line.kind;
    }
    sums.back().calls += line.calls;
    sums.back().bytesSent += line.bytesSent;
  }
  return sums;
}
