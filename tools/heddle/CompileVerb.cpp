//===- CompileVerb.cpp - heddle compile -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the flags and files of `heddle compile`, makes a CompileJob of them,
// and runs it. If the plan exceeds the memory budgets, prints flags with which
// a plan would need less memory.
//
//===----------------------------------------------------------------------===//

#include "ChooseMesh.h"
#include "CompileFlags.h"
#include "ExplainSchedule.h"
#include "ExplainText.h"
#include "SmallerPlan.h"
#include "Verbs.h"
#include "heddle/Cost/UsualMachine.h"
#include "heddle/Import/Draft.h"
#include "heddle/Settings/LossScale.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/CacheDirectory.h"
#include "heddle/runtime/io/File.h"
#include "report/CompileReport.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

namespace fs = std::filesystem;

namespace {

/// The command line of `heddle compile`.
struct CompileFlags {
  std::string model, draft, weights, dsConfig, strategy, cluster, output, init;
  std::optional<uint64_t> seed;
  std::optional<int64_t> draftTokens;
  std::string cache, dumpPhases, stopAfter, startFrom, report;
  bool dryRun = false;
  bool explain = false, explainAll = false, timing = false, verbose = false;
  bool shardingReasons = false, strictConfig = false;
  bool chooses = false; ///< --mesh auto; `optimize` has the goal.
  std::string optimize;
  config::Flags flags;
};

} // namespace

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

static config::ExplainStyle explainStyle(const CompileFlags &flags) {
  return {terminalWidth(), flags.explainAll};
}

static config::ResolvedSettings resolve(const CompileFlags &flags,
                                        const SettingsFiles &files) {
  config::ResolvedSettings settings = files.merge(flags.flags);
  if (settings.problems.empty())
    return settings;
  if (flags.explain)
    std::cout << config::explainSettings(settings, explainStyle(flags))
              << std::flush;
  throw config::ConfigErrors(settings.problems);
}

static void checkPhase(const char *flag, const std::string &name) {
  std::vector<std::string> names = phaseNames();
  if (name.empty() ||
      std::find(names.begin(), names.end(), name) != names.end())
    return;
  std::string all, near = closestMatch(name, names);
  for (const std::string &phase : names)
    all += (all.empty() ? "" : ", ") + phase;
  fail("H0113", std::string(flag) + ": there is no phase \"" + name + "\"",
       near.empty() ? "the phases: " + all : "did you mean " + near + "?");
}

