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

namespace heddle::config {

/// In what a family differs from LLaMA.
struct LlamaVariant {
  // Defaults.
  int64_t vocab = 32000, inner = 11008, positions = 2048;
  int64_t kvHeads = 0; ///< 0: as many as heads.
  bool qkvBias = false, outBias = false, mlpBias = false;
  int64_t window = 0; ///< Tokens that attention sees; 0: all.
};

/// Pre-norm decoder blocks with RMS norms, rotary positions, grouped queries
/// and a gated MLP (Touvron et al., 2023), in Hugging Face's layout.
class Llama : public FamilyModel {
public:
  explicit Llama(const Config &config);
  Llama(const Config &config, const LlamaVariant &variant);

  std::vector<Weight> weights() const override;
  Tensor forward(Modules &m) const override;

private:
  Tensor block(Modules &m, Tensor x, Tensor positions) const;

  Dim heads, kvHeads, headDim, inner;
  std::string act;
  double eps, attnDropout, deviation;
  Rotary rotary;
  std::optional<int64_t> padding;
  LlamaVariant variant;
};

/// The keys of config.json that Llama reads, and those of a variant.
std::vector<ConfigKey> llamaKeys(std::vector<ConfigKey> more);

/// Tensors that are no parameters.
std::vector<std::pair<const char *, const char *>> llamaIgnored();

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_FAMILIES_LLAMA_H
