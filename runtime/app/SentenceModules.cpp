//===- SentenceModules.cpp - The modules of sentence-transformers ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads modules.json of sentence-transformers: the list of operations from a
// text to its embedding, usually a Transformer, a Pooling, and steps that
// change the vector. Each module has a folder with its config.json, and maybe
// weights.
//
//===----------------------------------------------------------------------===//

#include "Pooling.h"
#include "SentenceText.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

[[noreturn]] static void refuse(const io::JsonValue &at,
                                const std::string &message) {
  at.fail("H0398", message,
          "say what the vector is: --pooling mean or cls, and --normalize or "
          "--no-normalize");
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

static PoolingMode modeNamed(const io::JsonValue &name) {
  std::string known;
  for (const auto &[word, mode] : poolingModes) {
    if (name.asString() == word)
      return mode;
    known += (known.empty() ? "" : ", ") + word;
  }
  refuse(name,
         "pooling by " + name.asString() + " is not supported, only " + known);
}

/// Reads the pooling modes from flags `pooling_mode_*`, which versions of
/// sentence-transformers before 6 wrote.
static std::vector<PoolingMode> modesOfFlags(const io::JsonValue &config) {
  const std::string prefix = "pooling_mode_";
  for (const io::JsonMember &member : config.members()) {
    if (member.key.rfind(prefix, 0) != 0 || !member.value.asBool())
      continue;
    std::string word = member.key.substr(prefix.size());
    bool isKnown = false;
    for (const auto &[name, mode] : poolingModes)
      isKnown |=
          word == name || word == name + "_token" || word == name + "_tokens";
    if (!isKnown)
      refuse(member.value, "pooling by " + word + " is not supported");
  }
  std::vector<PoolingMode> modes;
  for (const auto &[name, mode] : poolingModes)
    for (const char *end : {"", "_token", "_tokens"})
      if (config.boolOr(prefix + name + end, false))
        modes.push_back(mode);
  if (modes.empty())
    refuse(config, "no pooling_mode is true");
  return modes;
}

static void readPooling(const std::string &folder, Pooling &pooling) {
  io::JsonValue config =
      io::parseJsonFile(folder + "/config.json", io::modelJsonCodes);
  pooling.poolsPrompt = config.boolOr("include_prompt", true);
  pooling.modes.clear();
  const io::JsonValue *named = config.findNonNull("pooling_mode");
  if (!named)
    pooling.modes = modesOfFlags(config);
  else if (!named->isArray())
    pooling.modes.push_back(modeNamed(*named));
  else
    for (const io::JsonValue &name : named->elements())
      pooling.modes.push_back(modeNamed(name));
  if (pooling.modes.empty())
    refuse(*named, "pooling_mode names nothing");
}

//===----------------------------------------------------------------------===//
// Modules that change the vector
//===----------------------------------------------------------------------===//

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
static double softplus(double x) {
  return x > 20 ? x : std::log1p(std::exp(x)); // Above PyTorch's threshold.
}

/// The activation functions of PyTorch that need no argument. The key is the
/// last component of the class name, such as Tanh in
/// torch.nn.modules.activation.Tanh.
static constexpr std::pair<const char *, double (*)(double)> activations[] = {
    {"Identity", [](double x) { return x; }},
    {"Tanh", [](double x) { return std::tanh(x); }},
    {"ReLU", [](double x) { return x < 0 ? 0 : x; }},
    {"GELU", [](double x) { return x * (1 + std::erf(x * M_SQRT1_2)) / 2; }},
    {"SiLU", [](double x) { return x * sigmoid(x); }},
    {"Sigmoid", [](double x) { return sigmoid(x); }},
    {"LeakyReLU", [](double x) { return x < 0 ? 0.01 * x : x; }},
    {"ELU", [](double x) { return x < 0 ? std::expm1(x) : x; }},
    {"Softplus", [](double x) { return softplus(x); }},
    {"Softsign", [](double x) { return x / (1 + std::abs(x)); }},
    {"Mish", [](double x) { return x * std::tanh(softplus(x)); }}};

static double (*activationOf(const io::JsonValue &config))(double) {
  const io::JsonValue *named = config.findNonNull("activation_function");
  const std::string name =
      named ? named->asString() : "torch.nn.modules.activation.Tanh";
  std::string known, word = name.substr(name.rfind('.') + 1);
  for (auto [end, function] : activations) {
    if (word == end && name.rfind("torch.nn.", 0) == 0)
      return function;
    known += (known.empty() ? "" : ", ") + std::string(end);
  }
  refuse(*named, "an activation_function " + name +
                     " is not supported, only those of torch.nn: " + known);
}

/// Throws H0398 unless the module reads and writes the embedding of a text,
/// instead of, for example, the hidden states of its tokens.
static void requireOfVector(const io::JsonValue &config) {
  for (const char *key : {"module_input_name", "module_output_name"})
    if (const io::JsonValue *name = config.findNonNull(key))
      if (name->asString() != "sentence_embedding")
        refuse(*name, std::string(key) + " " + name->asString() +
                          " is not supported, only sentence_embedding");
}

static int64_t sizeOf(const io::JsonValue &config, const char *key) {
  const io::JsonValue &size = config.at(key);
  if (size.asInteger() < 1 || size.asInteger() > 1 << 20)
    size.fail("H0375",
              std::string(key) + " is " + std::to_string(size.asInteger()),
              "give the size that the module's weights have");
  return size.asInteger();
}

/// Reads a module's tensor as f32. Throws H0378 for another shape.
static std::vector<float> readTensor(const io::WeightSet &weights,
                                     const std::string &name,
                                     const std::vector<int64_t> &shape) {
  const io::TensorInfo &info = weights.at(name);
  if (info.shape != shape)
    fail("H0378",
         "the tensor \"" + name + "\" has the shape " +
             io::shapeToString(info.shape) + ", not " +
             io::shapeToString(shape),
         "use the config.json that was saved with these weights",
         {info.file, 0, 0});
  std::vector<float> values(info.numElements());
  weights.read(info, "F32", values.data());
  return values;
}

namespace {

/// Multiplies vectors by a matrix, which is stored as [outputs, inputs] in the
/// file.
class Matrix {
public:
  Matrix(const io::WeightSet &weights, const std::string &name, int64_t inputs,
         int64_t outputs)
      : outputs(outputs), transposed(inputs * outputs) {
    std::vector<float> values = readTensor(weights, name, {outputs, inputs});
    for (int64_t out = 0; out < outputs; ++out)
      for (int64_t in = 0; in < inputs; ++in)
        transposed[in * outputs + out] = values[out * inputs + in];
  }
  void addProduct(const std::vector<float> &vector,
                  std::vector<double> &sums) const {
    for (size_t in = 0; in < vector.size(); ++in)
      for (int64_t out = 0; out < outputs; ++out)
        sums[out] += double(vector[in]) * transposed[in * outputs + out];
  }

private:
  int64_t outputs;
  /// The matrix, transposed to [inputs][outputs].
  std::vector<float> transposed;
};

} // namespace

static VectorStep readDense(const std::string &folder) {
  io::JsonValue config =
      io::parseJsonFile(folder + "/config.json", io::modelJsonCodes);
  requireOfVector(config);
  VectorStep step;
  step.name = "the module Dense";
  step.inputs = sizeOf(config, "in_features");
  step.outputs = sizeOf(config, "out_features");
  step.location = config.at("in_features").location();
  io::WeightSet weights = io::openWeights(folder);
  Matrix matrix(weights, "linear.weight", step.inputs, step.outputs);
  std::vector<float> bias(step.outputs);
  if (config.boolOr("bias", true))
    bias = readTensor(weights, "linear.bias", {step.outputs});
  const bool addsInput = config.boolOr("use_residual", false);
  std::optional<Matrix> residual;
  if (addsInput && step.inputs != step.outputs)
    residual.emplace(weights, "residual.weight", step.inputs, step.outputs);
  step.apply = [matrix, bias, residual, addsInput,
                activation = activationOf(config)](std::vector<float> &vector) {
    std::vector<double> sums(bias.begin(), bias.end());
    matrix.addProduct(vector, sums);
    for (double &value : sums)
      value = activation(value);
    if (residual)
      residual->addProduct(vector, sums);
    else if (addsInput)
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] += vector[i];
    vector.assign(sums.begin(), sums.end());
  };
  return step;
}

