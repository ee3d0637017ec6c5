//===- CompileReport.cpp - The report of a compilation --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileReport.h"
#include "ReportData.h"
#include "ReportPage.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// Changes are not tried for plans of more ranks, because each takes a
/// compilation.
static constexpr int64_t mostRanksOfChanges = 64;

/// Returns changes that need less memory and leave the results as they are.
static std::vector<Change> changesOf(const config::Settings &settings) {
  using config::Recompute;
  std::vector<Change> changes;
  auto add = [&](const char *flag, const std::string &value) {
    changes.push_back({{{flag, value}}});
  };
  if (settings.mode != config::Mode::Train) {
    if (settings.maxBatch > settings.data)
      add("--max-batch",
          std::to_string(
              std::max(settings.maxBatch / 2 / settings.data, int64_t(1)) *
              settings.data));
    if (settings.maxContext > 256)
      add("--max-context", std::to_string(settings.maxContext / 2));
    return changes;
  }
  if (settings.data * settings.sequence > 1)
    for (int64_t stage = settings.zero + 1; stage <= 3; ++stage)
      add("--zero", std::to_string(stage));
  if (settings.microBatch % 2 == 0)
    changes.push_back(
        {{{"--micro-batch", std::to_string(settings.microBatch / 2)},
          {"--accumulate", std::to_string(settings.accumulate * 2)}}});
  if (settings.recompute == Recompute::None)
    add("--recompute", "selective");
  if (settings.recompute != Recompute::Full)
    add("--recompute", "full");
  if (settings.placeOptimizer == config::MemoryKind::Device &&
      factsOf(settings.target).hasDeviceMemory)
    add("--place", "optimizer=host");
  return changes;
}

/// The most bytes of the device's memory that a rank of the plan needs.
static int64_t peakOf(const plan::Plan &plan) {
  int64_t most = 0;
  for (const plan::Stage &stage : plan.stages)
    most = std::max(most, stage.memory.peakBytes(plan::MemoryKind::Device));
  return plan.stages.empty() ? plan.memory.peakBytes(plan::MemoryKind::Device)
                             : most;
}

/// Tries changes of flags, and lists those that need less memory, the one that
/// needs least first.
static json tryChanges(const CompileJob &job, const plan::Plan &plan,
                       const PlansWith &plansWith) {
  json tried = json::array();
  if (!job.model || job.draft || plan.mesh.ranks() > mostRanksOfChanges)
    return tried;
  const int64_t peak = peakOf(plan);
  for (const Change &change : changesOf(job.settings.values)) {
    std::vector<plan::Plan> plans = plansWith(change);
    if (plans.empty() || peakOf(plans.front()) >= peak)
      continue;
    const int64_t less = peakOf(plans.front());
    tried.push_back(
        {{"flags", change.text()}, {"peak", less}, {"less", peak - less}});
  }
  std::stable_sort(
      tried.begin(), tried.end(),
      [](const json &a, const json &b) { return a["peak"] < b["peak"]; });
  return tried;
}

/// Lists which operations could not share a kernel, and why. Equal remarks of
/// several layers share an entry.
static json describeRefusals(const PlannedJob &planned) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const auto &[path, text] : planned.remarks)
    if (text.find("not fused with") != std::string::npos)
      ++counts[{patternOf(path), text}];
  json refusals = json::array();
  for (const auto &[remark, count] : counts)
    refusals.push_back({{"module", remark.first},
                        {"remark", remark.second},
                        {"count", count}});
  return refusals;
}

void driver::reportCompilation(const CompileJob &job, const std::string &path,
                               const PlansWith &plansWith) {
  ReportedPlan reported;
  CompileJob verbose = job;
  verbose.verbose = true;
  verbose.dumpPhases = "";
  PlannedJob planned = planJob(verbose);
  reported.refusals = describeRefusals(planned);
  if (job.dryRun) {
    if (planned.plans.empty())
      fail(planned.errors.empty() ? "H0900" : planned.errors.front().code,
           "--report: there is no plan to show" +
               (planned.errors.empty() ? std::string()
                                       : ": " + planned.errors.front().message),
           "leave out --report, or write a binary with -o");
    reported.plan = std::move(planned.plans.front());
    reported.name = reported.plan.family + ", planned without a binary";
  } else {
    reported.plan = rt::readTargets(job.output).front().plan;
    reported.name = std::filesystem::path(job.output).filename().string();
  }
  reported.changes = tryChanges(job, reported.plan, plansWith);
  std::string page = makeReport({std::move(reported)}, ReportFiles());
  io::writeText(path, page);
  std::cerr << path << ": " << page.size() << " bytes\n";
}
