//===- Info.cpp - The verb info -------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `info` describes a binary as text or JSON: model, plan, memory, and what
// would run on this machine.
//
//===----------------------------------------------------------------------===//

#include "QuantizedCopies.h"
#include "heddle/PlanFormat/Draft.h"
#include "heddle/PlanFormat/RunChoices.h"
#include "heddle/PlanFormat/Serving.h"
#include "heddle/runtime/app/Devices.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/app/Progress.h"
#include "heddle/runtime/app/ServedMemory.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/runtime/devices/cuda/Libraries.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/optim/LearningRate.h"

#include <map>
#include <tuple>
#include <utility>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::ordered_json;

/// Counts the kernels for matrix products that cuBLASLt may compute instead.
static int64_t countProducts(const plan::Plan &plan) {
  return std::count_if(
      plan.kernels.begin(), plan.kernels.end(),
      [](const plan::Kernel &kernel) { return !kernel.library.empty(); });
}

/// Says how many of the binary's matrix products cuBLASLt computes on this
/// machine's GPU, and how many generated kernels compute. Empty if unknown.
static std::string findProducts(const Binary &binary) {
  if (binary.plan.device != plan::DeviceKind::Cuda || !findGpu(0))
    return "";
  try {
    ThreadPool pool(1);
    std::unique_ptr<Device> device =
        openDevice(binary.plan, DeviceOptions(), 0, pool);
    std::string found = device
                            ->load(binary.kernels.data(), binary.kernels.size(),
                                   binary.plan.kernels)
                            ->products();
    return found.empty() ? "none by cuBLASLt" : found;
  } catch (const UserError &) {
    return ""; // This GPU cannot run the binary.
  }
}

static bool hasFiles(const plan::Plan &plan) {
  return plan.memory.peakBytes(plan::MemoryKind::File) > 0;
}

/// Describes where offload files would be on this machine, and how they would
/// be accessed.
static ordered_json describeOffload(const plan::Plan &plan) {
  OffloadOptions swap = chooseOffload(plan, DeviceOptions());
  ordered_json directories = ordered_json::array();
  for (const auto &[directory, roles] : usedDirectories(plan, swap)) {
    ordered_json names = ordered_json::array();
    for (plan::FileRole role : roles)
      names.push_back(plan::nameOf(role));
    directories.push_back({{"directory", directory},
                           {"roles", names},
                           {"in_memory", io::fillsMemory(directory)}});
  }
  return {{"directories", directories},
          {"by", io::openBlockQueue(swap.method, swap.shape.depth)->name()},
          {"request_bytes", swap.shape.requestBytes},
          {"requests", swap.shape.depth}};
}

/// Formats the description of offload files as one line.
static std::string offloadLine(const ordered_json &swap) {
  const ordered_json &directories = swap["directories"];
  std::string places;
  for (const ordered_json &one : directories) {
    places +=
        (places.empty() ? "" : ", ") + one["directory"].get<std::string>();
    const char *before = " for ";
    for (const ordered_json &role : one["roles"])
      if (directories.size() > 1)
        places += std::exchange(before, " and ") + role.get<std::string>();
    if (one["in_memory"].get<bool>())
      places += " (in memory, or through its cache)";
  }
  return places + ", by " + swap["by"].get<std::string>() + " in requests of " +
         formatBytes(swap["request_bytes"].get<int64_t>()) + ", " +
         std::to_string(swap["requests"].get<int64_t>()) + " at a time";
}

/// Describes how many sequences a training binary can generate together, and at
/// which cost. Returns an empty string if it cannot generate.
static std::string describeTexts(const plan::Plan &plan) {
  const plan::Serving &serving = plan.serving;
  if (serving.pages > 0)
    return "up to " + std::to_string(plan::groupsOf(plan) * serving.maxBatch) +
           " together, through a cache of " +
           std::to_string(serving.pages * plan::cachePageTokens) + " tokens" +
           plan::inEachGroup(plan);
  if (!plan.findProgram(plan::ProgramKind::Generate))
    return "";
  const char *why = plan.device == plan::DeviceKind::Cuda
                        ? "training on GPUs has no cache"
                        : "compiled for GPUs too, or with --max-context 1";
  return "each token computes " + std::to_string(plan.seq) + " tokens: " + why;
}

/// Describes layer dropping: theta and gamma, or the drop rates of the layers.
/// Returns an empty object if no layer can be dropped.
static ordered_json describeLayerDrop(const plan::Plan &plan) {
  ordered_json drops = ordered_json::object();
  for (const plan::Condition &condition : plan.conditions)
    if (condition.progress) {
      drops["theta"] = condition.progress->theta;
      drops["gamma"] = condition.progress->gamma;
    } else {
      drops["rates"].push_back(condition.rate);
    }
  return drops;
}

