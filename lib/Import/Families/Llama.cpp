//===- Llama.cpp - LLaMA --------------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The LLaMA family: the keys of config.json that it reads, its weights, and its
// forward function.
//
//===----------------------------------------------------------------------===//

#include "Llama.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

static Dim headDimOf(const Config &c, const LlamaVariant &variant,
                     const Dim &embed, const Dim &heads) {
  if (variant.headDim || c.json.findNonNull("head_dim"))
    return c.size("head_dim", variant.headDim);
  c.requireDivides(heads, embed);
  return {embed / heads, "head_dim"};
}

Llama::Llama(const Config &c, const LlamaVariant &variant)
    : FamilyModel(
          c.size("vocab_size", variant.vocab, Config::maxRows),
          c.size("max_position_embeddings", variant.positions, Config::maxRows),
          c.size("hidden_size", variant.hidden),
          c.size("num_hidden_layers", variant.layers, Config::maxLayers),
          c.size("num_attention_heads", variant.heads)),
      kvHeads(c.size("num_key_value_heads",
                     variant.kvHeads ? variant.kvHeads : int64_t(heads))),
      headDim(headDimOf(c, variant, embed, heads)),
      inner(c.size("intermediate_size", variant.inner, 4 * Config::maxWidth)),
      act(c.activation(variant.actKey, variant.act)),
      eps(c.number("rms_norm_eps", 1e-6, 0, 1)),
      attnDropout(c.dropout("attention_dropout", 0)),
      deviation(c.number("initializer_range", 0.02, 0, 1000)),
      rotary(c.rotary(headDim, positions)),
      padding(c.padding(vocab, variant.padding)), variant(variant),
      windows(c.windows(layers, variant.window, variant.slides)) {
  tied = c.flag("tie_word_embeddings", variant.tied);
  c.requireDivides(kvHeads, heads);
}

Llama::Llama(const Config &c)
    : Llama(c, [&] {
        LlamaVariant variant;
        variant.qkvBias = variant.outBias = c.flag("attention_bias", false);
        variant.mlpBias = c.flag("mlp_bias", false);
        return variant;
      }()) {}

std::vector<Weight> Llama::weights() const {
  const Init normal = {Init::Kind::Normal, 0, deviation},
             ones = {Init::Kind::Constant, 1 - variant.normOffset, 0},
             zeros = {};
  Init words = normal;
  words.zeroRow = padding.value_or(-1);
  std::vector<Weight> table = {{"embed_tokens.weight", {vocab, embed}, words}};
  auto norm = [&](const char *path) {
    table.push_back({std::string(path) + ".weight", {embed}, ones});
  };
  auto linear = [&](const std::string &path, Dim out, Dim in, bool bias) {
    std::string name = "layers.*." + path;
    table.push_back({name + ".weight", {out, in}, normal, {}, /*outIn=*/true});
    if (bias)
      table.push_back({name + ".bias", {out}, zeros});
  };
  Dim queries = heads * headDim, keys = kvHeads * headDim;
  norm("layers.*.input_layernorm");
  linear("self_attn.q_proj", queries, embed, variant.qkvBias);
  linear("self_attn.k_proj", keys, embed, variant.qkvBias);
  linear("self_attn.v_proj", keys, embed, variant.qkvBias);
  linear("self_attn.o_proj", embed, queries, variant.outBias);
  if (variant.headNorms)
    for (const char *name : {"q_norm", "k_norm"})
      table.push_back({"layers.*.self_attn." + std::string(name) + ".weight",
                       {headDim},
                       ones});
  norm("layers.*.post_attention_layernorm");
  linear("mlp.gate_proj", inner, embed, variant.mlpBias);
  linear("mlp.up_proj", inner, embed, variant.mlpBias);
  linear("mlp.down_proj", embed, inner, variant.mlpBias);
  norm("norm");
  if (!tied)
    table.push_back({"lm_head.weight", {vocab, embed}, normal});
  return table;
}

