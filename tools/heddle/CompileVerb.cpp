//===- CompileVerb.cpp - heddle compile -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileJob.h"
#include "ExplainText.h"
#include "Verbs.h"
#include "heddle/Import/Parallel.h"
#include "heddle/runtime/io/File.h"
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
  std::string model, dsConfig, strategy, cluster, output, init;
  std::optional<uint64_t> seed;
  std::string cache, dumpPhases, stopAfter, startFrom;
  std::vector<std::string> keep;
  bool explain = false, explainAll = false, timing = false, verbose = false;
  bool shardingReasons = false;
  config::Flags flags;
};

std::string defaultCache() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache)
    return (fs::path(cache) / "heddle").string();
  const char *home = std::getenv("HOME");
  return home && *home ? (fs::path(home) / ".cache" / "heddle").string()
                       : "off";
}

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace

//===----------------------------------------------------------------------===//
// Running it
//===----------------------------------------------------------------------===//

static config::ExplainStyle explainStyle(const CompileFlags &flags) {
  return {terminalWidth(), flags.explainAll};
}

static config::ResolvedSettings resolve(const CompileFlags &flags) {
  std::string text;
  if (endsWith(flags.strategy, ".mlir")) {
    Diagnostic error;
    if (!strategyFileToJson(flags.strategy, text, error))
      throw UserError(error);
  } else if (!flags.strategy.empty()) {
    text = io::readText(flags.strategy, "H0101");
  }
  config::ResolvedSettings settings =
      config::mergeSettings(flags.flags, flags.dsConfig, flags.strategy, text);
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
  if (isModule && !flags.init.empty())
    fail("H0113", "--init: a module says itself where its weights are",
         "leave out --init");
  if (isModule && flags.seed)
    fail("H0113", "--seed: a module says itself what its seed is",
         "leave out --seed, or edit `seed` in the module");
  if (isModule && !flags.cluster.empty())
    fail("H0113", "--cluster: a module says itself what its mesh is",
         "leave out --cluster");
  if (!isModule && !flags.startFrom.empty())
    fail("H0113", "--start-from needs a dump (.mlir) as MODEL",
         "as in: heddle compile DIR/" + flags.startFrom +
             ".mlir --start-from " + flags.startFrom);
  std::vector<std::string> names = phaseNames();
  if (flags.shardingReasons && !flags.startFrom.empty() &&
      std::find(names.begin(), names.end(), flags.startFrom) >=
          std::find(names.begin(), names.end(), "shard"))
    fail("H0113",
         "--print-sharding-reasons: a dump made after " + flags.startFrom +
             " is sharded already",
         "start from train or before");
  if (flags.explainAll && !flags.explain)
    fail("H0113", "--all says what --explain-config shows",
         "add --explain-config");
  if (flags.output.empty() && flags.stopAfter.empty() && !flags.explain)
    fail("H0113", "there is no output", "add -o BINARY, or --stop-after PHASE");
}

/// Reads the model, and fills in what only it can say.
static void readModel(const CompileFlags &flags, CompileJob &job) {
  config::ModelRequest request;
  request.path = flags.model;
  request.random = flags.init == "random";
  request.seed = flags.seed.value_or(0);
  request.noDecay = job.settings.values.noDecay;
  job.model = config::readModelSpec(request);
  if (job.settings.values.seq == 0) {
    job.settings.values.seq = job.model->maxPositions;
    job.settings.setOrigin("seq", {config::Origin::Kind::Model, "", {}});
  }
  config::checkShapes(*job.model, job.settings.values.microBatch,
                      job.settings.values.seq);
  config::settleParallel(job.settings, *job.model);
  config::fillFromModel(job.settings, *job.model);
}

/// Checks the mesh against the cluster file; its rows, when there is one.
static std::vector<config::ExplainRow>
readClusterFile(const CompileFlags &flags, CompileJob &job) {
  if (flags.cluster.empty())
    return {};
  config::Cluster cluster = config::readCluster(flags.cluster);
  std::string warning = config::checkCluster(job.settings.values, cluster);
  if (!warning.empty())
    std::cerr << "warning: " << warning << "\n";
  job.cluster = cluster.json;
  return cluster.rows;
}

/// What will be written to must take it, before work is done.
static void checkOutputs(const CompileFlags &flags) {
  std::error_code ignored;
  if (fs::is_directory(flags.output, ignored))
    fail("H0113", "-o " + flags.output + " is a directory",
         "name a file, as -o " + flags.output + "/model");
  if (!flags.output.empty())
    io::requireWritableOutput(flags.output);
  if (!flags.dumpPhases.empty())
    io::requireWritable(flags.dumpPhases);
}

