//===- ModelSpec.cpp - Reads a model directory ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a model directory. Chooses the family by the `model_type` of
// config.json, lists the parameters by the family's table of weights, and opens
// the weight files.
//
//===----------------------------------------------------------------------===//

#include "Family.h"
#include "InputOrders.h"
#include "WeightCoverage.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/Tokenizer.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

using namespace heddle;
using namespace heddle::config;

namespace fs = std::filesystem;

/// All supported families.
static const std::vector<const Family *> &families() {
  static const std::vector<const Family *> all = {
      &gpt2Family(),  &llamaFamily(),  &mistralFamily(), &qwen2Family(),
      &qwen3Family(), &gemma2Family(), &gptNeoFamily(),  &gptNeoXFamily(),
      &optFamily(),   &bertFamily()};
  return all;
}

static const Family &findFamily(const io::JsonValue &config) {
  const io::JsonValue &type = config.at("model_type");
  const std::string &name = type.asString();
  std::string known;
  for (const Family *family : families()) {
    if (name == family->name)
      return *family;
    known += (known.empty() ? "" : ", ") + std::string(family->name);
  }
  type.fail("H0390", "unknown model family \"" + name + "\"",
            "the families that are known: " + known);
}

/// Whether the path could be the name of a model on the Hugging Face Hub, for
/// example `gpt2` or `org/name`.
static bool isHubName(const std::string &path) {
  static const std::regex pattern(
      "[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?");
  return std::regex_match(path, pattern) &&
         fs::path(path).extension() != ".json" &&
         fs::path(path).extension() != ".mlir";
}

