//===- Serving.cpp - Settings for serving and encoding --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Completes the settings of binaries that serve or encode, and of text
// generation in binaries that train: the cache, the context length, the
// precision, and quantized weights.
//
//===----------------------------------------------------------------------===//

#include "SettingReaders.h"
#include "heddle/Import/Parallel.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/io/CodedWeights.h"
#include <algorithm>
#include <fnmatch.h>

using namespace heddle;
using namespace heddle::config;

/// Throws an error for settings that serving and encoding do not support.
static void checkServing(const Settings &values) {
  std::string mode = std::string("--mode ") + wordOf(values.mode);
  if (values.sequence * values.pipe > 1 || values.zero > 0)
    fail("H0129",
         mode + " splits a model over the axis tensor alone: seq, pipe and "
                "--zero are for training",
         "use --mesh data=N,tensor=N");
  if (values.maxBatch % values.data != 0)
    fail("H0139",
         "the " + std::to_string(values.maxBatch) +
             " texts of --max-batch cannot be shared out alike among data=" +
             std::to_string(values.data) + " groups of ranks",
         "give --max-batch a multiple of " + std::to_string(values.data));
}

/// Lets Heddle's kernels compute all products on GPUs. The sums of a library
/// depend on the number of rows, so a text would depend on other requests.
static void settleProducts(ResolvedSettings &settings) {
  Settings &values = settings.values;
  if (std::none_of(
          settings.targets.begin(), settings.targets.end(),
          [](Target target) { return factsOf(target).hasGemmSettings; }))
    return;
  if (values.gemm == Gemm::Library)
    fail("H0126",
         std::string("--gemm library: the sums of cuBLASLt depend on how many "
                     "rows a product has, and --mode ") +
             wordOf(values.mode) + " computes texts together and alone alike",
         "leave out --gemm library");
  values.gemm = Gemm::Generated;
  settings.setOrigin("gemm", {Origin::Kind::Derived, "--mode", {}});
}

static void settleCacheType(ResolvedSettings &settings) {
  Settings &values = settings.values;
  if (values.cacheType != CacheType::OfModel)
    return;
  // A cache can have every type in which models compute, under the same word.
  values.cacheType = *parseWord<CacheType>(wordOf(values.precision));
  settings.setOrigin("kv_type", {Origin::Kind::Model, "", {}});
}

static void checkContext(const ResolvedSettings &settings,
                         const ModelSpec &spec) {
  int64_t context = settings.values.maxContext;
  if (context > spec.maxPositions)
    fail("H0128",
         "--max-context " + std::to_string(context) +
             " is more than the model's " + spec.positionsKey + " = " +
             std::to_string(spec.maxPositions),
         "use --max-context " + std::to_string(spec.maxPositions) + " or less" +
             (settings.isDraft ? "" : orExtendPositions(spec, context)),
         spec.positionsLocation);
}

/// Throws an error if int8 activations are asked for but no weights are
/// quantized: neither by --quantize nor in the files.
static void checkActivations(const Settings &values) {
  if (values.quantizeActivations == QuantizeActivations::None ||
      values.quantize != Quantize::None)
    return;
  fail("H0134",
       "--quantize-activations is for products with weights that are codes, "
       "and --quantize does not ask for codes",
       "add --quantize int8 or --quantize int4, or leave out "
       "--quantize-activations");
}

/// Whether int8 activations make products with quantized weights faster.
/// Measurements on CPUs (bench/README.md) say that they always do, with one
/// exception: single tokens on a CPU with AVX-512 and without AMX. On a GPU,
/// products of few rows take as long as reading their weights.
static bool pays(const Settings &values) {
  if (!factsOf(values.target).kernelsRunOnHost)
    return false;
  auto has = [&](March level, const char *feature) {
    return values.march == level ||
           (values.march == March::Native && rt::hasCpuFeature(feature));
  };
  return values.maxBatch > 1 || has(March::AMX, "amx-int8") ||
         !has(March::V4, "avx512f");
}

bool config::settleActivations(Settings &values) {
  if (values.quantizeActivations != QuantizeActivations::Auto)
    return false;
  const bool rounds = values.mode != Mode::Train &&
                      values.quantize != Quantize::None && pays(values);
  values.quantizeActivations =
      rounds ? QuantizeActivations::Int8 : QuantizeActivations::None;
  return true;
}

