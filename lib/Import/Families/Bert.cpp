//===- Bert.cpp - BERT with its head for masked tokens --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The BERT family: post-norm encoder blocks with learned position and segment
// embeddings (Devlin et al., 2018). Parameters have the names and shapes of
// Hugging Face's class BertForMaskedLM.
//
//===----------------------------------------------------------------------===//

#include "../Family.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

class Bert final : public FamilyModel {
public:
  explicit Bert(const Config &c)
      : FamilyModel(c.size("vocab_size", 30522, Config::maxRows),
                    c.size("max_position_embeddings", 512, Config::maxRows),
                    c.size("hidden_size", 768),
                    c.size("num_hidden_layers", 12, Config::maxLayers),
                    c.size("num_attention_heads", 12)),
        inner(c.size("intermediate_size", 3072, 4 * Config::maxWidth)),
        segments(c.size("type_vocab_size", 2, Config::maxRows)),
        padding(c.padding(vocab, 0)), act(c.activation("hidden_act", "gelu")),
        eps(c.number("layer_norm_eps", 1e-12, 0, 1)),
        hiddenDropout(c.dropout("hidden_dropout_prob", 0.1)),
        attnDropout(c.dropout("attention_probs_dropout_prob", 0.1)),
        deviation(c.number("initializer_range", 0.02, 0, 1000)) {
    tied = c.flag("tie_word_embeddings", true);
    positionTable = "embeddings.position_embeddings.weight";
    c.requireDivides(heads, embed);
    c.requireWord("position_embedding_type", "absolute");
  }

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;
  bool isCausal() const override { return false; }

private:
  /// The last operations of attention and of the MLP in a block: dropout,
  /// addition of the residual, and norm. `x` is the residual, the input of
  /// attention or of the MLP.
  Tensor residual(Modules &m, Tensor y, Tensor x,
                  const std::string &path) const;
  Tensor block(Modules &m, Tensor x, Tensor lengths) const;

  Dim inner, segments;
  std::optional<int64_t> padding;
  std::string act;
  double eps, hiddenDropout, attnDropout, deviation;
};

std::vector<Weight> Bert::weights() const {
  const Init normal = {Init::Kind::Normal, 0, deviation},
             ones = {Init::Kind::Constant, 1, 0}, zeros = {};
  std::vector<Weight> table;
  auto rows = [&](const std::string &path, Dim count) {
    table.push_back({path + ".weight", {count, embed}, normal});
  };
  Init words = normal;
  words.zeroRow = padding.value_or(-1);
  auto norm = [&](const std::string &path) {
    table.push_back({path + ".weight", {embed}, ones});
    table.push_back({path + ".bias", {embed}, zeros});
  };
  auto linear = [&](const std::string &path, Dim out, Dim in) {
    table.push_back({path + ".weight", {out, in}, normal, {}, /*outIn=*/true});
    table.push_back({path + ".bias", {out}, zeros});
  };
  table.push_back({"embeddings.word_embeddings.weight", {vocab, embed}, words});
  rows("embeddings.position_embeddings", positions);
  rows("embeddings.token_type_embeddings", segments);
  norm("embeddings.LayerNorm");
  const std::string layer = "encoder.layer.*.";
  for (const char *part : {"query", "key", "value"})
    linear(layer + "attention.self." + part, embed, embed);
  linear(layer + "attention.output.dense", embed, embed);
  norm(layer + "attention.output.LayerNorm");
  linear(layer + "intermediate.dense", inner, embed);
  linear(layer + "output.dense", embed, inner);
  norm(layer + "output.LayerNorm");
  linear("cls.predictions.transform.dense", embed, embed);
  norm("cls.predictions.transform.LayerNorm");
  if (!tied)
    rows("cls.predictions.decoder", vocab);
  table.push_back({"cls.predictions.bias", {vocab}, zeros});
  return table;
}

Tensor Bert::residual(Modules &m, Tensor y, Tensor x,
                      const std::string &path) const {
  y = m.dropout(m.linear(y, path + ".dense"), hiddenDropout, path + ".dropout");
  y = m.layerNorm(m.add(y, x), eps, path + ".LayerNorm");
  return m.output(y, path);
}