/// Returns the first 64 bytes of a file, or the whole file if it is shorter.
static std::string beginningOf(const std::string &path) {
  std::string bytes(64, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), int64_t(bytes.size()));
  bytes.resize(size_t(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

/// Throws an error if a file is recognized as something else than a config. The
/// error gives advice: often the config is in the same directory, or the user
/// meant another command.
static void requireConfigText(const std::string &path) {
  const std::string bytes = beginningOf(path);
  auto refuse = [&](const std::string &what, const std::string &help) {
    fail("H0173", path + " is " + what + ", not a model", help);
  };
  auto beginsWith = [&](std::string_view magic) {
    return std::string_view(bytes).substr(0, magic.size()) == magic;
  };
  std::string folder = fs::path(path).parent_path().string();
  std::string directory =
      "give its directory: heddle compile " + (folder.empty() ? "." : folder);
  if (beginsWith("\177ELF"))
    refuse("a program",
           "a compiled binary is run: " +
               std::string(path.find('/') == path.npos ? "./" : "") + path +
               " info");
  if (bytes.size() > 8 && bytes[8] == '{' && bytes[7] == 0)
    refuse("a safetensors file", directory);
  if (beginsWith("PK") || beginsWith("\x80\x02"))
    refuse("a file of PyTorch",
           "give a directory that save_pretrained has written");
  if (beginsWith("GGUF"))
    refuse("a GGUF file", "give the directory that it was made from");
  // These are the magic numbers of token files of llm.c, with 16-bit and with
  // 32-bit tokens.
  if (beginsWith("\210\3304\001") || beginsWith("\241\3314\001"))
    refuse("a token file", "give a Hugging Face directory or a config file "
                           "(.json), and this file to the binary: BINARY "
                           "train --data " +
                               path);
}

/// Returns the config file that `path` names or contains, and whether `path` is
/// a directory.
static std::pair<std::string, bool> findConfig(const std::string &path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    std::string file = fs::path(path) / "config.json";
    if (!fs::exists(file, ignored))
      io::refuseAdapter(path);
    return {file, true};
  }
  if (!fs::exists(path, ignored))
    fail("H0330", path + " is not there",
         std::string("give a Hugging Face directory or a config file (.json)") +
             (isHubName(path) ? "; a model of the Hub is downloaded first, as "
                                "hf download " +
                                    path + " --local-dir DIR"
                              : ""));
  requireConfigText(path);
  return {path, false};
}

/// Returns the directory of a config file if it contains a usable tokenizer:
/// all ids of its tokens must be below `vocab`. Otherwise returns "".
static std::string tokenizerBeside(const std::string &configFile,
                                   int64_t vocab) {
  std::string directory = fs::absolute(configFile).parent_path().string();
  if (!io::pathExists(directory + "/tokenizer.json"))
    return "";
  try {
    return io::openTokenizer(directory)->vocabSize() <= vocab ? directory : "";
  } catch (const UserError &) {
    return directory; // Commands that need the tokenizer report the error.
  }
}

static bool matchesNoDecay(const std::regex &pattern, const std::string &name,
                           const Family &family) {
  return std::regex_search(name, pattern) ||
         std::regex_search(family.sourceName(name), pattern);
}

static void applyNoDecay(const std::string &expression, const Family &family,
                         ModelSpec &spec) {
  if (expression.empty())
    return;
  try {
    std::regex pattern(expression);
    for (ParameterSpec &parameter : spec.parameters)
      parameter.decays = !matchesNoDecay(pattern, parameter.name, family);
  } catch (const std::regex_error &error) {
    fail("H0114",
         "--no-decay: \"" + expression +
             "\" is not a regular expression: " + error.what(),
         "as in --no-decay 'bias|ln_.*\\.weight'");
  }
}

//===----------------------------------------------------------------------===//
// The table of weights
//===----------------------------------------------------------------------===//

/// For a model without weight files, sets the names under which Hugging Face
/// would save the parameters. Trained weights are saved under these names.
static void nameSources(const Family &family, ModelSpec &spec) {
  for (ParameterSpec &parameter : spec.parameters) {
    weights::forEachTensor(parameter.source, [&](weights::Source &tensor) {
      tensor.name = family.sourceName(tensor.name);
    });
  }
}

/// Returns a shape as text, in terms of keys of config.json, for example
/// `[n_embd, 3 n_embd]`.
static std::string reasonOf(const std::vector<Dim> &shape) {
  std::string text;
  for (const Dim &dim : shape)
    text += (text.empty() ? "[" : ", ") + dim.text;
  return text + "]";
}

/// Makes the parameter that a row of the family's table of weights describes. A
/// `*` in its name is replaced by the layer's index.
static ParameterSpec parameterFrom(const Weight &weight, int64_t layer) {
  auto ofLayer = [&](std::string name) {
    size_t star = name.find('*');
    return star == std::string::npos
               ? name
               : name.replace(star, 1, std::to_string(layer));
  };
  ParameterSpec parameter;
  parameter.name = ofLayer(weight.name);
  parameter.shape.assign(weight.shape.begin(), weight.shape.end());
  parameter.init = weight.init;
  parameter.shapeReason = reasonOf(weight.shape);
  parameter.segments = weight.segments;
  parameter.outIn = weight.outIn;
  parameter.isOfLayer = weight.name.find('*') != std::string::npos;
  parameter.source =
      weight.source.value_or(weights::tensor(weight.name, parameter.shape));
  weights::forEachTensor(parameter.source, [&](weights::Source &tensor) {
    tensor.name = ofLayer(tensor.name);
  });
  return parameter;
}

/// Adds all parameters in the family's table of weights. Does not yet look for
/// their tensors in the weight files. Rows whose name contains `*` are repeated
/// for each layer.
static void addParameters(const std::vector<Weight> &table, int64_t layers,
                          ModelSpec &spec) {
  for (size_t begin = 0; begin < table.size();) {
    size_t end = begin;
    while (end < table.size() && table[end].name.find('*') != std::string::npos)
      ++end;
    for (int64_t layer = 0; layer < layers && end > begin; ++layer)
      for (size_t i = begin; i < end; ++i)
        spec.parameters.push_back(parameterFrom(table[i], layer));
    if (end == begin)
      spec.parameters.push_back(parameterFrom(table[end++], 0));
    begin = end;
  }
}

/// Reads config.json by the family's rules, and stores the sizes and the
/// forward function in `spec`.
static void readFamily(const Family &family, const io::JsonValue &config,
                       bool isStrict, ModelSpec &spec) {
  spec.family = family.name;
  std::vector<UnknownKey> unknown;
  judgeConfigKeys(config, family, spec, unknown);
  spec.model = family.read(Config(config, family, unknown));
  if (std::string warning = warnOfUnknownKeys(unknown, isStrict);
      !warning.empty())
    spec.warnings.push_back(warning);
  const FamilyModel &model = *spec.model;
  spec.vocabSize = model.vocab;
  spec.maxPositions = model.positions;
  spec.objective = family.objective;
  spec.layers = model.layers;
  spec.width = model.embed;
  spec.positionsKey = model.positions.text;
  spec.positionsLocation = locationOf(config, spec.positionsKey);
  addParameters(model.weights(), model.layers, spec);
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

/// Opens the weight files. Stores in `spec` what their headers say, for example
/// how weights are quantized. Throws an error for a damaged checkpoint.
static io::WeightSet openSpecWeights(const io::JsonValue &config,
                                     const std::string &path, ModelSpec &spec) {
  io::Peers alone;
  io::requireWholeModel(path, alone);
  io::WeightSet weights = io::openModelWeights(path);
  const std::vector<io::TensorInfo> &all = weights.tensors();
  if (config.findNonNull("quantization_config") ||
      std::any_of(all.begin(), all.end(), [](const io::TensorInfo &info) {
        return info.coded != nullptr;
      }))
    spec.codes = io::readCodeFormat(config, path);
  spec.headerHash = weights.headerHash();
  if (!weights.wrappers().empty())
    spec.warnings.push_back(weights.origin() +
                            ": the names of tensors are read without " +
                            weights.wrappers());
  return weights;
}

static std::string untied(const io::JsonValue &config) {
  nlohmann::ordered_json json = config.toJson();
  json["tie_word_embeddings"] = false;
  return json.dump();
}

/// Whether config.json says that the head shares the embedding's weight, but
/// the user's module has the head as a separate parameter.
static bool isUntied(const io::JsonValue &config, const ModelSpec &spec) {
  auto family = std::find_if(
      families().begin(), families().end(),
      [&](const Family *known) { return spec.family == known->name; });
  if (family == families().end())
    return false;
  std::vector<UnknownKey> unknown;
  return (*family)->read(Config(config, **family, unknown))->tied &&
         std::any_of(spec.parameters.begin(), spec.parameters.end(),
                     [&](const ParameterSpec &parameter) {
                       return parameter.name == (*family)->head;
                     });
}

/// Reads the model again, from `json` instead of config.json. Warnings and
/// locations remain those of config.json. Returns `json`.
static io::JsonValue readAgain(const Family &family, const std::string &json,
                               bool isStrict, ModelSpec &spec) {
  std::vector<std::string> warnings = std::move(spec.warnings);
  std::vector<ExplainRow> rows = std::move(spec.configRows);
  SourceLocation positions = spec.positionsLocation;
  spec.parameters.clear();
  spec.configRows.clear();
  spec.configJson = json;
  io::JsonValue config =
      io::parseJson(json, {spec.configFile, io::modelJsonCodes});
  readFamily(family, config, isStrict, spec);
  spec.positionsLocation = positions;
  spec.configRows = std::move(rows);
  spec.warnings = std::move(warnings);
  return config;
}

/// Reads config.json again, as if it said that the head is a separate
/// parameter, and adds a warning.
static void untie(const Family &family, const io::JsonValue &config,
                  bool isStrict, ModelSpec &spec) {
  spec.warnings.push_back(
      spec.configFile + " says tie_word_embeddings, but " + family.head +
      " in the weights is not " + spec.parameters.front().name +
      ": the head is a parameter of its own, as transformers 5 has it; to say "
      "so, set tie_word_embeddings to false");
  readAgain(family, untied(config), isStrict, spec);
}

/// Throws H0131 unless the model has a table of fewer positions than
/// `positions`.
static void requireExtendable(const ModelSpec &spec, int64_t positions) {
  const std::string flag = "--extend-positions " + std::to_string(positions);
  if (spec.model->positionTable.empty())
    fail("H0131",
         flag + ": a " + spec.family +
             " model has no table of positions, it rotates queries and keys",
         "set \"" + spec.positionsKey +
             "\" in config.json, and \"rope_scaling\", as {\"rope_type\": "
             "\"linear\", \"factor\": 4.0}",
         spec.positionsLocation);
  if (positions <= spec.maxPositions)
    fail("H0131",
         flag + ": the model has " + std::to_string(spec.maxPositions) +
             " positions already",
         "give more positions, or leave --extend-positions out",
         spec.positionsLocation);
}

/// Reads config.json again, as if it said that the model has more positions.
static io::JsonValue extend(const Family &family, const io::JsonValue &config,
                            const ModelRequest &request, ModelSpec &spec) {
  const int64_t positions = request.extension->positions;
  requireExtendable(spec, positions);
  const int64_t before = spec.maxPositions;
  nlohmann::ordered_json json = config.toJson();
  json[spec.positionsKey] = positions;
  for (ExplainRow &row : spec.configRows)
    if (row.key == spec.positionsKey)
      row.why = "--extend-positions makes it " + std::to_string(positions);
  io::JsonValue extended =
      readAgain(family, json.dump(), request.isStrict, spec);
  const int64_t first = spec.model->firstPosition;
  spec.extended = {spec.model->positionTable, positions + first, first,
                   request.extension->interpolates, before + first};
  return extended;
}

ModelSpec config::readModelSpec(const ModelRequest &request) {
  std::string path = io::resolveModel(request.path);
  auto [configFile, isDirectory] = findConfig(path);
  io::JsonValue config = io::parseJsonFile(configFile, io::modelJsonCodes);
  if (!isDirectory && !request.random)
    fail("H0117",
         path + " is a config without weights, and --init is not given",
         "add --init random --seed N, or give the model's directory");
  const Family &family = findFamily(config);
  ModelSpec spec;
  spec.configFile = configFile;
  spec.configJson = config.toJson().dump();
  spec.random = request.random;
  spec.seed = request.seed;
  readFamily(family, config, request.isStrict, spec);
  if (request.extension)
    config = extend(family, config, request, spec);
  spec.objective = request.objective.value_or(spec.objective);
  std::string directory =
      isDirectory ? path : tokenizerBeside(configFile, spec.vocabSize);
  findSpecialTokens(config, directory, spec);
  if (!directory.empty())
    spec.directory = fs::absolute(directory).lexically_normal().string();
  applyNoDecay(request.noDecay, family, spec);
  if (request.random) {
    nameSources(family, spec);
    if (request.extension)
      spec.extended.tensor = family.sourceName(spec.extended.tensor);
    return spec;
  }
  io::WeightSet weights = openSpecWeights(config, path, spec);
  if (request.extension)
    extendPositions(family, weights, spec);
  if (hasOtherHead(family, weights, spec)) {
    untie(family, config, request.isStrict, spec);
    applyNoDecay(request.noDecay, family, spec);
  }
  dropMissingHead(family, weights, spec);
  coverWeights(family, weights, spec);
  if (spec.codes && !spec.codes->inOrder)
    orderInputs(weights, spec);
  return spec;
}

void config::findWeights(const ModelRequest &request, ModelSpec &spec) {
  std::string path = io::resolveModel(request.path);
  auto [configFile, isDirectory] = findConfig(path);
  if (!isDirectory)
    fail("H0331", "--weights " + request.path + " is no directory",
         "name the directory with config.json and the weights");
  if (request.extension)
    fail("H0113",
         "--extend-positions is for the directories of models: a module says "
         "itself how long its table of positions is",
         "leave it out");
  io::JsonValue config = io::parseJsonFile(configFile, io::modelJsonCodes);
  spec.configJson =
      isUntied(config, spec) ? untied(config) : config.toJson().dump();
  spec.objective = request.objective.value_or(spec.objective);
  findSpecialTokens(config, path, spec);
  spec.directory = fs::absolute(path).lexically_normal().string();
  const Family plain = {spec.family.c_str(), "", {}, {}, nullptr};
  applyNoDecay(request.noDecay, plain, spec);
  io::WeightSet weights = openSpecWeights(config, path, spec);
  coverWeights(plain, weights, spec);
}

std::string config::orExtendPositions(const ModelSpec &spec,
                                      int64_t positions) {
  if (!spec.model || spec.model->positionTable.empty())
    return "";
  return ", or --extend-positions " + std::to_string(positions);
}

void config::checkShapes(const ModelSpec &spec, int64_t microBatch,
                         int64_t seq) {
  if (seq > spec.maxPositions)
    fail("H0116",
         "--seq " + std::to_string(seq) + " is more than the model's " +
             spec.positionsKey + " = " + std::to_string(spec.maxPositions),
         "use --seq " + std::to_string(spec.maxPositions) + " or less" +
             orExtendPositions(spec, seq),
         spec.positionsLocation);
  double elements = double(microBatch) * double(seq) * double(spec.vocabSize);
  if (elements > double(int64_t(1) << 44))
    fail("H0110",
         "a micro-batch of " + std::to_string(microBatch) + " rows x " +
             std::to_string(seq) + " tokens x " +
             std::to_string(spec.vocabSize) + " words is out of range",
         "give a smaller --micro-batch, and more of them with --accumulate");
}

std::string config::coverageReport(const ModelSpec &spec) {
  int64_t elements = 0;
  for (const ParameterSpec &parameter : spec.parameters) {
    int64_t size = 1;
    for (int64_t dimension : parameter.shape)
      size *= dimension;
    elements += size;
  }
  std::string text = std::to_string(spec.parameters.size()) + " parameters (" +
                     std::to_string(elements) + " elements) ";
  if (spec.random)
    text += "initialised from seed " + std::to_string(spec.seed);
  else
    text += "filled from " + spec.directory + ", " +
            std::to_string(spec.ignored.size()) + " tensors ignored";
  text += "\n";
  for (const IgnoredTensor &tensor : spec.ignored)
    text += "  ignored " + tensor.name + ": " + tensor.reason + "\n";
  return text;
}
