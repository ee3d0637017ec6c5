//===- Gpt2.cpp - GPT-2 ---------------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPT-2 family: pre-norm decoder blocks with learned position embeddings
// (Radford et al., 2019). Parameters have the names and shapes of Hugging
// Face's class GPT2LMHeadModel.
//
//===----------------------------------------------------------------------===//

#include "../Family.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

class Gpt2 final : public FamilyModel {
public:
  explicit Gpt2(const Config &c)
      : FamilyModel(
            c.size("vocab_size", 50257, Config::maxRows),
            c.size("n_positions", 1024, Config::maxRows), c.size("n_embd", 768),
            c.size("n_layer", 12, Config::maxLayers), c.size("n_head", 12)),
        inner(c.size("n_inner", 4 * embed, 4 * Config::maxWidth)),
        act(c.activation("activation_function", "gelu_new")),
        eps(c.number("layer_norm_epsilon", 1e-5, 0, 1)),
        residDropout(c.dropout("resid_pdrop", 0.1)),
        embedDropout(c.dropout("embd_pdrop", 0.1)),
        attnDropout(c.dropout("attn_pdrop", 0.1)),
        deviation(c.number("initializer_range", 0.02, 0, 1000)),
        scaled(c.flag("scale_attn_weights", true)) {
    tied = c.flag("tie_word_embeddings", true);
    positionTable = "wpe.weight";
    c.requireDivides(heads, embed);
  }

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

private:
  Tensor block(Modules &m, Tensor x) const;

  Dim inner;
  std::string act;
  double eps, residDropout, embedDropout, attnDropout, deviation;
  bool scaled;
};

std::vector<Weight> Gpt2::weights() const {
  const Init normal = {Init::Kind::Normal, 0, deviation};
  // The weights of projections that are added to the residual are initialized
  // with smaller values. Every layer adds two such projections; without the
  // smaller values, the residual would grow with the number of layers.
  const Init residual = {Init::Kind::Normal, 0,
                         deviation / std::sqrt(2.0 * double(layers))};
  const Init ones = {Init::Kind::Constant, 1, 0}, zeros = {};
  const Dim &c = embed;
  std::vector<Weight> table = {
      {"wte.weight", {vocab, c}, normal},
      {"wpe.weight", {positions, c}, normal},
      {"h.*.ln_1.weight", {c}, ones},
      {"h.*.ln_1.bias", {c}, zeros},
      {"h.*.attn.c_attn.weight", {c, 3 * c}, normal, {c, c, c}},
      {"h.*.attn.c_attn.bias", {3 * c}, zeros, {c, c, c}},
      {"h.*.attn.c_proj.weight", {c, c}, residual},
      {"h.*.attn.c_proj.bias", {c}, zeros},
      {"h.*.ln_2.weight", {c}, ones},
      {"h.*.ln_2.bias", {c}, zeros},
      {"h.*.mlp.c_fc.weight", {c, inner}, normal},
      {"h.*.mlp.c_fc.bias", {inner}, zeros},
      {"h.*.mlp.c_proj.weight", {inner, c}, residual},
      {"h.*.mlp.c_proj.bias", {c}, zeros},
      {"ln_f.weight", {c}, ones},
      {"ln_f.bias", {c}, zeros}};
  if (!tied)
    table.push_back({"lm_head.weight", {vocab, c}, normal});
  return table;
}

Tensor Gpt2::block(Modules &m, Tensor x) const {
  double scale = scaled ? 1.0 / std::sqrt(double(embed / heads)) : 1.0;
  Tensor y = m.linear(m.layerNorm(x, eps, "ln_1"), "attn.c_attn");
  y = m.attention({y}, {heads, heads, scale, attnDropout, "attn.attn_dropout"},
                  "attn");
  y = m.linear(y, "attn.c_proj");
  y = m.dropout(y, residDropout, "attn.resid_dropout");
  x = m.add(x, m.output(y, "attn"));
  y = m.linear(m.layerNorm(x, eps, "ln_2"), "mlp.c_fc");
  y = m.linear(m.activation(y, act, "mlp.act"), "mlp.c_proj");
  y = m.dropout(y, residDropout, "mlp.dropout");
  return m.add(x, m.output(y, "mlp"));
}

Tensor Gpt2::forward(Modules &m) const {
  Tensor tokens = m.embedding(m.ids(), "wte");
  Tensor places = m.embedding(m.positions("wpe"), "wpe");
  Tensor x = m.dropout(m.add(tokens, places, "wpe"), embedDropout, "drop");
  x = m.layers("h", layers, m.output(x, "drop"),
               [&](Tensor y) { return block(m, y); });
  x = m.layerNorm(x, eps, "ln_f");
  return m.head(x, tied ? "wte" : "lm_head", "lm_head");
}

} // namespace

const Family &config::gpt2Family() {
  using V = ConfigVerdict;
  static const char *noHead = "no classification head is trained";
  static const char *mask =
      "a buffer of the causal mask, which attention does not read";
  static const Family family = [] {
    Family made = {
        "gpt2",
        "transformer.",
        {{"vocab_size", V::Applied, ""},
         {"n_positions", V::Applied, ""},
         {"n_ctx", V::Meaningless,
          "n_positions says how long a sequence may be"},
         {"n_special", V::Meaningless, "no module reads it"},
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
         {"summary_type", V::Meaningless, noHead},
         {"summary_use_proj", V::Meaningless, noHead},
         {"summary_activation", V::Meaningless, noHead},
         {"summary_proj_to_labels", V::Meaningless, noHead},
         {"summary_first_dropout", V::Meaningless, noHead}},
        {{"h.*.attn.bias", mask}, {"h.*.attn.masked_bias", mask}},
        readAs<Gpt2>};
    made.aliases = {{"hidden_size", "n_embd"},
                    {"max_position_embeddings", "n_positions"},
                    {"num_attention_heads", "n_head"},
                    {"num_hidden_layers", "n_layer"}};
    return made;
  }();
  return family;
}
