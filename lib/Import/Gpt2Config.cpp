//===- Gpt2Config.cpp - The shape of a GPT-2 model ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Family.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

const std::vector<ConfigKey> &gpt2Keys() {
  using V = ConfigVerdict;
  static const std::vector<ConfigKey> keys = {
      {"vocab_size", V::Applied, ""},
      {"n_positions", V::Applied, ""},
      {"n_ctx", V::Meaningless, "n_positions says how long a sequence may be"},
      {"n_embd", V::Applied, ""},
      {"n_layer", V::Applied, ""},
      {"n_head", V::Applied, ""},
      {"n_inner", V::Applied, "null: 4 n_embd"},
      {"activation_function", V::Applied, ""},
      {"layer_norm_epsilon", V::Applied, ""},
      {"resid_pdrop", V::Applied, ""},
      {"embd_pdrop", V::Applied, ""},
      {"attn_pdrop", V::Applied, ""},
      {"initializer_range", V::Applied, "used with --init random"},
      {"scale_attn_weights", V::Applied, ""},
      {"tie_word_embeddings", V::Applied, ""},
      {"scale_attn_by_inverse_layer_idx", V::NeutralOnly,
       "a scale that differs from layer to layer is not supported"},
      {"reorder_and_upcast_attn", V::Meaningless,
       "attention scores are always accumulated in fp32"},
      {"summary_type", V::Meaningless, "no classification head is trained"},
      {"summary_use_proj", V::Meaningless, "no classification head is trained"},
      {"summary_activation", V::Meaningless,
       "no classification head is trained"},
      {"summary_proj_to_labels", V::Meaningless,
       "no classification head is trained"},
      {"summary_first_dropout", V::Meaningless,
       "no classification head is trained"},
  };
  return keys;
}

/// The activation's name here, or an error that lists those that are known.
std::string readActivation(const io::JsonValue &config) {
  const io::JsonValue *value = config.findNonNull("activation_function");
  if (!value)
    return "gelu_tanh";
  const std::string &name = value->asString();
  static const std::vector<std::pair<const char *, const char *>> known = {
      {"gelu_new", "gelu_tanh"},  {"gelu_pytorch_tanh", "gelu_tanh"},
      {"gelu_fast", "gelu_tanh"}, {"gelu", "gelu"},
      {"gelu_python", "gelu"},    {"relu", "relu"},
      {"silu", "silu"},           {"swish", "silu"}};
  std::string all;
  for (const auto &[theirs, ours] : known) {
    if (name == theirs)
      return ours;
    all += (all.empty() ? "" : ", ") + std::string(theirs);
  }
  value->fail("H0391", "activation_function \"" + name + "\" is not supported",
              "use one of " + all);
}

class Gpt2Family : public Family {
public:
  const char *name() const override { return "gpt2"; }
  const char *prefix() const override { return "transformer."; }
  bool isHeadParameter(const std::string &name) const override {
    return name == "lm_head.weight";
  }
  void readConfig(const io::JsonValue &config, ModelSpec &spec) const override;
  std::string ignoreReason(const std::string &name,
                           const ModelSpec &spec) const override;

private:
  void addParameters(const Gpt2Config &shape, ModelSpec &spec) const;
};

void Gpt2Family::readConfig(const io::JsonValue &config,
                            ModelSpec &spec) const {
  judgeConfigKeys(config, gpt2Keys(), spec);
  // Limits such that no number of elements overflows.
  constexpr int64_t maxWidth = 1 << 20, maxRows = 1 << 28, maxLayers = 10000;
  Gpt2Config shape;
  shape.vocabSize = readSize(config, "vocab_size", shape.vocabSize, maxRows);
  shape.positions = readSize(config, "n_positions", shape.positions, maxRows);
  shape.embed = readSize(config, "n_embd", shape.embed, maxWidth);
  shape.layers = readSize(config, "n_layer", shape.layers, maxLayers);
  shape.heads = readSize(config, "n_head", shape.heads, maxWidth);
  shape.inner = readSize(config, "n_inner", 4 * shape.embed, 4 * maxWidth);
  shape.activation = readActivation(config);
  shape.layerNormEps =
      readNumber(config, "layer_norm_epsilon", shape.layerNormEps, 0, 1);
  shape.residDropout =
      readNumber(config, "resid_pdrop", shape.residDropout, 0, 0.999999);
  shape.embedDropout =
      readNumber(config, "embd_pdrop", shape.embedDropout, 0, 0.999999);
  shape.attnDropout =
      readNumber(config, "attn_pdrop", shape.attnDropout, 0, 0.999999);
  shape.initializerRange =
      readNumber(config, "initializer_range", shape.initializerRange, 0, 1000);
  shape.scaleAttention = config.boolOr("scale_attn_weights", true);
  shape.tied = config.boolOr("tie_word_embeddings", true);
  if (shape.embed % shape.heads != 0)
    fail("H0392",
         "n_head = " + std::to_string(shape.heads) +
             " does not divide n_embd = " + std::to_string(shape.embed),
         "choose an n_head that divides " + std::to_string(shape.embed),
         locationOf(config, "n_head"));
  spec.vocabSize = shape.vocabSize;
  spec.maxPositions = shape.positions;
  spec.positionsKey = "n_positions";
  spec.positionsLocation = locationOf(config, "n_positions");
  addParameters(shape, spec);
  spec.architecture = shape;
}