namespace {

/// A setting that says how weights are quantized, with its flag.
struct CodeSetting {
  const char *key;
  std::string flag;
  bool isOfFiles; ///< Quantized files determine it.
};

} // namespace

static const CodeSetting codeSettings[] = {
    {"quantize_group", "--quantize-group", true},
    {"quantize_zeros", "--quantize-zeros", true},
    {"keep16bit", "--keep-16bit", false}};

/// Throws an error for settings of quantization if no weights are quantized.
static void checkCodes(const ResolvedSettings &settings) {
  if (settings.values.quantize != Quantize::None)
    return;
  for (const CodeSetting &each : codeSettings)
    if (settings.origins.count(each.key))
      fail("H0134",
           each.flag + " says how weights become codes, and --quantize does "
                       "not ask for codes",
           "add --quantize int8 or --quantize int4, or leave out " + each.flag);
}

void config::checkKept(const ResolvedSettings &settings,
                       const ModelSpec &spec) {
  std::vector<std::string> names;
  std::string example;
  for (const ParameterSpec &parameter : spec.parameters) {
    names.push_back(parameter.name);
    if (parameter.isOfLayer && parameter.shape.size() == 2)
      example = parameter.name;
    weights::Source source = parameter.source;
    weights::forEachTensor(source, [&](const weights::Source &tensor) {
      names.push_back(io::nameInFile(tensor.name));
    });
  }
  for (const std::string &pattern : settings.values.keep16bit) {
    auto matches = [&](const std::string &name) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    // Do not check a pattern without `]` here: the code that quantizes weights
    // reports it later, as invalid.
    size_t open = pattern.find('[');
    bool isWhole = open == std::string::npos ||
                   pattern.find(']', open) != std::string::npos;
    if (isWhole && std::none_of(names.begin(), names.end(), matches))
      fail("H0145",
           "\"" + pattern + "\" of --keep-16bit is the name of no parameter",
           "as in --keep-16bit '" + example + "', with * for any part of it");
  }
}

/// Whether the matrix is quantized in the files, and its number of inputs is a
/// multiple of `group`, the number of inputs that share a scale. A `group` of 0
/// means that all inputs share one.
static bool hasWholeGroups(const ParameterSpec &matrix, int64_t group) {
  int64_t inputs = matrix.shape[matrix.outIn ? 1 : 0];
  return matrix.isCoded && (group == 0 || inputs % group == 0);
}

/// Keeps quantized weights of the files as they are, and quantizes no other
/// weights. If their format cannot be kept, the weights are dequantized.
static void settleCodes(ResolvedSettings &settings, const ModelSpec &spec) {
  Settings &values = settings.values;
  if (!spec.codes || settings.origins.count("quantize"))
    return;
  // For int4, --quantize-group 0 is replaced by 64. Therefore the settings
  // cannot express 4-bit weights with a single group for all inputs, and such
  // weights are dequantized.
  bool canStay =
      spec.codes->inOrder && (spec.codes->group > 0 || spec.codes->bits == 8);
  if (!canStay)
    return;
  for (const CodeSetting &each : codeSettings)
    if (each.isOfFiles && settings.origins.count(each.key))
      fail("H0134",
           each.flag + " says how weights become codes, and those of " +
               spec.directory + " are codes",
           "leave out " + each.flag + ", or add --quantize int" +
               std::to_string(spec.codes->bits) +
               ", which rounds them once more");
  values.quantize = spec.codes->bits == 4 ? Quantize::Int4 : Quantize::Int8;
  values.quantizeGroup = spec.codes->group;
  values.quantizeZeros = !spec.codes->even;
  for (const ParameterSpec &parameter : spec.parameters)
    if (parameter.shape.size() == 2 &&
        !hasWholeGroups(parameter, spec.codes->group))
      values.keep16bit.push_back(parameter.name);
  settings.setOrigin("quantize", {Origin::Kind::Model, "", {}});
  for (const CodeSetting &each : codeSettings)
    settings.setOrigin(each.key, {Origin::Kind::Model, "", {}});
}

