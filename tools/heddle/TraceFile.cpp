//===- TraceFile.cpp - Reads the traces of a run --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses trace files. The time of each kind of forward and backward pass is the
// median over ranks and steps.
//
//===----------------------------------------------------------------------===//

#include "TraceFile.h"
#include "heddle/runtime/core/Traffic.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

namespace {

/// A forward or backward pass that a rank ran in a step. Its times are in
/// microseconds.
struct Fragment {
  std::string word; ///< The fragment's name in the trace: `F3/1`.
  double begin = 0, end = 0;
  double waits = 0; ///< Time of waits for other stages.
};

/// The measured times of all ranks of one pipeline stage.
struct Samples {
  std::map<std::string, std::vector<double>> fragments; ///< Times by kind.
  std::vector<double> collectives, transfers;           ///< Waits of each step.
  std::vector<double> steps;                            ///< Times of each step.
  std::map<std::string, std::vector<double>> modules;   ///< Times of kernels.
  std::vector<LineEntry> line;                          ///< Order in one step.
};

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace

/// Adds the events that one rank recorded in one step to the samples. The
/// events are in the order of their times.
static void addStep(const std::vector<const json *> &events, Samples &samples) {
  std::vector<Fragment> fragments;
  double collectives = 0, transfers = 0, end = 0;
  std::map<std::string, double> modules;
  for (const json *event : events) {
    const json &arguments = event->at("args");
    std::string command = arguments.at("command");
    double begin = event->at("ts"), time = event->at("dur");
    end = std::max(end, begin + time);
    bool isTransfer = command == "receive" || command == "flush";
    transfers += isTransfer ? time : 0;
    collectives += command == "collective" || command == "wait" ? time : 0;
    if (command == "launch")
      modules[arguments.value("path", "")] += time;
    std::string word = arguments.value("fragment", "");
    if (word.empty())
      continue;
    if (fragments.empty() || fragments.back().word != word)
      fragments.push_back({word, begin});
    fragments.back().end = begin + time;
    fragments.back().waits += isTransfer ? time : 0;
  }
  if (!events.empty())
    samples.steps.push_back(end - events.front()->at("ts").get<double>());
  for (const auto &[path, time] : modules)
    samples.modules[path].push_back(time);
  samples.collectives.push_back(collectives);
  samples.transfers.push_back(transfers);
  samples.line.clear();
  for (const Fragment &fragment : fragments) {
    std::optional<LineEntry> read = readEntry(fragment.word);
    if (!read)
      continue;
    samples.fragments[read->fragment.name()].push_back(
        fragment.end - fragment.begin - fragment.waits);
    samples.line.push_back(*read);
  }
}

static void addFile(const std::string &path, const plan::Plan &plan,
                    Samples &samples) {
  json trace =
      json::parse(io::readText(path, "H0388"), nullptr, /*exceptions=*/false);
  const char *help = "give the file that BINARY train --trace FILE wrote";
  if (trace.is_discarded())
    fail("H0388", path + " is no trace", help);
  try {
    if (trace.at("otherData").at("plan") != plan.hash)
      fail("H0388", path + " is a trace of another plan", help);
    std::map<int64_t, std::vector<const json *>> steps;
    for (const json &event : trace.at("traceEvents"))
      steps[event.at("args").at("step")].push_back(&event);
    for (const auto &[step, events] : steps)
      addStep(events, samples);
  } catch (const json::exception &) {
    fail("H0388", path + " is no trace of ours", help);
  }
}

std::vector<MeasuredStage> driver::readTraces(const std::string &path,
                                              const plan::Plan &plan) {
  std::vector<Samples> samples(plan.mesh.stages());
  for (int64_t rank = 0; rank < plan.mesh.ranks(); ++rank)
    addFile(io::fileOfRank(path, rank), plan, samples[plan.mesh.stageOf(rank)]);
  std::vector<MeasuredStage> stages;
  constexpr double second = 1e6;
  for (const Samples &of : samples) {
    MeasuredStage &stage = stages.emplace_back();
    stage.line.line = of.line;
    for (const auto &[kind, times] : of.fragments)
      stage.line.times[kind] = medianOf(times) / second;
    for (const auto &[path, times] : of.modules)
      stage.modules[path] = medianOf(times) / second;
    stage.collectives = medianOf(of.collectives) / second;
    stage.transfers = medianOf(of.transfers) / second;
    stage.seconds = medianOf(of.steps) / second;
  }
  return stages;
}
