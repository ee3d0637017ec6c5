//===- GptNeoX.cpp - GPT-NeoX ---------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPT-NeoX family: decoder blocks in which attention and MLP read the same
// input, and rotary embeddings rotate only some features of each head (Black et
// al., 2022, arXiv 2204.06745). The weight files store q, k and v of all heads
// interleaved in one matrix. The model has a separate matrix for each.
//
//===----------------------------------------------------------------------===//

#include "../Family.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

class GptNeoX final : public FamilyModel {
public:
  explicit GptNeoX(const Config &c)
      : FamilyModel(c.size("vocab_size", 50432, Config::maxRows),
                    c.size("max_position_embeddings", 2048, Config::maxRows),
                    c.size("hidden_size", 6144),
                    c.size("num_hidden_layers", 44, Config::maxLayers),
                    c.size("num_attention_heads", 64)),
        inner(c.size("intermediate_size", 24576, 4 * Config::maxWidth)),
        act(c.activation("hidden_act", "gelu")),
        eps(c.number("layer_norm_eps", 1e-5, 0, 1)),
        attnDropout(c.dropout("attention_dropout", 0)),
        hiddenDropout(c.dropout("hidden_dropout", 0)),
        deviation(c.number("initializer_range", 0.02, 0, 1000)),
        bias(c.flag("attention_bias", true)),
        parallel(c.flag("use_parallel_residual", true)) {
    tied = c.flag("tie_word_embeddings", false);
    c.requireDivides(heads, embed);
    // A newer config.json has the keys of rotary embeddings in the object
    // `rope_parameters`.
    const io::JsonValue *newer = c.json.findNonNull("rope_parameters");
    const char *part = "partial_rotary_factor";
    double share = newer && newer->findNonNull(part)
                       ? newer->at(part).asNumber()
                       : c.number("rotary_pct", 0.25, 0, 1);
    if (share > 1)
      newer->at(part).fail("H0392", "a head has no more than all its features",
                           "give a number from 0 to 1");
    Dim dims = {int64_t(double(embed / heads) * share), "rotary_pct"};
    if (dims < 2 || dims % 2 != 0)
      fail("H0392",
           "rotary_pct turns " + std::to_string(dims) + " of the " +
               std::to_string(embed / heads) + " features of a head, not pairs",
           "let it turn an even number of them",
           locationOf(c.json, "rotary_pct"));
    rotary = c.rotary(dims, positions, "rotary_emb_base", part);
  }

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

private:
  void addPart(int64_t part, const Init &init, int64_t rank,
               std::vector<Weight> &table) const;
  Tensor attention(Modules &m, Tensor x, Tensor positions) const;
  Tensor mlp(Modules &m, Tensor x) const;
  Tensor block(Modules &m, Tensor x, Tensor positions) const;

  Dim inner;
  std::string act;
  double eps, attnDropout, hiddenDropout, deviation;
  bool bias, parallel;
  Rotary rotary;
};

constexpr const char *parts[] = {"query", "key", "value"};

/// Adds the weight (rank 2) or the bias (rank 1) of q, k or v to `table`;
/// `part` is 0, 1 or 2. In the weight files, q, k and v are one tensor, which
/// has the rows of q, k and v of the first head, then those of the second head,
/// and so on.
void GptNeoX::addPart(int64_t part, const Init &init, int64_t rank,
                      std::vector<Weight> &table) const {
  const char *kind = rank == 2 ? ".weight" : ".bias";
  std::vector<Dim> shape = {embed};
  std::vector<int64_t> whole = {3 * int64_t(embed)};
  if (rank == 2) {
    shape.push_back(embed);
    whole.push_back(embed);
  }
  int64_t size = embed / heads;
  std::vector<weights::Source> rows;
  for (int64_t head = 0; head < heads; ++head)
    rows.push_back(weights::slice(
        0, (3 * head + part) * size, size,
        weights::tensor(
            "layers.*.attention.query_key_value" + std::string(kind), whole)));
  Weight made = {"layers.*.attention." + std::string(parts[part]) + kind, shape,
                 init};
  made.outIn = rank == 2;
  made.source = heads == 1 ? rows.front() : weights::concat(0, std::move(rows));
  table.push_back(std::move(made));
}