static int compileModel(const CompileFlags &flags) {
  bool isModule = endsWith(flags.model, ".mlir");
  checkUse(flags, isModule);
  CompileJob job;
  job.settings = resolve(flags);
  if (isModule)
    job.module = flags.model;
  else
    readModel(flags, job);
  std::string unfilled = config::warnOfAuto(job.settings);
  if (!unfilled.empty())
    std::cerr << "warning: " << unfilled << "\n";
  std::vector<config::ExplainRow> clusterRows = readClusterFile(flags, job);
  if (flags.explain) {
    config::ExplainStyle style = explainStyle(flags);
    std::cout << config::explainSettings(job.settings, style)
              << config::formatRows("cluster", clusterRows, style);
    if (job.model)
      std::cout << config::formatRows("model config", job.model->configRows,
                                      style)
                << config::wrapText("weights\n  " +
                                        config::coverageReport(*job.model),
                                    style.width);
    if (flags.output.empty() && flags.stopAfter.empty())
      return 0;
  }
  checkOutputs(flags);
  job.output = flags.output;
  job.dumpPhases = flags.dumpPhases;
  job.stopAfter = flags.stopAfter;
  job.startFrom =
      isModule && flags.startFrom.empty() ? "import" : flags.startFrom;
  job.cache = flags.cache == "off" ? "" : flags.cache;
  job.timing = flags.timing;
  job.verbose = flags.verbose;
  job.shardingReasons = flags.shardingReasons;
  return runCompileJob(job);
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// Adds a flag whose values are those of the setting `key`.
template <typename T>
static CLI::Option *addSetting(CLI::App &verb, const char *names, T &value,
                               const char *key, const char *help) {
  return io::addFlag(verb, names, value, config::rangeOf(key), help);
}

static void addBatchFlags(CLI::App &verb, config::Flags &flags) {
  verb.option_defaults()->group("Batch");
  addSetting(verb, "--batch,--global-batch-size", flags.batch, "batch",
             "Rows of the global batch (train_batch_size)")
      ->default_str("micro-batch x accumulate x data");
  addSetting(verb, "--micro-batch,--micro-batch-size", flags.microBatch,
             "micro_batch", "Rows of one micro-batch on one rank")
      ->default_str("batch / accumulate / data");
  addSetting(verb, "--accumulate", flags.accumulate, "accumulate",
             "Micro-batches per step")
      ->default_str("1");
  addSetting(verb, "--seq,--seq-length", flags.seq, "seq", "Tokens of a row")
      ->default_str("the model's positions");
  io::addFlag(verb, "--precision", flags.precision, io::range::text(),
              "fp32 or bf16")
      ->default_str("fp32");
}

static void addMeshFlags(CLI::App &verb, config::Flags &flags,
                         std::string &cluster) {
  verb.option_defaults()->group("Mesh");
  io::addFlag(verb, "--mesh", flags.mesh, io::range::text(),
              "Ranks along each axis")
      ->default_str("data=1,tensor=1,pipe=1,seq=1");
  addSetting(verb, "--tensor-model-parallel-size", flags.tensor, "tensor",
             "As --mesh tensor=N")
      ->default_str("1");
  addSetting(verb, "--pipeline-model-parallel-size", flags.pipe, "pipe",
             "As --mesh pipe=N")
      ->default_str("1");
  addSetting(verb, "--context-parallel-size", flags.sequence, "sequence",
             "As --mesh seq=N")
      ->default_str("1");
  addSetting(verb, "--zero", flags.zero, "zero", "ZeRO stage, 0 to 3")
      ->default_str("0");
  verb.add_flag("--use-distributed-optimizer", flags.distributedOptimizer,
                "As --zero 1");
  addSetting(verb, "--schedule", flags.schedule, "schedule",
             "gpipe, 1f1b, interleaved or zb-h1")
      ->default_str("1f1b; with --virtual-stages interleaved");
  addSetting(verb, "--virtual-stages,--num-virtual-stages-per-pipeline-rank",
             flags.virtualStages, "virtual_stages",
             "Pipeline stages on each rank, for the schedule interleaved")
      ->default_str("1");
  io::addFlag(verb, "--pipeline-layout,--pipeline-model-parallel-layout",
              flags.pipelineLayout, io::range::text(),
              "Layers of each stage, as 3,4,5 or Ettt|tttt|tttttL")
      ->default_str("cut by cost");
  verb.add_flag("--sequence-parallel", flags.sequenceParallel,
                "Split activations between tensor-parallel regions");
  addSetting(verb, "--context", flags.context, "context",
             "Attention over a split sequence: ulysses or ring")
      ->default_str("ulysses");
  addSetting(verb, "--collectives", flags.collectives, "collectives",
             "fixed: sums in a fixed order; library: MPI's own")
      ->default_str("fixed");
  addSetting(verb, "--communication-data-type", flags.communicationType,
             "communication_type",
             "Type in which gradients travel: fp32, bf16 or fp16")
      ->default_str("the precision");
  io::addFlag(verb, "--cluster", cluster, io::range::path(),
              "Machines that the mesh must fit, and whose times explain "
              "gives (.json)")
      ->default_str("none");
}

static void addMemoryFlags(CLI::App &verb, config::Flags &flags) {
  verb.option_defaults()->group("Memory");
  addSetting(verb, "--recompute", flags.recompute, "recompute",
             "none, selective or full")
      ->default_str("none");
  io::addFlag(verb, "--memory-budget", flags.memoryBudget, config::sizeRange(),
              "Largest memory of a rank, as 16GiB")
      ->default_str("no limit");
  io::addFlag(verb, "--keep", flags.keep, io::range::text(),
              "Values that the binary's --dump writes: logits, grads, "
              "module paths such as h.3.attn")
      ->delimiter(',')
      ->default_str("none");
}

static void addKernelFlags(CLI::App &verb, CompileFlags &flags) {
  verb.option_defaults()->group("Kernels");
  addSetting(verb, "--target", flags.flags.target, "target",
             "x86-64, sm_80 or sm_90")
      ->default_str("x86-64");
  addSetting(verb, "--march", flags.flags.march, "march",
             "native, x86-64-v3, x86-64-v4 or amx")
      ->default_str("native");
  addSetting(verb, "--threads", flags.flags.threads, "threads",
             "Threads per rank")
      ->default_str("all cores");
  io::addFlag(verb, "--cache", flags.cache, io::range::path(),
              "Directory of compiled kernels, or off");
}

static void addOptimizerFlags(CLI::App &verb, config::Flags &flags) {
  verb.option_defaults()->group("Optimizer");
  addSetting(verb, "--lr", flags.lr, "lr",
             "Learning rate, and the highest of a warm-up")
      ->default_str("the config's");
  io::addFlag(
      verb, "--betas", flags.betas,
      io::ValueRange::matching("two numbers from 0 to below 1, as 0.9,0.999",
                               [](const std::string &text) {
                                 return config::parseBetas(text).has_value();
                               }),
      "Adam's, as 0.9,0.999")
      ->default_str("the config's");
  addSetting(verb, "--eps", flags.eps, "eps", "Adam's")
      ->default_str("the config's");
  addSetting(verb, "--weight-decay", flags.weightDecay, "weight_decay",
             "Of all parameters but those of --no-decay")
      ->default_str("the config's");
  io::addFlag(verb, "--no-decay", flags.noDecay, io::range::text(),
              "Parameters without weight decay (regular expression)")
      ->default_str("none");
  io::addFlag(verb, "--warmup-steps", flags.warmupSteps, io::range::count(0),
              "Steps in which the rate rises (warmup_num_steps)")
      ->default_str("the config's");
  io::addFlag(verb, "--train-steps", flags.trainSteps, io::range::count(1),
              "Steps until the rate has fallen (total_num_steps)")
      ->default_str("the config's");
}

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
  io::addFlag(verb, "--init", flags.init, io::range::text(),
              "random: initialise the weights instead of loading them")
      ->default_str("load");
  io::addFlag(verb, "--seed", flags.seed, io::range::seed(),
              "Seed of the random weights")
      ->default_str("0");
}