static VectorStep readLayerNorm(const std::string &folder) {
  io::JsonValue config =
      io::parseJsonFile(folder + "/config.json", io::modelJsonCodes);
  VectorStep step;
  step.name = "the module LayerNorm";
  step.inputs = sizeOf(config, "dimension");
  step.location = config.at("dimension").location();
  io::WeightSet weights = io::openWeights(folder);
  step.apply = [scale = readTensor(weights, "norm.weight", {step.inputs}),
                shift = readTensor(weights, "norm.bias", {step.inputs})](
                   std::vector<float> &vector) {
    const double count = double(vector.size());
    double mean = 0, variance = 0;
    for (float value : vector)
      mean += value / count;
    for (float value : vector)
      variance += (value - mean) * (value - mean) / count;
    const double rate = 1 / std::sqrt(variance + 1e-5);
    for (size_t i = 0; i < vector.size(); ++i)
      vector[i] = float((vector[i] - mean) * rate * scale[i] + shift[i]);
  };
  return step;
}

static VectorStep readNormalize(const std::string &folder) {
  // Older versions of sentence-transformers save no config.json for the
  // Normalize module.
  if (io::pathExists(folder + "/config.json"))
    requireOfVector(
        io::parseJsonFile(folder + "/config.json", io::modelJsonCodes));
  return normalizeStep();
}

