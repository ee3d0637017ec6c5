//===- ExplainBound.cpp - What a step is bound by -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

StepBound::Part &StepBound::partOf(const std::string &name) {
  for (Part &part : parts)
    if (part.name == name)
      return part;
  Part &part = parts.emplace_back();
  part.name = name;
  if (cost)
    part.seconds = 0;
  return part;
}

/// A part loses its time for good where the cluster does not say one.
static void addTime(std::optional<double> &sum, bool isKnown, double seconds) {
  if (!isKnown)
    sum.reset();
  else if (sum)
    *sum += seconds;
}

/// A disk is one device, whether it reads or writes.
static std::string nameOfLink(plan::MemoryKind from, plan::MemoryKind to) {
  if (from == plan::MemoryKind::File || to == plan::MemoryKind::File)
    return "disk";
  return std::string(plan::nameOf(from)) + " to " + plan::nameOf(to);
}

void StepBound::addMoves(const plan::Plan &plan, const plan::Program &program,
                         const cost::SequenceTime &time) {
  for (const rt::MoveLine &line : rt::countMoves(plan, program)) {
    Part &part = partOf(nameOfLink(line.from, line.to));
    part.bytes += double(line.bytes);
    if (!cost)
      continue;
    auto found = time.links.find({line.from, line.to});
    addTime(part.seconds, cost->knows(line.from, line.to),
            found == time.links.end() ? 0 : found->second);
  }
}

StepBound::StepBound(const plan::Plan &plan, const plan::Program &program,
                     int64_t rank, const cost::ClusterCost *known)
    : cost(known && known->hasTimes() ? known : nullptr), flops(program.flops) {
  cost::SequenceTime time;
  if (cost)
    time = cost->timeOf(plan, program.sequence);
  addTime(partOf("computation").seconds, cost != nullptr, time.computing);
  addMoves(plan, program, time);
  rt::HostUpdates host = rt::countHostUpdates(plan, program);
  if (host.elements > 0 && plan.device == plan::DeviceKind::Cuda) {
    Part &part = partOf("updates on the host");
    part.bytes = host.bytes;
    addTime(part.seconds, cost && cost->knowsHost(), time.onHost);
  }
  for (const rt::TrafficLine &line : rt::countTraffic(plan, program, rank)) {
    Part &part = partOf("network");
    part.bytes += double(line.bytesSent);
    addTime(part.seconds, cost && cost->linkOf(axesOf(line)),
            cost ? secondsOf(line, *cost) : 0);
  }
}

const StepBound::Part *StepBound::longest() const {
  auto isShorter = [](const Part &a, const Part &b) {
    return a.seconds.value_or(-1) < b.seconds.value_or(-1);
  };
  auto found = std::max_element(parts.begin(), parts.end(), isShorter);
  return found == parts.end() || !found->seconds ? nullptr : &*found;
}

json StepBound::toJson() const {
  json all = {{"times_from", cost ? "cluster" : "flops"},
              {"flops", flops},
              {"parts", json::array()}};
  for (const Part &part : parts) {
    json &one = all["parts"].emplace_back(json{{"part", part.name}});
    if (part.name != "computation")
      one["bytes"] = int64_t(part.bytes);
    if (part.seconds)
      one["seconds"] = *part.seconds;
    if (!cost && flops > 0 && part.name != "computation")
      one["bytes_per_flop"] = part.bytes / flops;
  }
  if (const Part *bound = longest())
    all["by"] = bound->name;
  return all;
}

void StepBound::printSeconds() const {
  const Part *bound = longest();
  std::cout << "\nwhat bounds a step, by the cluster's times\n";
  std::vector<TableRow> rows = {{"", "moved", "time", ""}};
  for (const Part &part : parts)
    rows.push_back({part.name,
                    part.name == "computation"
                        ? ""
                        : plan::formatBytes(int64_t(part.bytes)),
                    part.seconds ? formatSeconds(*part.seconds) : "",
                    &part == bound ? "the bound"
                    : part.seconds ? ""
                                   : "the cluster does not say how fast"});
  printTable(rows);
}

void StepBound::printRates() const {
  std::cout << "\nwhat bounds a step of " << formatFlops(flops)
            << " (no cluster's times: by rates)\n";
  std::vector<TableRow> rows = {
      {"", "moved", "is the bound where computation is faster than"}};
  for (const Part &part : parts)
    if (part.name != "computation" && part.bytes > 0)
      rows.push_back(
          {part.name, plan::formatBytes(int64_t(part.bytes)),
           formatFlops(flops / part.bytes * 1e9) + "/s for each GB/s of it"});
  if (rows.size() > 1)
    printTable(rows);
  else
    std::cout << "  computation: nothing else takes time\n";
}

void StepBound::print() const {
  if (parts.empty())
    return;
  if (cost)
    printSeconds();
  else
    printRates();
}