static void checkUse(const CompileFlags &flags, bool isModule) {
  checkPhase("--stop-after", flags.stopAfter);
  checkPhase("--start-from", flags.startFrom);
  if (!flags.init.empty() && flags.init != "random")
    fail("H0113", "--init: \"" + flags.init + "\" is not possible",
         "use --init random, or leave it out to load the weights");
  bool isForward = isModule && !flags.weights.empty();
  if (!isModule && !flags.weights.empty())
    fail("H0113", "--weights is for a forward function (.mlir)",
         "give the directory itself: heddle compile " + flags.weights);
  if (isForward && !flags.startFrom.empty())
    fail("H0113", "--start-from is for a dump, not for a forward function",
         "leave out --start-from");
  if (isModule && !flags.init.empty())
    fail("H0113", "--init: a module says itself where its weights are",
         "leave out --init");
  if (isModule && flags.seed)
    fail("H0113", "--seed: a module says itself what its seed is",
         "leave out --seed, or edit `seed` in the module");
  if (flags.draft.empty() && flags.draftTokens)
    fail("H0136", "--draft-tokens: there is no draft that would guess them",
         "add --draft DIR, or leave out --draft-tokens");
  if (isModule && !isForward && !flags.draft.empty())
    fail("H0113", "--draft: a dump is of one model",
         "leave out --draft, or give the model's directory");
  if (isModule && !isForward && !flags.cluster.empty())
    fail("H0113", "--cluster: a module says itself what its mesh is",
         "leave out --cluster");
  if (!isModule && !flags.startFrom.empty())
    fail("H0113", "--start-from needs a dump (.mlir) as MODEL",
         "as in: heddle compile DIR/" + flags.startFrom +
             ".mlir --start-from " + flags.startFrom);
  std::vector<std::string> names = phaseNames();
  auto numberOf = [&](const std::string &phase) {
    return std::find(names.begin(), names.end(), phase);
  };
  if (!flags.startFrom.empty() &&
      numberOf(flags.stopAfter) < numberOf(flags.startFrom))
    fail("H0113",
         "--stop-after " + flags.stopAfter + ": the dump was made after " +
             flags.startFrom + ", which comes later",
         "stop after " + flags.startFrom + " or a later phase");
  if (flags.shardingReasons && !flags.startFrom.empty() &&
      numberOf(flags.startFrom) >= numberOf("shard"))
    fail("H0113",
         "--print-sharding-reasons: a dump made after " + flags.startFrom +
             " is sharded already",
         "start from train or before");
  if (flags.explainAll && !flags.explain)
    fail("H0113", "--all says what --explain-config shows",
         "add --explain-config");
  bool stopsEarly = !flags.stopAfter.empty() && flags.stopAfter != names.back();
  if (!flags.output.empty() && stopsEarly)
    std::cerr << "warning: -o has no effect: --stop-after " << flags.stopAfter
              << " makes no binary\n";
  if (!flags.report.empty() && !flags.dryRun &&
      (flags.output.empty() || stopsEarly))
    fail("H0113", "--report shows a plan, and none is made",
         stopsEarly ? "leave out --stop-after, and add -o BINARY or --dry-run"
                    : "add -o BINARY, or --dry-run");
  if (!flags.report.empty() && flags.startFrom == names.back())
    fail("H0113",
         "--report: a dump made after " + flags.startFrom + " has no plan",
         "start from an earlier phase");
  if (flags.dryRun && !flags.stopAfter.empty())
    fail("H0113", "--dry-run plans to the end: --stop-after has no place in it",
         "leave out one of them");
  if (flags.output.empty() && flags.stopAfter.empty() && !flags.explain &&
      !flags.dryRun)
    fail("H0113", "there is no output", "add -o BINARY, or --dry-run");
}

/// Completes the settings that depend on the model.
static void settle(config::ResolvedSettings &settings,
                   config::ModelSpec &model) {
  config::settleServing(settings, model);
  config::settleRate(settings, model);
  config::checkShapes(model, settings.values.microBatch, settings.values.seq);
  for (const std::string &warning : config::findLayouts(settings, model))
    std::cerr << "warning: " << warning << "\n";
  config::settleParallel(settings, model);
  config::fillFromModel(settings, model);
}

void driver::settleSettings(CompileJob &job) {
  settle(job.settings, *job.model);
  // A forward function of the user may call functions that are no layers, so
  // the number of its layers is not known yet.
  config::checkLayerDrop(job.settings,
                         job.module.empty() ? job.model->layers : 0);
  config::checkKept(job.settings, *job.model);
}

static void readDraft(config::ModelRequest request, const CompileFlags &flags,
                      const config::ResolvedSettings &asked, CompileJob &job) {
  constexpr int64_t usual = 4;
  job.draftTokens = flags.draftTokens.value_or(usual);
  request.path = flags.draft;
  request.extension.reset();
  job.draft = config::readModelSpec(request);
  warnOfModel(*job.draft);
  config::requireSameTokens(*job.model, *job.draft);
  job.draftSettings = config::draftSettings(asked, job.settings.values);
  settle(job.draftSettings, *job.draft);
}

