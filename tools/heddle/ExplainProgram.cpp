//===- ExplainProgram.cpp - One program of a binary -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle explain --program NAME`, and the list of all programs.
//
//===----------------------------------------------------------------------===//

#include "ExplainProgram.h"
#include "ExplainCluster.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/core/ProgramNeeds.h"
#include "heddle/runtime/core/Traffic.h"
#include "heddle/runtime/devices/cpu/PeakRate.h"
#include "heddle/runtime/devices/cpu/ReadRate.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

namespace {

/// The bytes that this machine moves per second, and its floating-point
/// operations per second, as measured now. 0 means unknown.
struct Rates {
  int64_t threads = 0;
  double bytes = 0, flops = 0;

  /// Returns the least seconds that one launch can take at the measured rates:
  /// to move its bytes, or to do its operations, whichever takes longer.
  double secondsOf(const plan::Kernel &kernel) const {
    return std::max(kernel.bytes / bytes, kernel.flops / flops);
  }
};

} // namespace

const plan::Program &driver::programOf(const plan::Plan &plan,
                                       const std::string &name) {
  std::string all;
  for (const plan::Program &program : plan.programs) {
    if (program.name == name)
      return program;
    all += (all.empty() ? "" : ", ") + program.name;
  }
  fail("H0113", "--program " + name + ": the plan has " + all,
       "use --program " + plan.programs.front().name);
}

static Rates measureRates(const plan::Plan &plan) {
  Rates rates;
  if (plan.device != plan::DeviceKind::Cpu)
    return rates;
  rates.threads = std::min(plan.threads, rt::availableThreads());
  rt::ThreadPool pool(rates.threads);
  rt::ReadRate reading(pool);
  for (int run = 0; run < 5; ++run)
    rates.bytes = std::max(rates.bytes, reading.measure());
  for (double rate : rt::measurePeak(pool, plan.precision).flopsPerSecond)
    rates.flops = std::max(rates.flops, rate);
  return rates;
}

std::pair<int64_t, int64_t> driver::sizeOf(const plan::Program &program) {
  for (const plan::Port &port : program.inputs)
    if (port.role == plan::PortRole::Ids && !port.shape.empty()) {
      int64_t tokens = 1;
      for (int64_t extent : port.shape)
        tokens *= extent;
      return {tokens / port.shape.back(), tokens};
    }
  return {0, 0};
}

/// Counts what the device launches when it runs a command sequence.
static int64_t launchesOf(const plan::Plan &plan, int64_t sequence) {
  int64_t sum = 0;
  for (const plan::Command &command : plan.sequences.at(sequence).commands) {
    if (const auto *launch = command.as<plan::command::Launch>()) {
      const plan::Kernel &kernel = plan.kernels.at(launch->kernel);
      sum += std::max<int64_t>(1, int64_t(kernel.launches.size()));
    }
    for (plan::SequenceRuns runs : plan::runsOf(command))
      sum += runs.times * launchesOf(plan, runs.sequence);
  }
  return sum;
}

ProgramLaunches driver::countProgramLaunches(const plan::Plan &plan,
                                             const std::string &name) {
  const plan::Program &program = programOf(plan, name);
  std::map<int64_t, int64_t> calls; // By the sequence that is called.
  for (const plan::Command &command :
       plan.sequences.at(program.sequence).commands)
    for (plan::SequenceRuns runs : plan::runsOf(command))
      calls[runs.sequence] += runs.times;
  auto layer = std::max_element(
      calls.begin(), calls.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  return {launchesOf(plan, program.sequence),
          layer == calls.end() ? 0 : launchesOf(plan, layer->first)};
}

std::string driver::launchesText(const ProgramLaunches &launches) {
  return std::to_string(launches.all) + " launches, " +
         std::to_string(launches.ofLayer) + " of them in each layer";
}

json driver::describeProgram(const plan::Plan &plan, const std::string &name) {
  const plan::Program &program = programOf(plan, name);
  rt::ProgramNeeds needs = rt::needsOf(plan, program);
  Rates rates = measureRates(plan);
  json kernels = json::array();
  double seconds = 0, moved = 0;
  int64_t launches = 0;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const plan::Kernel &kernel = plan.kernels[i];
    if (needs.launches[i] == 0)
      continue;
    json &one = kernels.emplace_back(json{{"name", kernel.name},
                                          {"ops", kernel.ops},
                                          {"flops", kernel.flops},
                                          {"bytes", kernel.bytes},
                                          {"calls", needs.launches[i]}});
    launches += needs.launches[i];
    moved += double(needs.launches[i]) * kernel.bytes;
    if (rates.threads == 0)
      continue;
    one["seconds"] = double(needs.launches[i]) * rates.secondsOf(kernel);
    seconds += one["seconds"].get<double>();
  }
  auto [rows, tokens] = sizeOf(program);
  int64_t context = needs.caches.empty() ? 0 : plan.serving.maxContext;
  json caches = json::array();
  for (const rt::CacheNeeds &cache : needs.caches)
    caches.push_back({{"bytes_per_position", cache.bytes},
                      {"positions", std::llround(cache.keysAt(context))}});
  json all = {
      {"program", program.name},
      {"rows", rows},
      {"tokens", tokens},
      {"flops", program.flops},
      {"kernels", kernels},
      {"launches", launches},
      {"launch_bytes", moved},
      {"state_bytes", needs.stateBytes},
      {"cache", caches},
      {"context", context},
      {"bytes",
       needs.stateBytes + needs.cacheBytesAt(context) * double(rows)}};
  if (rates.threads > 0) {
    all["threads"] = rates.threads;
    all["stream_gb_s"] = rates.bytes / 1e9;
    all["peak_gflop_s"] = rates.flops / 1e9;
    all["seconds"] = seconds;
  }
  return all;
}

