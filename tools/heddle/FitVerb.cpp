//===- FitVerb.cpp - heddle fit -------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle fit`: prints the configurations that fit a cluster, and
// writes the best of them as a strategy file (settings in JSON, which `heddle
// compile --strategy` reads).
//
//===----------------------------------------------------------------------===//

#include "CompileFlags.h"
#include "ExplainCluster.h"
#include "ExplainText.h"
#include "FitSearch.h"
#include "Verbs.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/Settings/OffloadedRoles.h"
#include "heddle/runtime/io/File.h"
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::driver;
namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

struct FitFlags {
  config::ModelRequest request;
  std::string dsConfig, strategy, cluster, output, cache;
  bool json = false, all = false, verbose = false;
  config::Flags flags;
};

} // namespace

/// Whether a strategy file (for `heddle compile --strategy`) states the setting
/// even if it has its default value. This holds for settings of the mesh and
/// the batch, and for others that the search chooses.
static bool isSearched(const config::SettingField &field) {
  for (const char *section : {"mesh", "batch"})
    if (field.section() == section)
      return true;
  for (const config::OffloadedRole &role : config::offloadedRoles)
    if (field.key == role.key)
      return true;
  for (const char *key : {"zero", "recompute", "host_updates"})
    if (field.key == key)
      return true;
  return false;
}

/// Returns the content of a strategy file (for `heddle compile --strategy`). It
/// has the values that the search chose for the configuration, and all settings
/// that differ from their defaults.
static ordered_json strategyOf(const Mixture &mixture) {
  const config::Settings defaults;
  ordered_json strategy = ordered_json::object();
  for (const config::SettingField &field : config::settingFields()) {
    config::SettingValue value = field.get(mixture.settings);
    if (isSearched(field) || value != field.get(defaults))
      std::visit([&](const auto &held) { strategy[field.key] = held; }, value);
  }
  return strategy;
}

/// Returns, for each kind of memory, the bytes on the rank that needs most of
/// it.
static ordered_json bytesOf(const Mixture &mixture) {
  ordered_json bytes = ordered_json::object();
  for (plan::MemoryKind kind : plan::memoryKinds)
    if (mixture.bytes[kind] > 0)
      bytes[plan::nameOf(kind)] = mixture.bytes[kind];
  return bytes;
}

/// Returns the keys of transfer rates (`pcie`, `nvme`) that the cluster file
/// lacks, though some configurations offload to the memory to which these rates
/// belong. The estimated times of these configurations do not include the
/// transfers.
static std::vector<const char *> unratedMoves(const FitSearch &search,
                                              const config::Cluster &cluster) {
  bool isOnFile = false, isOnHost = false;
  for (const Mixture &mixture : search.fitting) {
    bool hasTimes = mixture.stepSeconds > 0;
    isOnFile |= hasTimes && mixture.bytes[plan::MemoryKind::File] > 0;
    isOnHost |= hasTimes && mixture.bytes[plan::MemoryKind::Host] +
                                    mixture.bytes[plan::MemoryKind::Pinned] >
                                0;
  }
  std::vector<const char *> keys;
  if (isOnFile && !cluster.files)
    keys.push_back("nvme");
  if (isOnHost && !cluster.pcie)
    keys.push_back("pcie");
  return keys;
}

static ordered_json toJson(const Mixture &mixture) {
  ordered_json json = {{"flags", flagsOf(mixture.settings)},
                       {"strategy", strategyOf(mixture)},
                       {"bytes", bytesOf(mixture)},
                       {"owners", ordered_json::object()}};
  for (const plan::Owner &owner : mixture.owners)
    json["owners"][owner.name] = owner.bytes;
  if (mixture.stepSeconds > 0)
    json["step_seconds"] = mixture.stepSeconds;
  return json;
}

static ordered_json toJson(const FitSearch &search) {
  ordered_json json = {{"limits",
                        {{"device", search.limits.device},
                         {"host", search.limits.host},
                         {"file", search.limits.file}}},
                       {"compiled", search.counts().compiled.load()},
                       {"too_large", search.counts().tooLarge.load()},
                       {"fitting", ordered_json::array()}};
  for (const Mixture &mixture : search.fitting)
    json["fitting"].push_back(toJson(mixture));
  if (search.nearest)
    json["nearest"] = toJson(*search.nearest);
  return json;
}