/// Reads the model and its draft model, and completes the settings that depend
/// on them. Returns 0, or the exit status of an error that was printed.
static int readModel(const CompileFlags &flags, CompileJob &job) {
  if (!flags.draft.empty())
    config::requireDraftable(job.settings.values);
  const config::ResolvedSettings asked = job.settings;
  config::ModelRequest request;
  request.path = flags.weights.empty() ? flags.model : flags.weights;
  request.random = flags.init == "random";
  request.seed = flags.seed.value_or(0);
  request.isStrict = flags.strictConfig;
  tellReader(request, job.settings.values);
  if (flags.weights.empty()) {
    job.model = config::readModelSpec(request);
  } else {
    int exitCode = 0;
    job.module = flags.model;
    job.model = readForwardSpec(flags.model, exitCode);
    if (!job.model)
      return exitCode;
    config::findWeights(request, *job.model);
  }
  if (!request.noDecay.empty() &&
      std::all_of(job.model->parameters.begin(), job.model->parameters.end(),
                  [](const auto &parameter) { return parameter.decays; }))
    std::cerr << "warning: --no-decay \"" << request.noDecay
              << "\" matches no parameter: all have weight decay\n";
  warnOfModel(*job.model);
  settleSettings(job);
  if (!flags.draft.empty())
    readDraft(request, flags, asked, job);
  return 0;
}

/// Removes the flag --mesh auto, since `auto` is no mesh: the mesh is chosen
/// later.
static void takeAutoMesh(CompileFlags &flags) {
  std::optional<std::string> &mesh = flags.flags["--mesh"];
  flags.chooses = mesh == "auto";
  if (!flags.chooses && !flags.optimize.empty())
    fail("H0137", "--optimize says what --mesh auto chooses a mesh for",
         "add --mesh auto, or leave out --optimize");
  if (!flags.chooses)
    return;
  mesh.reset();
  if (io::endsWith(flags.model, ".mlir"))
    fail("H0137", "--mesh auto plans a model's directory, not a module",
         "name the axes, as --mesh tensor=2");
  if (flags.cluster.empty())
    fail("H0137", "--mesh auto chooses a mesh for a cluster, and there is none",
         "add --cluster FILE, or name the axes, as --mesh tensor=2");
}

/// Checks that the mesh fits the cluster file; for --mesh auto, chooses the
/// mesh. Returns the rows that --explain-config prints about the cluster file,
/// if there is one.
static std::vector<config::ExplainRow>
readClusterFile(const CompileFlags &flags, CompileJob &job) {
  if (flags.cluster.empty())
    return {};
  config::Cluster cluster = config::readCluster(flags.cluster);
  if (flags.chooses)
    chooseMesh(job, cluster,
               flags.optimize == "throughput" ? Goal::Throughput
                                              : Goal::Latency);
  std::string warning = config::checkCluster(job.settings.values, cluster);
  if (!warning.empty())
    std::cerr << "warning: " << warning << "\n";
  job.cluster = cluster.json;
  return cluster.rows;
}

static bool dumpsFiles(const CompileFlags &flags) {
  return !flags.dumpPhases.empty() && flags.dumpPhases != "-";
}

/// Checks before the compilation that the outputs can be written, so that no
/// time is lost.
static void checkOutputs(const CompileFlags &flags) {
  std::error_code ignored;
  if (fs::is_directory(flags.output, ignored) ||
      io::endsWith(flags.output, "/"))
    fail("H0113", "-o " + flags.output + " is a directory",
         "name a file, as -o " + (fs::path(flags.output) / "model").string());
  std::vector<io::NamedFile> outputs = {{"-o", flags.output},
                                        {"--report", flags.report}};
  std::vector<std::string> names = phaseNames();
  auto first = std::find(names.begin(), names.end(), flags.startFrom);
  auto last = std::find(names.begin(), names.end(), flags.stopAfter);
  // --start-from names the phase whose IR dump is the input, and only later
  // phases write dumps. If it names the first phase, that dump is written
  // again, since flags may have changed it.
  bool isAll = first == names.begin() || first == names.end();
  if (dumpsFiles(flags))
    for (auto it = isAll ? names.begin() : first + 1;
         it != names.end() && it <= last; ++it)
      outputs.push_back(
          {"--dump-phases", flags.dumpPhases + "/" + *it + ".mlir"});
  io::requireApart({{"MODEL", flags.model},
                    {"--weights", flags.weights},
                    {"--draft", flags.draft},
                    {"--config", flags.dsConfig},
                    {"--strategy", flags.strategy},
                    {"--cluster", flags.cluster}},
                   outputs);
  if (!flags.output.empty() && !flags.dryRun)
    io::requireWritableOutput(flags.output);
  if (!flags.report.empty())
    io::requireWritableOutput(flags.report);
  if (dumpsFiles(flags))
    io::requireWritable(flags.dumpPhases);
}

