//===- ProfileText.cpp - The report on a profiled step --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the profile of a step as JSON and as text. The text has the fields of
// DeepSpeed's flops profiler in the same order.
//
//===----------------------------------------------------------------------===//

#include "StepProfile.h"

#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/io/TextTable.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

namespace {

/// A line of the report's head, and the field of the JSON with the same value.
struct Field {
  const char *key;
  const char *label;
  double value;
  const char *unit; ///< "": a number; "s": seconds; otherwise scaled by 1000s.
};

} // namespace

/// Formats 1234567 as `1.23 M`.
static std::string scaled(double value, const char *unit) {
  static const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(prefixes); ++prefix)
    value /= 1000;
  char text[64];
  snprintf(text, sizeof text, prefix ? "%.2f %s%s" : "%.4g %s%s", value,
           prefixes[prefix], unit);
  std::string result = text;
  return result.substr(0, result.find_last_not_of(' ') + 1);
}

static std::string percent(double part, double all) {
  char text[32];
  snprintf(text, sizeof text, "%.2f %%", all > 0 ? 100 * part / all : 0);
  return text;
}

static std::vector<Field> fieldsOf(const plan::Plan &plan,
                                   const StepProfile &profile,
                                   const JobRate &rate) {
  ModuleCosts all = profile.model.total();
  auto passes = double(plan.accumulate);
  auto ranks = double(plan.mesh.ranks());
  auto perSecond = [](double count, double seconds) {
    return seconds > 0 ? count / seconds : 0;
  };
  double forward = all.forwardSeconds, backward = all.backwardSeconds;
  double seconds = profile.parts.seconds;
  double mfu = rate.peakFlopsPerSecond > 0
                   ? rate.stepFlops / seconds / rate.peakFlopsPerSecond
                   : 0;
  return {
      {"world_size", "ranks", ranks, ""},
      {"data_parallel_size", "ranks along data", double(plan.mesh.size("data")),
       ""},
      {"model_parallel_size", "ranks along tensor",
       double(plan.mesh.size("tensor")), ""},
      {"micro_batch_rows", "rows of a micro-batch", double(plan.microBatch),
       ""},
      {"parameters_per_rank", "parameters of this rank", double(all.parameters),
       ""},
      {"parameters", "parameters of the model", double(plan.parameters), ""},
      {"forward_macs", "forward MACs of a micro-batch", all.macs, "MAC"},
      {"forward_flops", "forward FLOPs of a micro-batch", all.flops, "FLOP"},
      {"forward_s", "forward time", forward, "s"},
      {"forward_flops_per_s", "forward FLOP/s",
       perSecond(passes * all.flops, forward), "FLOP/s"},
      {"backward_s", "backward time", backward, "s"},
      {"backward_flops_per_s", "backward FLOP/s, of 2 x forward FLOPs",
       perSecond(2 * passes * all.flops, backward), "FLOP/s"},
      {"forward_backward_flops_per_s", "forward and backward FLOP/s",
       perSecond(3 * passes * all.flops, forward + backward), "FLOP/s"},
      {"optimizer_s", "optimizer time", profile.parts.optimizer, "s"},
      {"step_s", "step time", seconds, "s"},
      {"flops_per_s", "FLOP/s of the step",
       perSecond(3 * passes * all.flops, seconds), "FLOP/s"},
      {"samples_per_s", "rows per second",
       perSecond(double(plan.batch), seconds), ""},
      {"model_flops_per_s", "model FLOP/s of all ranks",
       perSecond(rate.stepFlops, seconds), "FLOP/s"},
      {"peak_flops_per_s", "peak FLOP/s of all ranks", rate.peakFlopsPerSecond,
       "FLOP/s"},
      {"mfu", "MFU", mfu, ""},
  };
}

/// What a reader must know to judge the times.
static std::vector<std::string> notesOf(const plan::Plan &plan,
                                        const StepProfile &profile) {
  std::vector<std::string> notes = {
      "counts are of the forward pass of one micro-batch on this rank, as "
      "DeepSpeed's profiler counts; times are sums over the step's " +
          std::to_string(plan.accumulate) + " micro-batch(es)",
      "each command of the step was waited for, so kernels overlapped with "
      "nothing; other steps may be faster"};
  if (plan.device == plan::DeviceKind::Cuda)
    notes.push_back("the step was launched without CUDA graphs");
  else if (plan.mesh.ranks() > 1)
    notes.push_back("collectives of CPUs ran beside kernels: waits are the "
                    "time in which no kernel ran");
  if (profile.parts.skipsLayers)
    notes.push_back("the step has dropped layers: they took no time, but all "
                    "FLOPs are those of steps without dropping");
  if (profile.parts.sharedLaunches > 0)
    notes.push_back(
        std::to_string(profile.parts.sharedLaunches) + " of " +
        std::to_string(profile.parts.launches) +
        " launches compute for several modules: their times are "
        "split by FLOPs if they compute products, or else by bytes");
  if (profile.parts.fileCopies > 0)
    notes.push_back("copies of files took " +
                    formatMilliseconds(profile.parts.fileCopies) +
                    " beside other commands, which the parts do not include");
  return notes;
}