json driver::listPrograms(const plan::Plan &plan, int64_t rank,
                          const cost::ClusterCost *cost) {
  json all = json::array();
  for (const plan::Program &program : plan.programs) {
    json sent = json::array();
    for (const rt::TrafficLine &line :
         rt::sumByKind(rt::countTraffic(plan, program, rank))) {
      sent.push_back({{"axis", line.axes},
                      {"kind", line.kind},
                      {"calls", line.calls},
                      {"bytes_sent", line.bytesSent}});
      if (cost)
        sent.back()["seconds"] = secondsOf(line, *cost);
    }
    json &one = all.emplace_back(
        json{{"name", program.name},
             {"kind", plan::nameOf(program.kind)},
             {"memory", plan.sequences.at(program.sequence).frameBytes},
             {"communication", sent}});
    if (program.kind != plan::ProgramKind::Train)
      continue;
    const plan::Phase &phase = program.phase;
    one[phase.countsUpdates ? "from_update" : "from_step"] = phase.from;
    if (phase.to > 0)
      one["to"] = phase.to;
    if (phase.every.isSet()) {
      one["interval"] = {
          {phase.every.countsRuns ? "doubled_after_runs" : "doubled_after",
           phase.every.doubledAfter}};
      if (phase.every.atMost > 0)
        one["interval"]["at_most"] = phase.every.atMost;
    }
    if (!program.phase.name.empty())
      one["phase"] = program.phase.name;
  }
  return all;
}

/// From which update (or step) on a phase runs, such as `1, every 1, 2, 4, 16
/// times each`: at intervals of 1, 2, 4 and so on.
static std::string describeRuns(const plan::Phase &phase) {
  std::string text = std::to_string(phase.from);
  if (phase.to > 0)
    text += " to " + std::to_string(phase.to);
  const plan::Interval &every = phase.every;
  if (!every.isSet())
    return text;
  text += ", every 1, 2, 4";
  if (every.atMost > 0)
    text += " up to " + std::to_string(every.atMost);
  return text + ", " + std::to_string(every.doubledAfter) +
         (every.countsRuns ? " times each" : " long each");
}

void driver::printPhases(const plan::Plan &plan, int64_t rank,
                         const cost::ClusterCost *cost) {
  std::vector<const plan::Program *> programs = plan.trainPrograms();
  if (programs.size() < 2)
    return;
  std::cout << "\nphases of training (memory, and bytes that rank " << rank
            << " sends in a step" << (cost ? ", one after the other" : "")
            << ")\n";
  bool countsUpdates = programs.front()->phase.countsUpdates;
  std::vector<TableRow> rows = {{"phase",
                                 countsUpdates ? "from update" : "from step",
                                 "program", "memory", "sent"}};
  if (cost)
    rows.front().push_back("time");
  for (const plan::Program *program : programs) {
    int64_t sent = 0;
    double seconds = 0;
    for (const rt::TrafficLine &line : rt::countTraffic(plan, *program, rank)) {
      sent += line.bytesSent;
      seconds += cost ? secondsOf(line, *cost) : 0;
    }
    rows.push_back(
        {program->phase.name, describeRuns(program->phase), program->name,
         plan::formatBytes(plan.sequences.at(program->sequence).frameBytes),
         plan::formatBytes(sent)});
    if (cost)
      rows.back().push_back(formatSeconds(seconds));
  }
  printTable(rows);
}

void driver::printProgram(const plan::Plan &plan, const std::string &name) {
  json all = describeProgram(plan, name);
  auto bytes = [](const json &value) {
    return plan::formatBytes(int64_t(value.get<double>()));
  };
  int64_t tokens = all["tokens"];
  std::cout << "program " << name << ": " << tokens << " tokens in "
            << all["rows"] << " rows, " << formatFlops(all["flops"]) << "\n"
            << "must move " << bytes(all["bytes"]) << ": "
            << bytes(all["state_bytes"]) << " of states, each byte once";
  const char *next = ", and of the cache\n";
  for (const json &cache : all["cache"]) {
    std::cout << next << bytes(cache["bytes_per_position"])
              << " for each position that a row sees, here "
              << cache["positions"];
    next = "\nand in other layers ";
  }
  std::cout << "\n"
            << all["launches"] << " launches of " << all["kernels"].size()
            << " kernels read and write " << bytes(all["launch_bytes"]) << "\n";
  bool hasTimes = all.contains("seconds");
  if (hasTimes)
    std::cout << "takes at least " << formatSeconds(all["seconds"]) << ", "
              << formatSeconds(all["seconds"].get<double>() / double(tokens))
              << " a token: each launch as long as its bytes or FLOPs do\n"
              << "at the " << formatNumber("%.1f", all["stream_gb_s"])
              << " GB/s and " << formatNumber("%.0f", all["peak_gflop_s"])
              << " GFLOP/s that " << all["threads"]
              << " threads of this machine come to now\n";
  std::cout
      << "\nkernels (FLOPs and bytes of one launch, launches and time of a "
         "run)\n";
  std::vector<TableRow> rows = {{"kernel", "FLOPs", "bytes", "launches",
                                 hasTimes ? "time" : "", "operations"}};
  for (const json &kernel : all["kernels"])
    rows.push_back({kernel["name"], formatFlops(kernel["flops"]),
                    bytes(kernel["bytes"]), kernel["calls"].dump(),
                    hasTimes ? formatSeconds(kernel["seconds"]) : "",
                    kernel["ops"]});
  printTable(rows);
}
