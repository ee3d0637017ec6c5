//===- Llama.h - LLaMA and what has its layers ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H
#define HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H

#include "../Family.h"
#include <functional>

namespace heddle::config {

/// In what a family differs from LLaMA.
struct LlamaVariant {
  // Defaults.
  int64_t vocab = 32000, inner = 11008, positions = 2048;
  int64_t hidden = 4096, layers = 32, heads = 32;
  int64_t kvHeads = 0; ///< 0: as many as heads.
  int64_t headDim = 0; ///< 0: hidden_size / num_attention_heads.
  const char *actKey = "hidden_act", *act = "silu";
  bool tied = false;
  std::optional<int64_t> padding = {};

  bool qkvBias = false, outBias = false, mlpBias = false;
  bool headNorms = false; ///< Of each head of q and k.
  double normOffset = 0;  ///< Added to the weights of norms.
  int64_t window = 0;     ///< Keys that queries see; 0: all.
  /// Whether those of a layer do, where `layer_types` does not say.
  std::function<bool(int64_t layer)> slides = [](int64_t) { return true; };
};

/// Pre-norm decoder blocks with RMS norms, rotary positions, grouped queries
/// and a gated MLP (Touvron et al., 2023), in Hugging Face's layout.
class Llama : public FamilyModel {
public:
  explicit Llama(const Config &config);
  Llama(const Config &config, const LlamaVariant &variant);

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

protected:
  /// A layer whose queries see so many keys; 0: all.
  virtual Tensor block(Modules &m, Tensor x, Tensor positions,
                       int64_t window) const;
  Tensor attention(Modules &m, Tensor x, Tensor positions,
                   AttentionShape shape) const;
  Tensor norm(Modules &m, Tensor x, const char *path) const {
    return m.rmsNorm(x, eps, path, variant.normOffset);
  }
  /// From the embeddings of the tokens to the logits.
  Tensor decode(Modules &m, Tensor x) const;

  Dim heads, kvHeads, headDim, inner;
  std::string act;
  double eps, attnDropout, deviation;
  Rotary rotary;
  std::optional<int64_t> padding;
  LlamaVariant variant;
  std::vector<int64_t> windows; ///< Of the layers.
};

/// The keys of config.json that Llama reads, and those of a variant.
std::vector<ConfigKey> llamaKeys(std::vector<ConfigKey> more);

/// What Qwen's models have in common, and the keys of theirs.
LlamaVariant qwenVariant(const Config &config);
std::vector<ConfigKey> qwenKeys();

/// Tensors that are no parameters.
std::vector<std::pair<const char *, const char *>> llamaIgnored();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H