Tensor Bert::block(Modules &m, Tensor x, Tensor lengths) const {
  std::vector<Tensor> qkv;
  for (const char *part : {"query", "key", "value"})
    qkv.push_back(m.linear(x, std::string("attention.self.") + part));
  AttentionShape shape = {heads,
                          heads,
                          1 / std::sqrt(double(embed / heads)),
                          attnDropout,
                          "attention.self.dropout",
                          /*causal=*/false};
  Tensor y = m.attention(qkv, shape, "attention.self", lengths);
  x = residual(m, m.output(y, "attention.self"), x, "attention.output");
  m.output(x, "attention");
  y = m.linear(x, "intermediate.dense");
  return residual(m, m.activation(y, act, "intermediate"), x, "output");
}

Tensor Bert::forward(Modules &m) const {
  const std::string embeddings = "embeddings", cls = "cls.predictions";
  const std::string words = embeddings + ".word_embeddings";
  Tensor x = m.embedding(m.ids(), words, padding);
  x = m.add(x,
            m.embedding(m.segments(), embeddings + ".token_type_embeddings"));
  const std::string places = embeddings + ".position_embeddings";
  x = m.add(x, m.embedding(m.positions(places), places));
  x = m.layerNorm(x, eps, embeddings + ".LayerNorm");
  x = m.dropout(x, hiddenDropout, embeddings + ".dropout");
  Tensor lengths = m.lengths();
  x = m.layers("encoder.layer", layers, m.output(x, embeddings),
               [&](Tensor y) { return block(m, y, lengths); });
  x = m.hidden(x);
  if (!m.hasHead())
    return x;
  x = m.linear(x, cls + ".transform.dense");
  x = m.activation(x, act, cls + ".transform.transform_act_fn");
  x = m.layerNorm(x, eps, cls + ".transform.LayerNorm");
  return m.head(x, tied ? words : cls + ".decoder", cls);
}

} // namespace

const Family &config::bertFamily() {
  using V = ConfigVerdict;
  static const char *pooler =
      "the pooled output, which no loss of masked tokens reads";
  static const char *sentences =
      "the head that says which sentence follows; masked tokens are trained";
  static const Family family = {
      "bert",
      "bert.",
      {{"architectures", V::Meaningless, "the masked language model is built"},
       {"vocab_size", V::Applied, ""},
       {"hidden_size", V::Applied, ""},
       {"num_hidden_layers", V::Applied, ""},
       {"num_attention_heads", V::Applied, ""},
       {"intermediate_size", V::Applied, ""},
       {"hidden_act", V::Applied, ""},
       {"hidden_dropout_prob", V::Applied, ""},
       {"attention_probs_dropout_prob", V::Applied, ""},
       {"max_position_embeddings", V::Applied, ""},
       {"type_vocab_size", V::Applied, ""},
       {"initializer_range", V::Applied, "used with --init random"},
       {"layer_norm_eps", V::Applied, ""},
       {"pad_token_id", V::Applied,
        "its row of the embeddings gets a gradient of the head alone"},
       {"mask_token_id", V::Applied, "the default of --mask-token"},
       {"position_embedding_type", V::Applied, ""},
       {"tie_word_embeddings", V::Applied, ""},
       {"is_decoder", V::NeutralOnly, "the family is one of encoders"},
       {"is_causal", V::NeutralOnly, "the family is one of encoders"},
       {"classifier_dropout", V::Meaningless,
        "no classification head is trained"},
       {"directionality", V::Meaningless, "attention sees all of the sequence"},
       {"pooler_fc_size", V::Meaningless, pooler},
       {"pooler_num_attention_heads", V::Meaningless, pooler},
       {"pooler_num_fc_layers", V::Meaningless, pooler},
       {"pooler_size_per_head", V::Meaningless, pooler},
       {"pooler_type", V::Meaningless, pooler}},
      {{"pooler.dense.weight", pooler},
       {"pooler.dense.bias", pooler},
       {"cls.seq_relationship.weight", sentences},
       {"cls.seq_relationship.bias", sentences},
       {"cls.predictions.decoder.bias", "the same as cls.predictions.bias"},
       {"embeddings.position_ids", "the numbers 0, 1, 2, ..."}},
      readAs<Bert>,
      "cls.predictions.decoder.weight",
      plan::Objective::MaskedToken,
      {{".LayerNorm.weight", ".LayerNorm.gamma"},
       {".LayerNorm.bias", ".LayerNorm.beta"}}};
  return family;
}