/// Whether a rank that needs these bytes exceeds the memory budgets.
static bool isOverBudget(const config::Settings &settings,
                         const plan::PerMemory<int64_t> &bytes) {
  using plan::MemoryKind;
  int64_t device = bytes[MemoryKind::Device];
  int64_t host = bytes[MemoryKind::Host] + bytes[MemoryKind::Pinned];
  if (!factsOf(settings.target).hasDeviceMemory && settings.hostBudget == 0)
    device += host;
  auto isOver = [](int64_t needed, int64_t budget) {
    return budget > 0 && needed > budget;
  };
  return isOver(device, settings.memoryBudget) ||
         isOver(host, settings.hostBudget) ||
         isOver(bytes[MemoryKind::File], settings.fileBudget);
}

/// Returns the plans that the job would have if the change were applied to the
/// flags: none if the changed flags are invalid, or if `fits` is false.
static std::vector<plan::Plan> plansWith(
    const Change &change, const CompileFlags &flags, const SettingsFiles &files,
    const CompileJob &job,
    bool (*fits)(const config::Settings &, const plan::PerMemory<int64_t> &)) {
  CompileJob other = job;
  other.dumpPhases = "";
  other.stopAfter = "";
  try {
    other.settings = files.merge(change.on(flags.flags));
    if (!other.settings.problems.empty())
      return {};
    settleSettings(other);
  } catch (const UserError &) {
    return {};
  }
  return planJob(other,
                 [&](KnownBytes, const plan::PerMemory<int64_t> &bytes) {
                   return fits(other.settings.values, bytes);
                 })
      .plans;
}

/// Returns the estimated seconds of a step if the change is applied to the
/// flags. Returns nothing if the changed flags are invalid, or if their plan
/// exceeds the memory budgets.
static std::optional<double> costOf(const Change &change,
                                    const CompileFlags &flags,
                                    const SettingsFiles &files,
                                    const CompileJob &job) {
  std::vector<plan::Plan> plans =
      plansWith(change, flags, files, job,
                [](const config::Settings &settings,
                   const plan::PerMemory<int64_t> &bytes) {
                  return !isOverBudget(settings, bytes);
                });
  if (plans.empty())
    return std::nullopt;
  double seconds = 0;
  for (const plan::Plan &plan : plans) {
    cost::Cluster machines =
        flags.cluster.empty()
            ? cost::usualMachines(plan.device, plan.mesh.ranks())
            : cost::withUsualTimes(config::readCluster(flags.cluster),
                                   plan.device);
    cost::ClusterCost times(plan, machines);
    seconds = std::max(seconds,
                       StepSchedule(plan, /*trace=*/"", &times).stepSeconds());
  }
  return seconds;
}

/// Prints changes of flags with which the job fits its memory budgets. A plan
/// was compiled with each of these changes, and it fits.
static void helpForMemory(const CompileFlags &flags, const SettingsFiles &files,
                          const CompileJob &job) {
  if (!job.model) {
    std::cerr << "  help: give the strategy in the dump a larger "
                 "memory_budget, or compile the model again: it is said then "
                 "what fits\n";
    return;
  }
  Smaller smaller = {"", true};
  if (!job.draft) {
    std::cerr << "  note: looking for flags with which it fits, for about "
              << searchTime.count() << " seconds at most\n";
    smaller = findSmaller(job.settings.values, [&](const Change &change) {
      return costOf(change, flags, files, job);
    });
  }
  if (!smaller.isCheapest)
    std::cerr << "  note: the time is over, cheaper changes may fit too\n";
  const auto &asked = job.settings.values;
  std::string help = "compile with " + smaller.flags;
  if (smaller.flags.empty())
    help =
        asked.hostBudget > 0 || asked.fileBudget > 0
            ? "raise that limit of --memory-budget, use more ranks (--mesh), "
              "or place less there (--place)"
            : "use more ranks (--mesh), or fewer tokens at a time";
  std::cerr << "  help: " << help << "\n";
}