static void printFitting(const FitSearch &search, bool isAll) {
  int64_t tooLarge = search.counts().tooLarge;
  std::cout << search.fitting.size()
            << (search.fitting.size() == 1 ? " mixture fits" : " mixtures fit")
            << ", of " << search.counts().compiled << " that were compiled"
            << (tooLarge > 0 ? "; " + std::to_string(tooLarge) +
                                   " more have too large a model"
                             : "")
            << "; a rank has " << plan::formatBytes(search.limits.device)
            << "\n\n";
  std::vector<TableRow> rows = {{"", "step"}};
  for (plan::MemoryKind kind : plan::memoryKinds)
    rows[0].push_back(plan::nameOf(kind));
  rows[0].push_back("flags");
  size_t shown = isAll ? search.fitting.size()
                       : std::min<size_t>(search.fitting.size(), 20);
  for (size_t i = 0; i < shown; ++i) {
    const Mixture &mixture = search.fitting[i];
    TableRow &row = rows.emplace_back();
    row.push_back(std::to_string(i + 1));
    row.push_back(mixture.stepSeconds > 0 ? formatSeconds(mixture.stepSeconds)
                                          : "");
    for (plan::MemoryKind kind : plan::memoryKinds)
      row.push_back(mixture.bytes[kind] > 0
                        ? plan::formatBytes(mixture.bytes[kind])
                        : "");
    row.push_back(flagsOf(mixture.settings));
  }
  printTable(rows);
  if (shown < search.fitting.size())
    std::cout << "  ... and " << search.fitting.size() - shown
              << " more: --all shows them\n";
}

/// Throws the error that no configuration fits. Its notes say what uses the
/// bytes of the nearest configuration, and its help gives advice.
[[noreturn]] static void failWithNearest(const FitSearch &search,
                                         const config::Cluster &cluster) {
  Diagnostic wrong;
  wrong.code = "H0228";
  wrong.location = cluster.ranksLocation;
  if (!search.nearest && search.impossible.size() == 1)
    throw UserError(search.impossible.begin()->second.first);
  if (!search.nearest) {
    wrong.message = "no mixture is possible on " + cluster.name;
    for (const auto &[why, refusal] : search.impossible)
      wrong.notes.push_back(std::to_string(refusal.times) + " times: " + why);
    wrong.help = "give a --mesh and a --batch that the model and the cluster "
                 "can have";
    throw UserError(wrong);
  }
  const Mixture &nearest = *search.nearest;
  int64_t needed =
      nearest.bytes.total() - nearest.bytes[plan::MemoryKind::File];
  wrong.message = "nothing fits: the smallest plan, " +
                  flagsOf(nearest.settings) + ", needs " +
                  plan::formatExactBytes(needed) + ", a rank has " +
                  plan::formatBytes(search.limits.device);
  for (const plan::Owner &owner : nearest.owners)
    wrong.notes.push_back(owner.name + ": " +
                          plan::formatExactBytes(owner.bytes));
  wrong.help = search.change.empty() ? "use more ranks, or a shorter --seq"
                                     : "add " + search.change;
  throw UserError(wrong);
}

/// Whether the user sets the setting, by a flag or in a file.
static bool isSaid(const config::ResolvedSettings &settings, const char *key) {
  using Kind = config::Origin::Kind;
  auto found = settings.origins.find(key);
  return found != settings.origins.end() &&
         found->second.kind != Kind::Default &&
         found->second.kind != Kind::Derived;
}

/// Adds the flags for a GPU target and bf16, unless the user sets a target.
/// Does so only if the cluster file describes GPUs: it gives the size of their
/// memory and the rate of PCIe.
static void chooseGpu(config::Flags &flags,
                      const config::ResolvedSettings &base,
                      const config::Cluster &cluster) {
  if (cluster.deviceMemory == 0 || !cluster.pcie || isSaid(base, "target"))
    return;
  std::string chosen = "--target sm_80";
  flags["--target"] = "sm_80";
  if (!isSaid(base, "precision")) {
    flags["--precision"] = "bf16";
    chosen += " --precision bf16";
  }
  std::cerr << "  note: plans are for GPUs (" << chosen << "), as "
            << cluster.file
            << " has device_memory and pcie; --target x86-64 plans for CPUs\n";
}

