//===- Gemma2.cpp - Gemma 2 -----------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Gemma 2 family (Gemma team, 2024, arXiv 2408.00118). It differs from
// LLaMA as follows. There are norms before and after attention and MLP. The
// weight of a norm is 1 plus the stored value. Embeddings are scaled by
// sqrt(hidden_size). Scores and logits have soft caps. Every other layer has an
// attention window.
//
//===----------------------------------------------------------------------===//

#include "Llama.h"
#include <cmath>

using namespace heddle;
using namespace heddle::config;

namespace {

class Gemma2 final : public Llama {
public:
  explicit Gemma2(const Config &c)
      : Llama(c, variantOf(c)),
        scale(1 / std::sqrt(c.number("query_pre_attn_scalar", 256, 1e-9, 1e9))),
        scoreCap(capOf(c, "attn_logit_softcapping", 50)),
        logitCap(capOf(c, "final_logit_softcapping", 30)) {}

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

private:
  Tensor block(Modules &m, Tensor x, Tensor positions,
               int64_t window) const override;

  static LlamaVariant variantOf(const Config &c);
  /// Reads a soft cap. In config.json, null means no cap, which is returned as
  /// 0.
  static double capOf(const Config &c, const char *key, double fallback) {
    const io::JsonValue *value = c.json.find(key);
    return value && value->isNull() ? 0 : c.number(key, fallback, 1e-9, 1e9);
  }

  double scale, scoreCap, logitCap;
};

LlamaVariant Gemma2::variantOf(const Config &c) {
  LlamaVariant variant;
  variant.vocab = 256000;
  variant.hidden = 2304;
  variant.inner = 9216;
  variant.layers = 26;
  variant.heads = 8;
  variant.kvHeads = 4;
  variant.headDim = 256;
  variant.positions = 8192;
  variant.actKey = "hidden_activation";
  variant.act = "gelu_pytorch_tanh";
  variant.tied = true;
  variant.padding = 0;
  variant.normOffset = 1;
  variant.qkvBias = variant.outBias = c.flag("attention_bias", false);
  const io::JsonValue *window = c.json.find("sliding_window");
  if (!window || !window->isNull())
    variant.window = c.size("sliding_window", 4096, Config::maxRows);
  variant.slides = [](int64_t layer) { return layer % 2 == 0; };
  return variant;
}

std::vector<Weight> Gemma2::weights() const {
  std::vector<Weight> table = Llama::weights();
  for (size_t row = 0; row < table.size(); ++row)
    if (table[row].name == "layers.*.post_attention_layernorm.weight")
      for (const char *name :
           {"pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
        Weight norm = table[row];
        norm.name = "layers.*." + std::string(name) + ".weight";
        table.insert(table.begin() + row + 1, norm);
      }
  return table;
}

Tensor Gemma2::block(Modules &m, Tensor x, Tensor positions,
                     int64_t window) const {
  AttentionShape shape = {heads, kvHeads, scale, attnDropout,
                          "self_attn.attention_dropout"};
  shape.window = window;
  shape.softcap = scoreCap;
  Tensor y = attention(m, norm(m, x, "input_layernorm"), positions, shape);
  x = m.add(x, norm(m, y, "post_attention_layernorm"));
  y = m.gatedMlp(norm(m, x, "pre_feedforward_layernorm"), act, "mlp");
  return m.add(x, norm(m, y, "post_feedforward_layernorm"));
}

Tensor Gemma2::forward(Modules &m) const {
  Tensor x = m.embedding(m.ids(), "embed_tokens", padding);
  x = decode(m, m.scale(x, std::sqrt(double(embed)), "embed_scale"));
  return logitCap > 0 ? m.softcap(x, logitCap, "final_logit_softcapping") : x;
}

} // namespace

const Family &config::gemma2Family() {
  using V = ConfigVerdict;
  static const Family family = [] {
    std::vector<ConfigKey> keys = llamaKeys(
        {{"hidden_activation", V::Applied, ""},
         {"attention_bias", V::Applied, ""},
         {"query_pre_attn_scalar", V::Applied,
          "scores are divided by its square root"},
         {"attn_logit_softcapping", V::Applied, "null: there is no cap"},
         {"final_logit_softcapping", V::Applied, "null: there is no cap"},
         {"sliding_window", V::Applied, "null: there is none"},
         {"layer_types", V::Applied, "absent: every other layer slides"},
         {"cache_implementation", V::Meaningless, "the cache is planned"},
         {"use_bidirectional_attention", V::NeutralOnly,
          "attention that sees what follows is not supported"}});
    // LLaMA's key for the activation is replaced, since Gemma 2 reads its
    // activation only from the key `hidden_activation`.
    for (ConfigKey &key : keys)
      if (key.name == std::string("hidden_act"))
        key = {"hidden_act", V::Meaningless, "hidden_activation says it"};
    return Family{"gemma2", "model.", keys, llamaIgnored(), readAs<Gemma2>};
  }();
  return family;
}
