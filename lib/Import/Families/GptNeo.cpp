//===- GptNeo.cpp - GPT-Neo -----------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPT-Neo family (Black et al., 2021). Parameters have the names and shapes
// of Hugging Face's class GPTNeoForCausalLM. The family differs from GPT-2: q,
// k and v are separate projections without biases, scores are not scaled, and
// layers of local attention have a window.
//
//===----------------------------------------------------------------------===//

#include "../Family.h"

using namespace heddle;
using namespace heddle::config;

namespace {

class GptNeo final : public FamilyModel {
public:
  explicit GptNeo(const Config &c)
      : FamilyModel(c.size("vocab_size", 50257, Config::maxRows),
                    c.size("max_position_embeddings", 2048, Config::maxRows),
                    c.size("hidden_size", 2048),
                    c.size("num_layers", 24, Config::maxLayers),
                    c.size("num_heads", 16)),
        inner(c.size("intermediate_size", 4 * embed, 4 * Config::maxWidth)),
        act(c.activation("activation_function", "gelu_new")),
        eps(c.number("layer_norm_epsilon", 1e-5, 0, 1)),
        residDropout(c.dropout("resid_dropout", 0)),
        embedDropout(c.dropout("embed_dropout", 0)),
        attnDropout(c.dropout("attention_dropout", 0)),
        deviation(c.number("initializer_range", 0.02, 0, 1000)),
        windows(windowsOf(c)) {
    tied = c.flag("tie_word_embeddings", true);
    positionTable = "wpe.weight";
    c.requireDivides(heads, embed);
  }

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

private:
  std::vector<int64_t> windowsOf(const Config &c) const;
  Tensor block(Modules &m, Tensor x, int64_t window) const;

  Dim inner;
  std::string act;
  double eps, residDropout, embedDropout, attnDropout, deviation;
  std::vector<int64_t> windows; ///< For each layer; 0: global attention.
};

/// Returns the window of each layer from the key `attention_types`. Its value
/// is a list of pairs, each of a list of layer types and a number of
/// repetitions: [[["global", "local"], 12]].
std::vector<int64_t> GptNeo::windowsOf(const Config &c) const {
  int64_t window = c.size("window_size", 256, Config::maxRows);
  std::vector<int64_t> made;
  const io::JsonValue *types = c.json.findNonNull("attention_types");
  if (!types) {
    for (int64_t layer = 0; layer < layers; ++layer)
      made.push_back(layer % 2 ? window : 0);
    return made;
  }
  auto malformed = [](const io::JsonValue &value) {
    value.fail("H0392", "attention_types is no list of patterns and numbers",
               "as [[[\"global\", \"local\"], 12]]");
  };
  for (const io::JsonValue &item : types->elements()) {
    if (item.elements().size() != 2)
      malformed(item);
    int64_t times = item.elements()[1].asInteger();
    if (times < 0 || times > layers)
      malformed(item.elements()[1]);
    for (int64_t i = 0; i < times; ++i)
      for (const io::JsonValue &kind : item.elements()[0].elements()) {
        const std::string &name = kind.asString();
        if (name != "global" && name != "local")
          kind.fail("H0391",
                    "attention of the kind \"" + name + "\" is not supported",
                    "use one of global, local");
        made.push_back(name == "local" ? window : 0);
      }
  }
  if (int64_t(made.size()) != layers)
    types->fail("H0392",
                "attention_types has " + std::to_string(made.size()) +
                    " layers, and num_layers is " + std::to_string(layers),
                "name the kind of each layer");
  return made;
}

std::vector<Weight> GptNeo::weights() const {
  const Init normal = {Init::Kind::Normal, 0, deviation};
  const Init ones = {Init::Kind::Constant, 1, 0}, zeros = {};
  std::vector<Weight> table = {{"wte.weight", {vocab, embed}, normal},
                               {"wpe.weight", {positions, embed}, normal}};
  auto norm = [&](const std::string &path) {
    table.push_back({path + ".weight", {embed}, ones});
    table.push_back({path + ".bias", {embed}, zeros});
  };
  auto linear = [&](const std::string &path, Dim out, Dim in, bool bias) {
    std::string name = "h.*." + path;
    table.push_back({name + ".weight", {out, in}, normal, {}, /*outIn=*/true});
    if (bias)
      table.push_back({name + ".bias", {out}, zeros});
  };
  norm("h.*.ln_1");
  for (const char *part : {"q", "k", "v"})
    linear(std::string("attn.attention.") + part + "_proj", embed, embed,
           /*bias=*/false);
  linear("attn.attention.out_proj", embed, embed, /*bias=*/true);
  norm("h.*.ln_2");
  linear("mlp.c_fc", inner, embed, /*bias=*/true);
  linear("mlp.c_proj", embed, inner, /*bias=*/true);
  norm("ln_f");
  if (!tied)
    table.push_back({"lm_head.weight", {vocab, embed}, normal});
  return table;
}

Tensor GptNeo::block(Modules &m, Tensor x, int64_t window) const {
  const std::string attn = "attn.attention";
  Tensor y = m.layerNorm(x, eps, "ln_1");
  std::vector<Tensor> qkv;
  for (const char *part : {".q_proj", ".k_proj", ".v_proj"})
    qkv.push_back(m.linear(y, attn + part));
  AttentionShape shape = {heads, heads, /*scale=*/1, attnDropout,
                          attn + ".attn_dropout"};
  shape.window = window;
  y = m.linear(m.attention(qkv, shape, attn), attn + ".out_proj");
  y = m.dropout(y, residDropout, attn + ".resid_dropout");
  x = m.add(x, m.output(y, "attn"));
  y = m.linear(m.layerNorm(x, eps, "ln_2"), "mlp.c_fc");
  y = m.linear(m.activation(y, act, "mlp.act"), "mlp.c_proj");
  y = m.dropout(y, residDropout, "mlp.dropout");
  return m.add(x, m.output(y, "mlp"));
}

Tensor GptNeo::forward(Modules &m) const {
  Tensor tokens = m.embedding(m.ids(), "wte");
  Tensor places = m.embedding(m.positions("wpe"), "wpe");
  Tensor x = m.dropout(m.add(tokens, places, "wpe"), embedDropout, "drop");
  x = m.layers("h", windows, m.output(x, "drop"),
               [&](Tensor y, int64_t window) { return block(m, y, window); });
  x = m.layerNorm(x, eps, "ln_f");
  return m.head(x, tied ? "wte" : "lm_head", "lm_head");
}

} // namespace