static int fit(FitFlags flags) {
  if (fs::path(flags.request.path).extension() == ".mlir")
    fail("H0113", "fit reads no module: " + flags.request.path,
         "name a Hugging Face directory, or a config.json");
  io::requireApart({{"MODEL", flags.request.path},
                    {"--config", flags.dsConfig},
                    {"--strategy", flags.strategy},
                    {"--cluster", flags.cluster}},
                   {{"-o", flags.output}});
  if (!flags.output.empty())
    io::requireWritableOutput(flags.output);
  config::Cluster cluster = config::readCluster(flags.cluster);
  const SettingsFiles files = readSettingsFiles(flags.dsConfig, flags.strategy);
  config::ResolvedSettings base = files.merge(flags.flags);
  chooseGpu(flags.flags, base, cluster);
  base = files.merge(flags.flags);
  if (!base.problems.empty())
    throw config::ConfigErrors(base.problems);
  for (const std::string &warning :
       {config::warnOfAuto(base), config::warnOfTarget(base),
        config::warnOfMode(base)})
    if (!warning.empty())
      std::cerr << "warning: " << warning << "\n";
  config::ModelRequest request = flags.request;
  tellReader(request, base.values);
  config::ModelSpec model = config::readModelSpec(request);
  warnOfModel(model);
  auto makeJob = [&](const config::Flags &mixture) {
    CompileJob job;
    job.settings = files.merge(mixture);
    if (!job.settings.problems.empty())
      throw config::ConfigErrors(job.settings.problems);
    job.model = model;
    job.cache = flags.cache == "off" ? "" : flags.cache;
    settleSettings(job);
    return job;
  };
  FitSearch search(makeJob, flags.flags, base, cluster);
  search.run();
  if (flags.verbose)
    for (const auto &[why, refusal] : search.impossible)
      std::cerr << "not possible, " << refusal.times << " times: " << why
                << "\n";
  for (const char *key : unratedMoves(search, cluster))
    std::cerr << "warning: what is moved to other memory and back counts as no "
                 "time: "
              << cluster.file << " does not say " << key << "\n";
  if (search.isHostUnrated)
    std::cerr << "warning: " << warnOfHostUpdates(cluster) << "\n";
  if (flags.json)
    std::cout << toJson(search).dump(2) << "\n";
  if (search.fitting.empty())
    failWithNearest(search, cluster);
  if (!flags.json)
    printFitting(search, flags.all);
  if (!flags.output.empty())
    io::writeText(flags.output,
                  strategyOf(search.fitting.front()).dump(2) + "\n");
  return 0;
}

void driver::addFitVerb(CLI::App &app, Action &action) {
  CLI::App *verb = app.add_subcommand(
      "fit", "Say which meshes, ZeRO stages, placements and micro-batches fit "
             "a cluster's memory");
  auto flags = std::make_shared<FitFlags>();
  flags->cache = defaultCache();
  // The weight files are not read, since a plan does not depend on the weights.
  flags->request.random = true;
  io::addFlag(*verb, "MODEL", flags->request.path, io::range::path(),
              "A Hugging Face directory, or a config file (.json)")
      ->required()
      ->default_str("");
  verb->option_defaults()->group("Model");
  io::addFlag(*verb, "--cluster", flags->cluster, io::range::path(),
              "Machines, with device_memory, host_memory and nvme (.json)")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "-o,--output", flags->output, io::range::path(),
              "A strategy file to write: the fastest mixture that fits")
      ->default_str("none");
  io::addFlag(*verb, "--config", flags->dsConfig, io::range::path(),
              "A ds_config.json, or one in base64; what it says is kept")
      ->default_str("none");
  io::addFlag(*verb, "--strategy", flags->strategy, io::range::path(),
              "A strategy, .json or .mlir; what it says is kept")
      ->default_str("none");
  verb->add_flag("--strict-config", flags->request.isStrict,
                 "Refuse keys of config.json that are not known, in place of "
                 "warning of them");
  for (const char *group : {"Batch", "Optimizer", "Mesh", "Memory", "Kernels"})
    addSettings(*verb, group, flags->flags);
  io::addFlag(*verb, "--cache", flags->cache, io::range::path(),
              "Directory of compiled kernels, or off");
  verb->option_defaults()->group("Looking inside");
  verb->add_flag("--json", flags->json, "One JSON object, exact bytes");
  verb->add_flag("--all", flags->all, "Print every mixture, not 20 of them");
  verb->add_flag("--verbose", flags->verbose,
                 "Print why mixtures are not possible");
  verb->callback(
      [flags, &action] { action = [flags] { return fit(*flags); }; });
}