/// Describes the settings that depend on what a binary is for: those of
/// training (such as batch and accumulation), or those of serving (such as the
/// key-value cache).
static ordered_json describePurpose(const plan::Plan &plan) {
  if (!isForServing(plan)) {
    ordered_json training = {
        {"batch", plan.batch},
        {"micro_batch", plan.microBatch},
        {"accumulate", plan.accumulate},
        {"seq", plan.seq},
        {"texts", describeTexts(plan)},
        {"recompute", plan.recompute},
        {"optimizer", plan.optimizer.type},
        {"schedule", plan::nameOf(plan.scheduler.type)},
        {"hyperparameters", Hyperparameters(plan).toJson()}};
    if (!plan.conditions.empty())
      training["layer_drop"] = describeLayerDrop(plan);
    if (plan.strategy.contains(plan::lossScaleKey))
      training["loss_scale"] = plan.strategy.at(plan::lossScaleKey);
    if (auto groups = describeQuantization(plan); !groups.empty())
      training["moq"] = std::move(groups);
    return training;
  }
  ServedMemory memory(plan);
  const int64_t groups = plan::groupsOf(plan);
  return {{"max_batch", groups * plan.serving.maxBatch},
          {"groups", groups},
          {"max_context", plan.serving.maxContext},
          {"pages", plan.serving.pages},
          {"page_tokens", plan::cachePageTokens},
          {"mapped",
           {{"weights", memory.weights},
            {"cache", memory.cache},
            {"arena", memory.arena}}}};
}

/// Format of a quantized weight: bits, group size, and whether there are zero
/// points.
using CodeForm = std::tuple<int64_t, int64_t, bool>;

/// Counts quantized weights by format.
static std::map<CodeForm, int64_t> countCodes(const plan::Plan &plan) {
  std::map<CodeForm, int64_t> counts;
  for (const plan::State &state : plan.states)
    for (const plan::PackedWeight &packed : state.packed)
      if (packed.isQuantized() && packed.part == plan::PackedPart::Words)
        ++counts[{packed.bits, packed.group, !packed.even}];
  return counts;
}

static ordered_json describeCodes(const plan::Plan &plan) {
  ordered_json codes = ordered_json::array();
  for (const auto &[form, weights] : countCodes(plan)) {
    auto [bits, group, hasZeros] = form;
    codes.push_back({{"weights", weights},
                     {"bits", bits},
                     {"group", group},
                     {"zeros", hasZeros}});
  }
  return codes;
}

static ordered_json describe(const plan::Plan &plan,
                             const std::string &products) {
  ordered_json programs = ordered_json::array();
  for (const plan::Program &program : plan.programs)
    programs.push_back({{"kind", plan::nameOf(program.kind)},
                        {"name", program.name},
                        {"flops", program.flops}});
  ordered_json owners = ordered_json::object();
  for (const plan::Owner &owner : plan.memory.owners)
    owners[owner.name] = owner.bytes;
  ordered_json all = {
      {"version", plan.version},
      {"plan", plan.hash},
      {"family", plan.family},
      {"parameters", plan.parameters},
      {"vocab", plan.vocabSize},
      {"positions", plan.maxPositions},
      {"objective", plan::nameOf(plan.objective)},
      {"precision", plan.precision},
      {"codes", describeCodes(plan)},
      {"threads", plan.threads},
      {"device", plan::nameOf(plan.device)},
      {"target", plan.target},
      {"march", plan.march},
      {"features", plan.features},
      {"weights", plan.weights.random
                      ? "random, seed " + std::to_string(plan.weights.seed)
                      : plan.weights.directory},
      {"kernels", plan.kernels.size()},
      {"products",
       {{"gemm", plan.gemm},
        {"library", countProducts(plan)},
        {"here", products}}},
      {"programs", programs},
      {"memory",
       {{"arena", plan.memory.arenaBytes.inMemory()},
        {"persistent", plan.memory.persistentBytes.inMemory()},
        {"peak", plan.memory.peakBytes()},
        {"kinds", plan::kindsOf(plan.memory)},
        {"files", plan::filesOf(plan.memory)},
        {"owners", owners}}}};
  if (hasFiles(plan))
    all["swap"] = describeOffload(plan);
  all.update(describePurpose(plan));
  return all;
}