const Family &config::gptNeoFamily() {
  using V = ConfigVerdict;
  static const char *noHead = "no classification head is trained";
  static const char *mask = "a buffer of the mask, which attention does not "
                            "read";
  static const Family family = [] {
    Family made = {
        "gpt_neo",
        "transformer.",
        {{"vocab_size", V::Applied, ""},
         {"max_position_embeddings", V::Applied, ""},
         {"hidden_size", V::Applied, ""},
         {"num_layers", V::Applied, ""},
         {"num_heads", V::Applied, ""},
         {"intermediate_size", V::Applied, "null: 4 hidden_size"},
         {"attention_types", V::Applied, "absent: global and local by turns"},
         {"attention_layers", V::Meaningless, "attention_types says it"},
         {"window_size", V::Applied, "of the layers of local attention"},
         {"activation_function", V::Applied, ""},
         {"resid_dropout", V::Applied, ""},
         {"embed_dropout", V::Applied, ""},
         {"attention_dropout", V::Applied, ""},
         {"layer_norm_epsilon", V::Applied, ""},
         {"initializer_range", V::Applied, "used with --init random"},
         {"tie_word_embeddings", V::Applied, ""},
         {"classifier_dropout", V::Meaningless, noHead},
         {"summary_type", V::Meaningless, noHead},
         {"summary_use_proj", V::Meaningless, noHead},
         {"summary_activation", V::Meaningless, noHead},
         {"summary_proj_to_labels", V::Meaningless, noHead},
         {"summary_first_dropout", V::Meaningless, noHead}},
        {{"h.*.attn.attention.bias", mask},
         {"h.*.attn.attention.masked_bias", mask}},
        readAs<GptNeo>};
    made.aliases = {{"num_attention_heads", "num_heads"},
                    {"num_hidden_layers", "num_layers"}};
    return made;
  }();
  return family;
}