void Gpt2Family::addParameters(const Gpt2Config &shape, ModelSpec &spec) const {
  const InitSpec normal = {"normal", 0, shape.initializerRange};
  // Residual projections start smaller: two of them add up in every layer.
  const InitSpec residual = {"normal", 0,
                             shape.initializerRange /
                                 std::sqrt(2.0 * double(shape.layers))};
  const InitSpec ones = {"constant", 1, 0}, zeros = {"zeros", 0, 0};
  auto add = [&](const std::string &name, std::vector<int64_t> sizes,
                 const InitSpec &init, const char *reason,
                 std::vector<int64_t> segments = {}) {
    ParameterSpec parameter;
    parameter.name = name;
    parameter.shape = std::move(sizes);
    parameter.init = init;
    parameter.shapeReason = reason;
    parameter.segments = std::move(segments);
    spec.parameters.push_back(std::move(parameter));
  };
  int64_t c = shape.embed;
  auto addNorm = [&](const std::string &name) {
    add(name + ".weight", {c}, ones, "[n_embd]");
    add(name + ".bias", {c}, zeros, "[n_embd]");
  };
  add("wte.weight", {shape.vocabSize, c}, normal, "[vocab_size, n_embd]");
  add("wpe.weight", {shape.positions, c}, normal, "[n_positions, n_embd]");
  for (int64_t i = 0; i < shape.layers; ++i) {
    std::string layer = "h." + std::to_string(i) + ".";
    addNorm(layer + "ln_1");
    add(layer + "attn.c_attn.weight", {c, 3 * c}, normal, "[n_embd, 3 n_embd]",
        {c, c, c});
    add(layer + "attn.c_attn.bias", {3 * c}, zeros, "[3 n_embd]", {c, c, c});
    add(layer + "attn.c_proj.weight", {c, c}, residual, "[n_embd, n_embd]");
    add(layer + "attn.c_proj.bias", {c}, zeros, "[n_embd]");
    addNorm(layer + "ln_2");
    add(layer + "mlp.c_fc.weight", {c, shape.inner}, normal,
        "[n_embd, n_inner]");
    add(layer + "mlp.c_fc.bias", {shape.inner}, zeros, "[n_inner]");
    add(layer + "mlp.c_proj.weight", {shape.inner, c}, residual,
        "[n_inner, n_embd]");
    add(layer + "mlp.c_proj.bias", {c}, zeros, "[n_embd]");
  }
  addNorm("ln_f");
  if (!shape.tied)
    add("lm_head.weight", {shape.vocabSize, c}, normal, "[vocab_size, n_embd]");
}

/// True for `h.N.SUFFIX` with a number N.
bool isLayerTensor(const std::string &name, const std::string &suffix) {
  if (name.rfind("h.", 0) != 0)
    return false;
  size_t end = name.find_first_not_of("0123456789", 2);
  return end != 2 && end != std::string::npos &&
         name.substr(end) == "." + suffix;
}

std::string Gpt2Family::ignoreReason(const std::string &name,
                                     const ModelSpec &) const {
  if (isLayerTensor(name, "attn.bias") ||
      isLayerTensor(name, "attn.masked_bias"))
    return "a buffer of the causal mask, which attention does not read";
  // Untied, it would be a parameter and not come here.
  if (name == "lm_head.weight")
    return "tie_word_embeddings: the head is wte.weight";
  return "";
}

} // namespace

const Family &config::gpt2Family() {
  static const Gpt2Family family;
  return family;
}