namespace {
/// The GPU of this machine, or why there is none.
struct GpuAnswer {
  std::optional<GpuHere> gpu;
  std::string missing;
};
} // namespace

static GpuAnswer askForGpu() {
  try {
    return {requireGpu(0), ""};
  } catch (const UserError &error) {
    return {std::nullopt, error.diagnostic.message};
  }
}

static ordered_json describe(const FoundLibrary &library) {
  if (!library.missing.empty())
    return {{"missing", library.missing}};
  return {{"version", library.version}, {"path", library.path}};
}

static ordered_json describe(const GpuAnswer &answer) {
  if (!answer.gpu)
    return {{"missing", answer.missing}};
  return {{"name", answer.gpu->name},
          {"capability", answer.gpu->capability},
          {"cuda", answer.gpu->cuda},
          {"driver", answer.gpu->driver}};
}

static void line(const char *label, const std::string &text) {
  printf("%-12s %s\n", label, text.c_str());
}

static std::string number(int64_t value) { return std::to_string(value); }

static std::string decimal(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

/// Describes layer dropping in words. Returns an empty string if no layer can
/// be dropped.
static std::string layerDropLine(const plan::Plan &plan) {
  const ordered_json drops = describeLayerDrop(plan);
  if (drops.contains("theta"))
    return "layers progressively, theta " +
           decimal(drops["theta"].get<double>()) + ", gamma " +
           decimal(drops["gamma"].get<double>());
  std::string rates;
  for (const plan::Condition &condition : plan.conditions)
    rates += (rates.empty() ? "layers with the probabilities " : ", ") +
             decimal(condition.rate);
  return rates;
}

/// Describes the loss scale in words. Returns an empty string if there is none.
static std::string lossScaleLine(const plan::Plan &plan) {
  if (!plan.strategy.contains(plan::lossScaleKey))
    return "";
  const nlohmann::json &scale = plan.strategy.at(plan::lossScaleKey);
  if (scale.at("value") != "dynamic")
    return decimal(scale.at("value"));
  return "dynamic, from " + decimal(scale.at("initial")) + ", window " +
         number(scale.at("window")) + ", hysteresis " +
         number(scale.at("hysteresis")) +
         (scale.at("consecutive_hysteresis") ? " (consecutive)" : "") +
         ", at least " + decimal(scale.at("min"));
}

static void printTraining(const plan::Plan &plan) {
  line("batch", number(plan.batch) + " rows x " + number(plan.seq) +
                    " tokens (micro-batch " + number(plan.microBatch) +
                    ", accumulate " + number(plan.accumulate) + ")");
  line("precision", plan.precision + ", recompute " + plan.recompute);
  const plan::Optimizer &optimizer = plan.optimizer;
  line("optimizer",
       Hyperparameters(plan).text() + ", betas " + decimal(optimizer.beta1) +
           " and " + decimal(optimizer.beta2) + ", eps " +
           decimal(optimizer.eps) +
           (optimizer.decoupled ? "" : ", weight decay in the gradient"));
  if (!plan.scheduler.parameters.empty())
    line("", describeParameters(plan.scheduler).dump());
  if (std::string drops = layerDropLine(plan); !drops.empty())
    line("drops", drops);
  if (std::string scale = lossScaleLine(plan); !scale.empty())
    line("loss scale", scale);
  const char *label = "quantizes";
  for (const std::string &group : quantizationLines(plan)) {
    line(label, group);
    label = "";
  }
  if (std::string texts = describeTexts(plan); !texts.empty())
    line("texts", texts);
}

static void printServing(const plan::Plan &plan) {
  if (std::string texts = plan::describeServing(plan); !texts.empty())
    line("serves", texts);
  line("precision", plan.precision);
  const char *label = "codes";
  for (const auto &[form, weights] : countCodes(plan)) {
    auto [bits, group, hasZeros] = form;
    line(label, number(weights) + " weights with " + number(bits) + " bits, " +
                    (group == 0 ? "a scale for each output"
                                : "groups of " + number(group) + " inputs") +
                    (hasZeros ? ", zeros" : ""));
    label = "";
  }
}

static void print(const plan::Plan &plan, const std::string &products) {
  line("model", plan.family + ", " + number(plan.parameters) +
                    " parameters, vocabulary " + number(plan.vocabSize) +
                    ", positions " + number(plan.maxPositions));
  if (plan.objective == plan::Objective::MaskedToken)
    line("predicts",
         "masked tokens; the mask is " +
             (plan.maskToken < 0 ? "not known" : number(plan.maskToken)));
  if (isForServing(plan))
    printServing(plan);
  else
    printTraining(plan);
  line("weights", plan.weights.random
                      ? "random, seed " + std::to_string(plan.weights.seed)
                      : plan.weights.directory);
  line("machine", plan.device == plan::DeviceKind::Cuda
                      ? "NVIDIA GPU, " + plan.target + " or newer"
                      : "x86-64, --march " + plan.march + ", " +
                            number(plan.threads) + " threads here");
  std::string programs;
  for (const plan::Program &program : plan.programs)
    programs += (programs.empty() ? "" : ", ") + program.name;
  line("programs", programs);
  line("kernels", number(plan.kernels.size()));
  if (plan.device == plan::DeviceKind::Cuda)
    line("products", number(countProducts(plan)) +
                         " kernels may be cuBLASLt's, --gemm " + plan.gemm +
                         (products.empty() ? "" : "; here: " + products));
  line("memory", isForServing(plan)
                     ? ServedMemory(plan).text()
                     : formatBytes(plan.memory.peakBytes()) + " (" +
                           formatBytes(plan.memory.persistentBytes.inMemory()) +
                           " states, " +
                           formatBytes(plan.memory.arenaBytes.inMemory()) +
                           " arena)");
  for (plan::MemoryKind kind : plan::memoryKinds)
    if (kind != plan::MemoryKind::Device && plan.memory.peakBytes(kind) > 0)
      line("", formatBytes(plan.memory.peakBytes(kind)) + "  in " +
                   plan::nameOf(kind) + " memory");
  for (const plan::Owner &owner : plan.memory.owners)
    line("", formatBytes(owner.bytes) + "  " + owner.name);
  line("plan", plan.hash + ", version " + plan.version);
}

/// Prints the memory that a draft model needs in addition to its target model.
static void printDraft(const plan::Plan &draft, const plan::Plan &target) {
  line("draft", draft.family + ", " + number(draft.parameters) +
                    " parameters, " + draft.precision + "; guesses at most " +
                    number(plan::mostGuesses(target)) + " tokens");
  line("", draft.weights.random
               ? "random, seed " + std::to_string(draft.weights.seed)
               : draft.weights.directory);
  line("", ServedMemory(draft).text());
}

static void print(const char *name, const FoundLibrary &library) {
  line(name, library.missing.empty() ? library.version + ", " + library.path
                                     : "none: " + library.missing);
}

int heddle::rt::runInfo(const InfoOptions &options, Ranks &ranks) {
  if (ranks.rank() != 0)
    return 0;
  std::vector<Binary> targets = readTargets(options.job.binary);
  // The index of the target (CPU or GPU code) that would run on this machine.
  size_t here = chooseTarget(targets, {}, /*localRank=*/0);
  plan::Plan &chosen = targets[here].plan;
  plan::setThreads(chosen, chooseThreads(chosen, /*requested=*/0, /*ranks=*/1));
  const Binary &binary = targets[here];
  std::optional<Binary> draft = readDraft(options.job.binary, here);
  const plan::Plan &plan = binary.plan;
  std::string products = findProducts(binary), held;
  bool isForGpu = false;
  for (const Binary &target : targets) {
    held += (held.empty() ? "" : ", ") + target.plan.target;
    isForGpu |= target.plan.device == plan::DeviceKind::Cuda;
  }
  if (options.json) {
    ordered_json all = describe(plan, products);
    all["targets"] = ordered_json::array();
    for (const Binary &target : targets)
      all["targets"].push_back(target.plan.target);
    if (draft) {
      all["draft"] = describe(draft->plan, "");
      all["draft_tokens"] = plan::mostGuesses(plan);
    }
    if (isForGpu) {
      all["gpu"] = describe(askForGpu());
      all["cublaslt"] = describe(findCublasLt());
      all["nccl"] = describe(findNccl());
    }
    printf("%s\n", all.dump().c_str());
    return 0;
  }
  print(plan, products);
  if (targets.size() > 1)
    line("targets", held + "; here: " + plan.target);
  if (hasFiles(plan))
    line("swap", offloadLine(describeOffload(plan)));
  if (draft)
    printDraft(draft->plan, plan);
  if (!isForGpu)
    return 0;
  GpuAnswer answer = askForGpu();
  line("gpu", answer.gpu ? answer.gpu->name : "none: " + answer.missing);
  if (answer.gpu)
    line("driver", "CUDA " + answer.gpu->cuda + ", " + answer.gpu->driver);
  print("cublaslt", findCublasLt());
  print("nccl", findNccl());
  return 0;
}