static int compileModel(CompileFlags flags) {
  bool isModule = io::endsWith(flags.model, ".mlir");
  checkUse(flags, isModule);
  takeAutoMesh(flags);
  CompileJob job;
  job.cache = flags.cache == "off" ? "" : flags.cache;
  SettingsFiles files = readSettingsFiles(flags.dsConfig, flags.strategy);
  job.settings = resolve(flags, files);
  bool isDump = isModule && flags.weights.empty();
  if (isDump)
    job.module = flags.model;
  else if (int exitCode = readModel(flags, job))
    return exitCode;
  for (const std::string &warning :
       {config::warnOfAuto(job.settings), config::warnOfTarget(job.settings),
        isDump ? "" : config::warnOfMode(job.settings), // A dump has its mode.
        job.model ? config::warnOfCodes(job.settings, *job.model) : "",
        job.draft ? config::warnOfCodes(job.draftSettings, *job.draft) : ""})
    if (!warning.empty())
      std::cerr << "warning: " << warning << "\n";
  std::string defaults =
      job.model ? config::noteOfDefaults(job.settings, *job.model) : "";
  if (!defaults.empty())
    std::cerr << defaults << "\n";
  for (const std::string &note : {config::noteOfLossScale(job.settings.values),
                                  config::noteOfSigns(job.settings.values)})
    if (!note.empty())
      std::cerr << "note: " << note << "\n";
  std::vector<config::ExplainRow> clusterRows = readClusterFile(flags, job);
  if (flags.explain) {
    config::ExplainStyle style = explainStyle(flags);
    std::cout << config::explainSettings(job.settings, style)
              << config::formatRows("cluster", clusterRows, style);
    if (job.model)
      std::cout << config::formatRows("model config", job.model->configRows,
                                      style)
                << (job.draft ? config::formatRows("draft's config",
                                                   job.draft->configRows, style)
                              : "")
                << config::wrapText("weights\n  " +
                                        config::coverageReport(*job.model),
                                    style.width);
    if (flags.output.empty() && flags.stopAfter.empty() && !flags.dryRun)
      return 0;
  }
  checkOutputs(flags);
  job.output = flags.output;
  job.dumpPhases = flags.dumpPhases;
  job.stopAfter = flags.stopAfter;
  job.startFrom =
      isDump && flags.startFrom.empty() ? "import" : flags.startFrom;
  job.timing = flags.timing;
  job.dryRun = flags.dryRun;
  job.verbose = flags.verbose;
  job.shardingReasons = flags.shardingReasons;
  JobEnd end = runCompileJob(job);
  if (end.code == "H0201")
    helpForMemory(flags, files, job);
  if (end.exitCode == 0 && !flags.report.empty())
    reportCompilation(job, flags.report, [&](const Change &change) {
      return plansWith(change, flags, files, job,
                       [](const auto &, const auto &) { return true; });
    });
  return end.exitCode;
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

static void addModelFlags(CLI::App &verb, CompileFlags &flags) {
  verb.option_defaults()->group("Model");
  io::addFlag(verb, "-o,--output", flags.output, io::range::path(),
              "The binary to write")
      ->default_str("none");
  io::addFlag(verb, "--config", flags.dsConfig, io::range::path(),
              "A ds_config.json, or one in base64")
      ->default_str("none");
  io::addFlag(verb, "--strategy", flags.strategy, io::range::path(),
              "A strategy, .json or .mlir; wins over --config")
      ->default_str("none");
  io::addFlag(verb, "--weights", flags.weights, io::range::path(),
              "Where the weights of a forward function (.mlir) are, and the "
              "config.json to save with them")
      ->default_str("none");
  io::addFlag(verb, "--init", flags.init, io::range::text(),
              "random: initialise the weights instead of loading them")
      ->default_str("load");
  io::addFlag(verb, "--seed", flags.seed, io::range::seed(),
              "Seed of the random weights")
      ->default_str("0");
  verb.add_flag("--strict-config", flags.strictConfig,
                "Refuse keys of config.json that are not known, in place of "
                "warning of them");
}

static void addInsightFlags(CLI::App &verb, CompileFlags &flags) {
  verb.option_defaults()->group("Looking inside");
  verb.add_flag("--explain-config", flags.explain,
                "Print what is applied or refused: every setting and key, its "
                "value and origin");
  verb.add_flag("--all", flags.explainAll,
                "With --explain-config: also what has no meaning here");
  io::addFlag(verb, "--dump-phases", flags.dumpPhases, io::range::path(),
              "Write one file per phase into this directory; -: print the "
              "module of the last one")
      ->default_str("none");
  io::addFlag(verb, "--stop-after", flags.stopAfter, io::range::text(),
              "Stop after this phase")
      ->default_str("emit");
  io::addFlag(verb, "--start-from", flags.startFrom, io::range::text(),
              "MODEL is the dump made after this phase")
      ->default_str("import");
  verb.add_flag("--dry-run", flags.dryRun,
                "Print the summary and the owners of the memory, write no "
                "binary");
  verb.add_flag("--print-sharding-reasons", flags.shardingReasons,
                "Print how each value is sharded, and what decided it");
  io::addFlag(verb, "--report", flags.report, io::range::path(),
              "Write a page that shows the plan (.html), also with --dry-run")
      ->default_str("none");
  verb.add_flag("--timing", flags.timing, "Print the seconds of each phase");
  verb.add_flag("--verbose", flags.verbose,
                "Print remarks: ignored tensors, rejected fusions");
}

void driver::addCompileVerb(CLI::App &app, Action &action) {
  CLI::App *verb =
      app.add_subcommand("compile", "Compile a model to a native binary");
  auto flags = std::make_shared<CompileFlags>();
  flags->cache = defaultCache();
  io::addFlag(*verb, "MODEL", flags->model, io::range::path(),
              "A Hugging Face directory, a config file (.json), a "
              "dump (.mlir), or a forward function (.mlir)")
      ->required()
      ->default_str("");
  addModelFlags(*verb, *flags);
  addSettings(*verb, "Batch", flags->flags);
  addSettings(*verb, "Optimizer", flags->flags);
  addSettings(*verb, "Mesh", flags->flags);
  io::addFlag(*verb, "--cluster", flags->cluster, io::range::path(),
              "Machines that the mesh must fit, and whose times explain "
              "gives (.json)")
      ->default_str("none");
  io::addFlag(*verb, "--optimize", flags->optimize,
              io::ValueRange::choices({"latency", "throughput"}),
              "What --mesh auto is for, with --mode serve: the time of a token "
              "of one text, or the tokens a second of all texts")
      ->default_str("latency");
  addSettings(*verb, "Memory", flags->flags);
  addSettings(*verb, "Serving", flags->flags);
  io::addFlag(*verb, "--draft", flags->draft, io::range::path(),
              "A smaller model that guesses tokens for this one, which checks "
              "several at once")
      ->default_str("none");
  io::addFlag(*verb, "--draft-tokens", flags->draftTokens,
              io::ValueRange::integers(1, 16),
              "Tokens that the draft guesses at most before they are checked")
      ->default_str("4");
  addSettings(*verb, "Kernels", flags->flags);
  io::addFlag(*verb, "--cache", flags->cache, io::range::path(),
              "Directory of compiled kernels, or off");
  addInsightFlags(*verb, *flags);
  verb->callback(
      [flags, &action] { action = [flags] { return compileModel(*flags); }; });
}