Tensor Llama::attention(Modules &m, Tensor x, Tensor positions,
                        AttentionShape shape) const {
  auto turned = [&](const std::string &part, int64_t count) {
    Tensor y = m.linear(x, "self_attn." + part + "_proj");
    if (variant.headNorms)
      y = m.headNorm(y, count, eps, "self_attn." + part + "_norm");
    return m.rotary(y, positions, count, rotary, "self_attn");
  };
  Tensor q = turned("q", heads), k = turned("k", kvHeads);
  Tensor v = m.linear(x, "self_attn.v_proj");
  Tensor y = m.attention({q, k, v}, shape, "self_attn");
  return m.output(m.linear(y, "self_attn.o_proj"), "self_attn");
}

Tensor Llama::block(Modules &m, Tensor x, Tensor positions,
                    int64_t window) const {
  AttentionShape shape = {heads, kvHeads, 1 / std::sqrt(double(headDim)),
                          attnDropout, "self_attn.attention_dropout"};
  shape.window = window;
  Tensor y = norm(m, x, "input_layernorm");
  x = m.add(x, attention(m, y, positions, shape));
  y = norm(m, x, "post_attention_layernorm");
  return m.add(x, m.gatedMlp(y, act, "mlp"));
}

Tensor Llama::decode(Modules &m, Tensor x) const {
  Tensor positions = m.positions("rotary_emb");
  x = m.layers("layers", windows, x, [&](Tensor y, int64_t window) {
    return block(m, y, positions, window);
  });
  x = norm(m, x, "norm");
  return m.head(x, tied ? "embed_tokens" : "lm_head", "lm_head");
}

Tensor Llama::forward(Modules &m) const {
  return decode(m, m.embedding(m.ids(), "embed_tokens", padding));
}

std::vector<ConfigKey> config::llamaKeys(std::vector<ConfigKey> more) {
  using V = ConfigVerdict;
  std::vector<ConfigKey> keys = {
      {"vocab_size", V::Applied, ""},
      {"hidden_size", V::Applied, ""},
      {"intermediate_size", V::Applied, ""},
      {"num_hidden_layers", V::Applied, ""},
      {"num_attention_heads", V::Applied, ""},
      {"num_key_value_heads", V::Applied, "null: num_attention_heads"},
      {"head_dim", V::Applied, "null: hidden_size / num_attention_heads"},
      {"hidden_act", V::Applied, ""},
      {"max_position_embeddings", V::Applied, ""},
      {"initializer_range", V::Applied, "used with --init random"},
      {"rms_norm_eps", V::Applied, ""},
      {"rope_theta", V::Applied, ""},
      {"rope_scaling", V::Applied, ""},
      {"rope_parameters", V::Applied, ""},
      {"original_max_position_embeddings", V::Applied,
       "with the scaling llama3 or yarn"},
      {"max_sequence_length", V::Meaningless,
       "max_position_embeddings says how long a sequence may be"},
      {"attention_dropout", V::Applied, ""},
      {"tie_word_embeddings", V::Applied, ""},
      {"pad_token_id", V::Applied,
       "its row of the embedding gets a gradient of a tied head alone"},
      {"pretraining_tp", V::Meaningless, "a way to compute the same products"}};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::vector<std::pair<const char *, const char *>> config::llamaIgnored() {
  return {{"layers.*.self_attn.rotary_emb.inv_freq",
           "the rates of rotary positions, which follow from config.json"}};
}

const Family &config::llamaFamily() {
  using V = ConfigVerdict;
  static const Family family = {"llama", "model.",
                                llamaKeys({{"attention_bias", V::Applied, ""},
                                           {"mlp_bias", V::Applied, ""},
                                           {"layer_types", V::Applied, ""}}),
                                llamaIgnored(), readAs<Llama>};
  return family;
}