std::string config::warnOfCodes(const ResolvedSettings &settings,
                                const ModelSpec &spec) {
  auto asked = settings.origins.find("quantize");
  bool areTheFiles = asked != settings.origins.end() &&
                     asked->second.kind == Origin::Kind::Model;
  if (!spec.codes || (asked != settings.origins.end() && !areTheFiles))
    return "";
  std::string which = "the codes of " + spec.directory, why;
  if (areTheFiles) {
    if (spec.unevenWeights.empty())
      return "";
    which = "codes of " + std::to_string(spec.unevenWeights.size()) +
            " weights in " + spec.directory + ", as " +
            spec.unevenWeights.front() + ",";
    why = "their groups (g_idx) do not have as many inputs each";
  } else {
    why = spec.codes->inOrder
              ? "4 bits have one group for all inputs"
              : "inputs need not be in the order of their groups (desc_act), "
                "and this forward function has no nn.reorder for them";
  }
  return which + " become " + wordOf(settings.values.precision) +
         " numbers, since " + why +
         ": their values are right, and take the room of weights that are no "
         "codes; --quantize int" +
         std::to_string(spec.codes->bits) + " rounds them once more";
}

/// Serves in bf16 if all weights in the files are bf16.
static void settlePrecision(ResolvedSettings &settings, const ModelSpec &spec) {
  if (settings.origins.count("precision") || spec.random)
    return;
  bool areNarrow = !spec.parameters.empty();
  for (const ParameterSpec &parameter : spec.parameters) {
    weights::Source source = parameter.source;
    weights::forEachTensor(source, [&](weights::Source &tensor) {
      areNarrow &= tensor.type == "BF16";
    });
  }
  if (!areNarrow)
    return;
  settings.values.precision = Precision::BF16;
  settings.setOrigin("precision", {Origin::Kind::Model, "", {}});
}

/// The largest default length of a batch's row or of a generated sequence, in
/// tokens.
static constexpr int64_t usualTokens = 4096;

/// Sets up text generation in a binary that trains. By default, the KV cache
/// has space for one sequence, of as many tokens as a row of the training
/// batch. If programs for generation cannot be compiled for this model, the
/// binary has no KV cache.
static void settleTexts(ResolvedSettings &settings, const ModelSpec &spec) {
  Settings &values = settings.values;
  if (!settings.origins.count("seq")) {
    // The default is limited, because rows as long as a long-context model
    // allows would need more memory than most machines have.
    values.seq = std::min(spec.maxPositions, usualTokens);
    settings.setOrigin("seq", {Origin::Kind::Model, "", {}});
  }
  if (spec.objective == plan::Objective::MaskedToken) {
    values.maxContext = 1;
    return;
  }
  if (settings.origins.count("max_context")) {
    checkContext(settings, spec);
  } else {
    values.maxContext = values.seq;
    settings.setOrigin("max_context", {Origin::Kind::Derived, "--seq", {}});
  }
  if (!settings.origins.count("max_batch")) {
    values.maxBatch = 1;
    settings.setOrigin("max_batch",
                       {Origin::Kind::Derived, "--mode train", {}});
  }
  settleCacheType(settings);
}

void config::settleServing(ResolvedSettings &settings, const ModelSpec &spec) {
  Settings &values = settings.values;
  if (values.mode == Mode::Train && spec.codes)
    fail("H0151",
         "the weights in " + spec.directory + " are codes of " +
             std::to_string(spec.codes->bits) +
             " bits, which cannot be trained",
         "add --mode serve, or train the model that they were made of");
  if (values.mode == Mode::Train) {
    settleActivations(values); // Resolved to its default, which has no effect
                               // in training.
    checkCodes(settings);
    settleTexts(settings, spec);
    return;
  }
  settlePrecision(settings, spec);
  settleCodes(settings, spec);
  checkCodes(settings);
  if (settleActivations(values))
    settings.setOrigin("quantize_activations",
                       {Origin::Kind::Derived, "the target", {}});
  checkActivations(values);
  checkServing(values);
  settleProducts(settings);
  if (values.mode == Mode::Serve)
    settleCacheType(settings);
  constexpr int64_t row = 1024;
  if (!settings.origins.count("max_context")) {
    values.maxContext = std::min(spec.maxPositions, usualTokens);
    settings.setOrigin("max_context", {Origin::Kind::Model, "", {}});
  }
  checkContext(settings, spec);
  if (!settings.origins.count("seq")) {
    values.seq = std::min(values.maxContext, row);
    settings.setOrigin("seq", {Origin::Kind::Model, "", {}});
  }
  if (values.mode == Mode::Serve && values.seq > values.maxContext)
    fail("H0133",
         "--seq " + std::to_string(values.seq) + ": rows of eval are texts, " +
             "which have at most " + std::to_string(values.maxContext) +
             " tokens (--max-context)",
         "use --seq " + std::to_string(values.maxContext) +
             " or less, or leave it out");
}
