//===- Opt.cpp - OPT ------------------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The OPT family: decoder blocks with norms before or after attention and MLP
// (Zhang et al., 2022, arXiv 2205.01068). Parameters have the names and shapes
// of Hugging Face's class OPTForCausalLM. The table of learned positions has
// two extra rows at its beginning. Embeddings may have another width than the
// layers.
//
//===----------------------------------------------------------------------===//

#include "../Family.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

class Opt final : public FamilyModel {
public:
  explicit Opt(const Config &c)
      : FamilyModel(c.size("vocab_size", 50272, Config::maxRows),
                    c.size("max_position_embeddings", 2048, Config::maxRows),
                    c.size("hidden_size", 768),
                    c.size("num_hidden_layers", 12, Config::maxLayers),
                    c.size("num_attention_heads", 12)),
        inner(c.size("ffn_dim", 3072, 4 * Config::maxWidth)),
        words(c.size("word_embed_proj_dim", embed)),
        act(c.activation("activation_function", "relu")),
        hiddenDropout(c.dropout("dropout", 0.1)),
        attnDropout(c.dropout("attention_dropout", 0)),
        deviation(c.number("init_std", 0.02, 0, 1000)),
        bias(c.flag("enable_bias", true)),
        normsFirst(c.flag("do_layer_norm_before", true)),
        normsLast(normsFirst && !c.flag("_remove_final_layer_norm", false)),
        padding(c.padding(vocab, 1)) {
    tied = c.flag("tie_word_embeddings", true);
    positionTable = "embed_positions.weight";
    firstPosition = 2;
    c.requireDivides(heads, embed);
    c.requireTrue("layer_norm_elementwise_affine", "norms without weights");
  }

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

private:
  Tensor block(Modules &m, Tensor x) const;
  /// Emits the norm at `path` if the model has a norm at this point of a block.
  /// Otherwise returns `x`.
  Tensor normIf(bool isHere, Modules &m, Tensor x, const char *path) const {
    return isHere ? m.layerNorm(x, eps, path) : x;
  }

  static constexpr double eps = 1e-5;
  Dim inner, words;
  std::string act;
  double hiddenDropout, attnDropout, deviation;
  bool bias, normsFirst, normsLast;
  std::optional<int64_t> padding;
};

std::vector<Weight> Opt::weights() const {
  const Init normal = {Init::Kind::Normal, 0, deviation};
  const Init ones = {Init::Kind::Constant, 1, 0}, zeros = {};
  Init embedding = normal;
  embedding.zeroRow = padding.value_or(-1);
  Dim places = {positions + firstPosition, positions.text + " + 2"};
  std::vector<Weight> table = {
      {"embed_tokens.weight", {vocab, words}, embedding},
      {positionTable, {places, embed}, normal}};
  auto norm = [&](const std::string &path) {
    table.push_back({path + ".weight", {embed}, ones});
    table.push_back({path + ".bias", {embed}, zeros});
  };
  auto linear = [&](const std::string &path, Dim out, Dim in, bool hasBias) {
    table.push_back({path + ".weight", {out, in}, normal, {}, /*outIn=*/true});
    if (hasBias)
      table.push_back({path + ".bias", {out}, zeros});
  };
  if (words != embed)
    linear("project_in", embed, words, false);
  for (const char *part : {"q_proj", "k_proj", "v_proj", "out_proj"})
    linear(std::string("layers.*.self_attn.") + part, embed, embed, bias);
  norm("layers.*.self_attn_layer_norm");
  linear("layers.*.fc1", inner, embed, bias);
  linear("layers.*.fc2", embed, inner, bias);
  norm("layers.*.final_layer_norm");
  if (normsLast)
    norm("final_layer_norm");
  if (words != embed)
    linear("project_out", words, embed, false);
  if (!tied)
    table.push_back({"lm_head.weight", {vocab, words}, normal});
  return table;
}

Tensor Opt::block(Modules &m, Tensor x) const {
  const char *attnNorm = "self_attn_layer_norm", *mlpNorm = "final_layer_norm";
  Tensor y = normIf(normsFirst, m, x, attnNorm);
  std::vector<Tensor> qkv;
  for (const char *part :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"})
    qkv.push_back(m.linear(y, part));
  AttentionShape shape = {heads, heads, 1 / std::sqrt(double(embed / heads)),
                          attnDropout, "self_attn.dropout"};
  y = m.linear(m.attention(qkv, shape, "self_attn"), "self_attn.out_proj");
  y = m.dropout(m.output(y, "self_attn"), hiddenDropout, "dropout");
  x = normIf(!normsFirst, m, m.add(x, y), attnNorm);
  y = m.linear(normIf(normsFirst, m, x, mlpNorm), "fc1");
  y = m.linear(m.activation(y, act, "activation_fn"), "fc2");
  y = m.dropout(y, hiddenDropout, "fc2.dropout");
  return normIf(!normsFirst, m, m.add(x, y), mlpNorm);
}

Tensor Opt::forward(Modules &m) const {
  Tensor x = m.embedding(m.ids(), "embed_tokens", padding);
  if (words != embed)
    x = m.linear(x, "project_in");
  Tensor places = m.positions("embed_positions", firstPosition);
  x = m.add(x, m.embedding(places, "embed_positions"), "embed_positions");
  x = m.layers("layers", layers, x, [&](Tensor y) { return block(m, y); });
  x = normIf(normsLast, m, x, "final_layer_norm");
  if (words != embed)
    x = m.linear(x, "project_out");
  return m.head(x, tied ? "embed_tokens" : "lm_head", "lm_head");
}

} // namespace

const Family &config::optFamily() {
  using V = ConfigVerdict;
  static const Family family = {
      "opt",
      "model.decoder.",
      {{"vocab_size", V::Applied, ""},
       {"hidden_size", V::Applied, ""},
       {"num_hidden_layers", V::Applied, ""},
       {"num_attention_heads", V::Applied, ""},
       {"ffn_dim", V::Applied, ""},
       {"max_position_embeddings", V::Applied, ""},
       {"do_layer_norm_before", V::Applied, ""},
       {"_remove_final_layer_norm", V::Applied, ""},
       {"word_embed_proj_dim", V::Applied, "null: hidden_size"},
       {"activation_function", V::Applied, ""},
       {"dropout", V::Applied, ""},
       {"attention_dropout", V::Applied, ""},
       {"activation_dropout", V::Meaningless, "no module reads it"},
       {"layerdrop", V::NeutralOnly,
        "training that leaves out layers is not supported"},
       {"init_std", V::Applied, "used with --init random"},
       {"enable_bias", V::Applied, ""},
       {"layer_norm_elementwise_affine", V::Applied, ""},
       {"pad_token_id", V::Applied,
        "its row of the embedding gets a gradient of a tied head alone"},
       {"tie_word_embeddings", V::Applied, ""}},
      {},
      readAs<Opt>};
  return family;
}