/// Returns the step that truncates a vector.
static VectorStep cutStep(const io::JsonValue &count) {
  if (count.asInteger() < 1)
    count.fail("H0375", "truncate_dim has to be 1 or more",
               "give the size of a vector, or null");
  VectorStep step;
  step.name = "truncate_dim";
  step.outputs = count.asInteger();
  step.cuts = true;
  step.apply = [outputs = size_t(step.outputs)](std::vector<float> &vector) {
    vector.resize(std::min(vector.size(), outputs));
  };
  return step;
}

//===----------------------------------------------------------------------===//
// modules.json
//===----------------------------------------------------------------------===//

/// Throws H0398 unless the Transformer yields hidden states of a text.
static void checkTransformer(const std::string &directory) {
  std::optional<io::JsonValue> config = readSentenceConfig(directory);
  if (!config)
    return;
  for (auto [key, known] :
       {std::pair("transformer_task", "feature-extraction"),
        std::pair("module_output_name", "token_embeddings")})
    if (const io::JsonValue *value = config->findNonNull(key))
      if (value->asString() != known)
        refuse(*value, std::string(key) + " " + value->asString() +
                           " is not supported, only " + known);
  const io::JsonValue *modes = config->findNonNull("modality_config");
  if (const io::JsonValue *chat =
          modes ? modes->findNonNull("message") : nullptr)
    refuse(*chat, "a text that is written as a message of a chat is not "
                  "supported");
}

/// Reads modules.json.
static Pooling readModules(const std::string &directory) {
  Pooling pooling;
  io::JsonValue modules =
      io::parseJsonFile(directory + "/modules.json", io::modelJsonCodes);
  bool pools = false;
  for (const io::JsonValue &module : modules.elements()) {
    const std::string &type = module.at("type").asString();
    const std::string kind = type.substr(type.rfind('.') + 1);
    const std::string folder = directory + "/" + module.at("path").asString();
    if (kind == "Transformer" && !pools) {
      checkTransformer(directory);
    } else if (kind == "Pooling" && !pools) {
      readPooling(folder, pooling);
      pools = true;
    } else if (kind == "Normalize" && pools) {
      pooling.steps.push_back(readNormalize(folder));
    } else if (kind == "Dense" && pools) {
      pooling.steps.push_back(readDense(folder));
    } else if (kind == "LayerNorm" && pools) {
      pooling.steps.push_back(readLayerNorm(folder));
      // Dropout only matters in training.
    } else if (kind != "Dropout" || !pools) {
      refuse(module, "a module " + type + " is not supported here");
    }
  }
  if (!pools)
    refuse(modules, "no module makes one vector of a text");
  if (std::string config = directory + "/config_sentence_transformers.json";
      io::pathExists(config)) {
    io::JsonValue all = io::parseJsonFile(config, io::modelJsonCodes);
    if (const io::JsonValue *count = all.findNonNull("truncate_dim"))
      pooling.steps.push_back(cutStep(*count));
  }
  return pooling;
}

Pooling heddle::rt::findPooling(const std::string &directory,
                                const PoolingOptions &options) {
  Pooling pooling;
  bool isSaid = !options.kind.empty() && options.normalizes;
  if (!isSaid && isSentenceModel(directory))
    pooling = readModules(directory);
  for (const auto &[name, mode] : poolingModes)
    if (options.kind == name)
      pooling.modes = {mode};
  if (!options.normalizes)
    return pooling;
  auto &steps = pooling.steps;
  if (!*options.normalizes)
    steps.erase(
        std::remove_if(steps.begin(), steps.end(),
                       [](const VectorStep &step) { return step.normalizes; }),
        steps.end());
  else if (steps.empty() || !steps.back().normalizes)
    steps.push_back(normalizeStep());
  return pooling;
}