std::vector<Weight> GptNeoX::weights() const {
  const Init normal = {Init::Kind::Normal, 0, deviation};
  const Init ones = {Init::Kind::Constant, 1, 0}, zeros = {};
  std::vector<Weight> table = {{"embed_in.weight", {vocab, embed}, normal}};
  auto norm = [&](const std::string &path) {
    table.push_back({path + ".weight", {embed}, ones});
    table.push_back({path + ".bias", {embed}, zeros});
  };
  auto linear = [&](const std::string &path, Dim out, Dim in, bool hasBias) {
    std::string name = "layers.*." + path;
    table.push_back({name + ".weight", {out, in}, normal, {}, /*outIn=*/true});
    if (hasBias)
      table.push_back({name + ".bias", {out}, zeros});
  };
  norm("layers.*.input_layernorm");
  norm("layers.*.post_attention_layernorm");
  for (int64_t part = 0; part < 3; ++part) {
    addPart(part, normal, 2, table);
    if (bias)
      addPart(part, zeros, 1, table);
  }
  linear("attention.dense", embed, embed, bias);
  linear("mlp.dense_h_to_4h", inner, embed, true);
  linear("mlp.dense_4h_to_h", embed, inner, true);
  norm("final_layer_norm");
  if (!tied)
    table.push_back({"embed_out.weight", {vocab, embed}, normal});
  return table;
}

Tensor GptNeoX::attention(Modules &m, Tensor x, Tensor positions) const {
  const std::string path = "attention";
  std::vector<Tensor> qkv;
  for (const char *part : parts)
    qkv.push_back(m.linear(x, path + "." + part));
  for (int i : {0, 1})
    qkv[i] = m.rotary(qkv[i], positions, heads, rotary, path);
  AttentionShape shape = {heads, heads, 1 / std::sqrt(double(embed / heads)),
                          attnDropout, path + ".attention_dropout"};
  Tensor y = m.linear(m.attention(qkv, shape, path), path + ".dense");
  return m.dropout(m.output(y, path), hiddenDropout, "post_attention_dropout");
}

Tensor GptNeoX::mlp(Modules &m, Tensor x) const {
  Tensor y = m.linear(x, "mlp.dense_h_to_4h");
  y = m.linear(m.activation(y, act, "mlp.act"), "mlp.dense_4h_to_h");
  return m.dropout(m.output(y, "mlp"), hiddenDropout, "post_mlp_dropout");
}

Tensor GptNeoX::block(Modules &m, Tensor x, Tensor positions) const {
  Tensor y = attention(m, m.layerNorm(x, eps, "input_layernorm"), positions);
  Tensor sum = m.add(y, x);
  Tensor read = parallel ? x : sum;
  return m.add(mlp(m, m.layerNorm(read, eps, "post_attention_layernorm")), sum);
}

Tensor GptNeoX::forward(Modules &m) const {
  Tensor x = m.embedding(m.ids(), "embed_in");
  x = m.dropout(x, hiddenDropout, "emb_dropout");
  Tensor positions = m.positions("rotary_emb");
  x = m.layers("layers", layers, x,
               [&](Tensor y) { return block(m, y, positions); });
  x = m.layerNorm(x, eps, "final_layer_norm");
  return m.head(x, tied ? "embed_in" : "embed_out", "embed_out");
}

} // namespace

const Family &config::gptNeoXFamily() {
  using V = ConfigVerdict;
  static const char *mask = "a buffer of the mask, which attention does not "
                            "read";
  static const Family family = {
      "gpt_neox",
      "gpt_neox.",
      {{"vocab_size", V::Applied, ""},
       {"hidden_size", V::Applied, ""},
       {"num_hidden_layers", V::Applied, ""},
       {"num_attention_heads", V::Applied, ""},
       {"intermediate_size", V::Applied, ""},
       {"hidden_act", V::Applied, ""},
       {"rotary_pct", V::Applied, "the share of a head that is turned"},
       {"partial_rotary_factor", V::Meaningless, "rotary_pct says it"},
       {"rotary_emb_base", V::Applied, ""},
       {"rope_theta", V::Meaningless, "rotary_emb_base says it"},
       {"rope_scaling", V::Applied, ""},
       {"rope_parameters", V::Applied, ""},
       {"original_max_position_embeddings", V::Applied,
        "with the scaling llama3 or yarn"},
       {"attention_dropout", V::Applied, ""},
       {"hidden_dropout", V::Applied, ""},
       {"classifier_dropout", V::Meaningless,
        "no classification head is trained"},
       {"max_position_embeddings", V::Applied, ""},
       {"initializer_range", V::Applied, "used with --init random"},
       {"layer_norm_eps", V::Applied, ""},
       {"attention_bias", V::Applied, ""},
       {"use_parallel_residual", V::Applied, ""},
       {"tie_word_embeddings", V::Applied, ""}},
      {{"layers.*.attention.bias", mask},
       {"layers.*.attention.masked_bias", mask},
       {"layers.*.attention.rotary_emb.inv_freq",
        "the rates of rotary positions, which follow from config.json"}},
      readAs<GptNeoX>,
      "embed_out.weight"};
  return family;
}
