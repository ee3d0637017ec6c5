//===- ExplainBound.cpp - What bounds the time of a step ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds up the times of a step's computation and transfers, and prints which
// kind of work takes longest.
//
//===----------------------------------------------------------------------===//

#include "ExplainBound.h"
#include "ExplainCluster.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include <algorithm>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

StepBound::WorkKind &StepBound::kindOf(const std::string &name) {
  for (WorkKind &kind : kinds)
    if (kind.name == name)
      return kind;
  WorkKind &kind = kinds.emplace_back();
  kind.name = name;
  if (cost)
    kind.seconds = 0;
  return kind;
}

/// Adds the time of a transfer to `sum`. If the cluster file lacks the
/// transfer's rate, the sum becomes unknown (empty).
static void addTime(std::optional<double> &sum, bool isKnown, double seconds) {
  if (!isKnown)
    sum.reset();
  else if (sum)
    *sum += seconds;
}

/// The name of the link that a copy uses. Reads and writes of files share the
/// link `disk`.
static std::string nameOfLink(plan::MemoryKind from, plan::MemoryKind to) {
  if (from == plan::MemoryKind::File || to == plan::MemoryKind::File)
    return "disk";
  return std::string(plan::nameOf(from)) + " to " + plan::nameOf(to);
}

void StepBound::addMoves(const plan::Plan &plan, const plan::Program &program,
                         const cost::SequenceTime &time) {
  for (const rt::MoveLine &line : rt::countMoves(plan, program)) {
    WorkKind &kind = kindOf(nameOfLink(line.from, line.to));
    kind.bytes += double(line.bytes);
    if (!cost)
      continue;
    auto found = time.links.find({line.from, line.to});
    addTime(kind.seconds, cost->knows(line.from, line.to),
            found == time.links.end() ? 0 : found->second);
  }
}

StepBound::StepBound(const plan::Plan &plan, const plan::Program &program,
                     int64_t rank, const cost::ClusterCost *known)
    : cost(known && known->hasTimes() ? known : nullptr), flops(program.flops) {
  cost::SequenceTime time;
  if (cost)
    time = cost->timeOf(plan, program.sequence);
  addTime(kindOf("computation").seconds, cost != nullptr, time.computing);
  addMoves(plan, program, time);
  rt::HostUpdates host = rt::countHostUpdates(plan, program);
  if (host.elements > 0 && plan.device == plan::DeviceKind::Cuda) {
    WorkKind &kind = kindOf("updates on the host");
    kind.bytes = host.bytes;
    addTime(kind.seconds, cost && cost->knowsHost(), time.onHost);
  }
  for (const rt::TrafficLine &line : rt::countTraffic(plan, program, rank)) {
    WorkKind &kind = kindOf("network");
    kind.bytes += double(line.bytesSent);
    addTime(kind.seconds, cost && cost->linkOf(axesOf(line)),
            cost ? secondsOf(line, *cost) : 0);
  }
}

const StepBound::WorkKind *StepBound::longest() const {
  auto isShorter = [](const WorkKind &a, const WorkKind &b) {
    return a.seconds.value_or(-1) < b.seconds.value_or(-1);
  };
  auto found = std::max_element(kinds.begin(), kinds.end(), isShorter);
  return found == kinds.end() || !found->seconds ? nullptr : &*found;
}

json StepBound::toJson() const {
  json all = {{"times_from", cost ? "cluster" : "flops"},
              {"flops", flops},
              {"parts", json::array()}};
  for (const WorkKind &kind : kinds) {
    json &one = all["parts"].emplace_back(json{{"part", kind.name}});
    if (kind.name != "computation")
      one["bytes"] = int64_t(kind.bytes);
    if (kind.seconds)
      one["seconds"] = *kind.seconds;
    if (!cost && flops > 0 && kind.name != "computation")
      one["bytes_per_flop"] = kind.bytes / flops;
  }
  if (const WorkKind *bound = longest())
    all["by"] = bound->name;
  return all;
}

void StepBound::printSeconds() const {
  const WorkKind *bound = longest();
  std::cout << "\nwhat bounds a step, by the cluster's times\n";
  std::vector<TableRow> rows = {{"", "moved", "time", ""}};
  for (const WorkKind &kind : kinds)
    rows.push_back({kind.name,
                    kind.name == "computation"
                        ? ""
                        : plan::formatBytes(int64_t(kind.bytes)),
                    kind.seconds ? formatSeconds(*kind.seconds) : "",
                    &kind == bound ? "the bound"
                    : kind.seconds ? ""
                                   : "the cluster does not say how fast"});
  printTable(rows);
}

void StepBound::printRates() const {
  std::cout << "\nwhat bounds a step of " << formatFlops(flops)
            << " (no cluster's times: by rates)\n";
  std::vector<TableRow> rows = {
      {"", "moved", "is the bound where computation is faster than"}};
  for (const WorkKind &kind : kinds)
    if (kind.name != "computation" && kind.bytes > 0)
      rows.push_back(
          {kind.name, plan::formatBytes(int64_t(kind.bytes)),
           formatFlops(flops / kind.bytes * 1e9) + "/s for each GB/s of it"});
  if (rows.size() > 1)
    printTable(rows);
  else
    std::cout << "  computation: nothing else takes time\n";
}

void StepBound::print() const {
  if (kinds.empty())
    return;
  if (cost)
    printSeconds();
  else
    printRates();
}