static void addInsightFlags(CLI::App &verb, CompileFlags &flags) {
  verb.option_defaults()->group("Looking inside");
  verb.add_flag("--explain-config", flags.explain,
                "Print what is applied or refused: every setting and key, its "
                "value and origin");
  verb.add_flag("--all", flags.explainAll,
                "With --explain-config: also what has no meaning here");
  io::addFlag(verb, "--dump-phases", flags.dumpPhases, io::range::path(),
              "Write one file per phase into this directory")
      ->default_str("none");
  io::addFlag(verb, "--stop-after", flags.stopAfter, io::range::text(),
              "Stop after this phase")
      ->default_str("emit");
  io::addFlag(verb, "--start-from", flags.startFrom, io::range::text(),
              "MODEL is the dump made after this phase")
      ->default_str("import");
  verb.add_flag("--print-sharding-reasons", flags.shardingReasons,
                "Print how each value is sharded, and what decided it");
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
              "A Hugging Face directory, a config file (.json), or a "
              "module (.mlir)")
      ->required()
      ->default_str("");
  addModelFlags(*verb, *flags);
  addBatchFlags(*verb, flags->flags);
  addOptimizerFlags(*verb, flags->flags);
  addMeshFlags(*verb, flags->flags, flags->cluster);
  addMemoryFlags(*verb, flags->flags);
  addKernelFlags(*verb, *flags);
  addInsightFlags(*verb, *flags);
  verb->callback(
      [flags, &action] { action = [flags] { return compileModel(*flags); }; });
}
