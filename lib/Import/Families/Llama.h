//===- Llama.h - LLaMA and families with its layers -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The LLaMA family as a class, from which Mistral, Qwen and Gemma 2 are
// derived.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H
#define HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H

#include "../Family.h"
#include <functional>

namespace heddle::config {

/// The differences of a family from LLaMA.
struct LlamaVariant {
  // Defaults of config.json.
  int64_t vocab = 32000, inner = 11008, positions = 2048;
  int64_t hidden = 4096, layers = 32, heads = 32;
  int64_t kvHeads = 0; ///< 0: the number of heads.
  int64_t headDim = 0; ///< 0: hidden_size / num_attention_heads.
  const char *actKey = "hidden_act", *act = "silu";
  bool tied = false;
  std::optional<int64_t> padding = {};

  bool qkvBias = false, outBias = false, mlpBias = false;
  bool headNorms = false; ///< Norms of each head of q and k.
  double normOffset = 0;  ///< Added to the weights of norms.
  int64_t window = 0;     ///< Number of keys that queries see; 0: all.
  /// Whether a layer has the window, if there is no `layer_types`.
  std::function<bool(int64_t layer)> slides = [](int64_t) { return true; };
};

/// Pre-norm decoder blocks with RMS norms, rotary embeddings, grouped-query
/// attention and a gated MLP (Touvron et al., 2023), in Hugging Face's layout.
class Llama : public FamilyModel {
public:
  explicit Llama(const Config &config);
  Llama(const Config &config, const LlamaVariant &variant);

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

protected:
  /// A layer whose queries see `window` keys; 0: all.
  virtual Tensor block(Modules &m, Tensor x, Tensor positions,
                       int64_t window) const;
  Tensor attention(Modules &m, Tensor x, Tensor positions,
                   AttentionShape shape) const;
  Tensor norm(Modules &m, Tensor x, const char *path) const {
    return m.rmsNorm(x, eps, path, variant.normOffset);
  }
  /// The pass from token embeddings to logits.
  Tensor decode(Modules &m, Tensor x) const;

  Dim heads, kvHeads, headDim, inner;
  std::string act;
  double eps, attnDropout, deviation;
  Rotary rotary;
  std::optional<int64_t> padding;
  LlamaVariant variant;
  std::vector<int64_t> windows; ///< For each layer.
};

/// The keys of config.json that Llama reads, with those of a variant added.
std::vector<ConfigKey> llamaKeys(std::vector<ConfigKey> more);

/// The variant that Qwen's families share.
LlamaVariant qwenVariant(const Config &config);
std::vector<ConfigKey> qwenKeys();

/// Tensors of the files that are no parameters.
std::vector<std::pair<const char *, const char *>> llamaIgnored();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H