json heddle::rt::profileJson(const plan::Plan &plan, const StepProfile &profile,
                             const JobRate &rate,
                             const ProfileOptions &options) {
  json all = {{"step", profile.step},
              {"rank", profile.rank},
              {"stage", plan.mesh.stageOf(profile.rank)},
              {"plan", plan.hash},
              {"target", plan.target},
              {"notes", notesOf(plan, profile)}};
  for (const Field &field : fieldsOf(plan, profile, rate))
    all[field.key] = field.value;
  for (const auto &[name, seconds] : profile.parts.list())
    all["parts"][name] = seconds;
  json &modules = all["modules"] = json::array();
  profile.model.walk(options.levels(), [&](const ModuleNode &module, int64_t) {
    ModuleCosts costs = module.total();
    json counts = module.counts();
    counts["forward_s"] = costs.forwardSeconds;
    counts["backward_s"] = costs.backwardSeconds;
    modules.push_back(std::move(counts));
  });
  return all;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void addTable(std::string &text, const std::vector<io::TableRow> &rows) {
  for (const std::string &line : io::tableLines(rows))
    text += line + "\n";
}

/// Appends the modules of each level that cost most, by each kind of cost.
static void addTop(std::string &text, const plan::Plan &plan,
                   const StepProfile &profile, const ProfileOptions &options) {
  std::vector<std::vector<const ModuleNode *>> levels;
  profile.model.walk(
      options.levels(), [&](const ModuleNode &module, int64_t level) {
        levels.resize(std::max<size_t>(levels.size(), level + 1));
        levels[level].push_back(&module);
      });
  struct Kind {
    const char *name;
    double (*of)(const ModuleCosts &costs);
    std::string (*format)(double value);
  };
  const Kind kinds[] = {
      {"parameters", [](const ModuleCosts &c) { return double(c.parameters); },
       [](double v) { return scaled(v, ""); }},
      {"MACs", [](const ModuleCosts &c) { return c.macs; },
       [](double v) { return scaled(v, "MAC"); }},
      {"time",
       [](const ModuleCosts &c) {
         return c.forwardSeconds + c.backwardSeconds;
       },
       formatMilliseconds}};
  for (size_t level = 0; level < levels.size(); ++level) {
    text += " depth " + std::to_string(level) + "\n";
    for (const Kind &kind : kinds) {
      std::vector<const ModuleNode *> sorted = levels[level];
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](const ModuleNode *a, const ModuleNode *b) {
                         return kind.of(a->total()) > kind.of(b->total());
                       });
      sorted.resize(std::min<size_t>(sorted.size(), options.top.value_or(1)));
      text += "   " + std::string(kind.name) + ":";
      for (const ModuleNode *module : sorted)
        text += " " + (module->path.empty() ? plan.family : module->path) +
                " " + kind.format(kind.of(module->total())) +
                (module == sorted.back() ? "" : ",");
      text += "\n";
    }
  }
}

static std::string valueText(const Field &field) {
  if (std::string(field.unit) == "s")
    return formatMilliseconds(field.value);
  return scaled(field.value, field.unit);
}

std::string heddle::rt::profileText(const plan::Plan &plan,
                                    const StepProfile &profile,
                                    const JobRate &rate,
                                    const ProfileOptions &options) {
  std::string text = "profile of step " + std::to_string(profile.step) +
                     " on rank " + std::to_string(profile.rank) + "\n";
  std::vector<io::TableRow> rows;
  for (const Field &field : fieldsOf(plan, profile, rate))
    rows.push_back({field.label, valueText(field)});
  addTable(text, rows);
  text += "\nparts of the step\n";
  rows.clear();
  for (const auto &[name, seconds] : profile.parts.list())
    rows.push_back({std::string(name) == "not_covered" ? "not covered" : name,
                    formatMilliseconds(seconds),
                    percent(seconds, profile.parts.seconds)});
  addTable(text, rows);
  text += "\nmodules\n";
  rows = {{"module", "parameters", "share", "MACs", "share", "forward",
           "backward", "of the step", "FLOP/s"}};
  ModuleCosts all = profile.model.total();
  profile.model.walk(options.levels(), [&](const ModuleNode &module,
                                           int64_t level) {
    ModuleCosts costs = module.total();
    double seconds = costs.forwardSeconds + costs.backwardSeconds;
    double flops = 3 * double(plan.accumulate) * costs.flops;
    rows.push_back({std::string(2 * level, ' ') +
                        (module.path.empty() ? plan.family : module.path),
                    scaled(double(costs.parameters), ""),
                    percent(double(costs.parameters), double(all.parameters)),
                    scaled(costs.macs, "MAC"), percent(costs.macs, all.macs),
                    formatMilliseconds(costs.forwardSeconds),
                    formatMilliseconds(costs.backwardSeconds),
                    percent(seconds, profile.parts.seconds),
                    scaled(seconds > 0 ? flops / seconds : 0, "FLOP/s")});
  });
  addTable(text, rows);
  text += "\nmost expensive modules of each level\n";
  addTop(text, plan, profile, options);
  text += "\n";
  for (const std::string &note : notesOf(plan, profile))
    text += "note: " + note + "\n";
  return text;
}
