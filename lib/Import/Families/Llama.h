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

/// How a family that is derived from LLaMA differs from it.
struct LlamaVariant {
  // Defaults of config.json.
  int64_t vocab = 32000, inner = 11008, positions = 2048;
  int64_t hidden = 4096, layers = 32, heads = 32;
  int64_t kvHeads = 0; ///< Default number; 0: the number of query heads.
  int64_t headDim = 0; ///< 0: hidden_size / num_attention_heads.
  const char *actKey = "hidden_act", *act = "silu";
  bool tied = false;
  std::optional<int64_t> padding = {};

  bool qkvBias = false, outBias = false, mlpBias = false;
  bool headNorms = false; ///< Norms of each head of q and k.
  double normOffset = 0;  ///< Added to the weights of norms.
  int64_t window = 0;     ///< Number of keys that queries see; 0: all.
  /// Whether a layer has an attention window, if config.json has no
  /// `layer_types`.
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
  /// Builds one layer. Each of its queries sees `window` keys, or all keys if
  /// `window` is 0.
  virtual Tensor block(Modules &m, Tensor x, Tensor positions,
                       int64_t window) const;
  Tensor attention(Modules &m, Tensor x, Tensor positions,
                   AttentionShape shape) const;
  Tensor norm(Modules &m, Tensor x, const char *path) const {
    return m.rmsNorm(x, eps, path, variant.normOffset);
  }
  /// Builds the pass from token embeddings `x` to logits.
  Tensor decode(Modules &m, Tensor x) const;

  Dim kvHeads, headDim, inner;
  std::string act;
  double eps, attnDropout, deviation;
  Rotary rotary;
  std::optional<int64_t> padding;
  LlamaVariant variant;
  std::vector<int64_t> windows; ///< The window of each layer; 0: none.
};

/// Returns the keys of config.json that LLaMA's reader reads, followed by
/// `more`, the keys that a derived family reads in addition.
std::vector<ConfigKey> llamaKeys(std::vector<ConfigKey> more);

/// The differences from LLaMA that all Qwen families share.
LlamaVariant qwenVariant(const Config &config);
std::vector<ConfigKey> qwenKeys();

/// Name patterns of tensors that LLaMA's weight files contain but that are no
/// parameters, each with the reason.
std::vector<std::pair<const char *, const char *>> llamaIgnored();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H
