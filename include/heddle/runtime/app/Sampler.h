//===- Sampler.h - Choosing the next token ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SAMPLER_H
#define HEDDLE_RUNTIME_APP_SAMPLER_H

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// What a sampler may choose from; the defaults choose the likeliest token.
struct SamplingOptions {
  double temperature = 0; ///< 0: always the likeliest.
  int64_t topK = 0;       ///< 0: all.
  double topP = 1;
  uint64_t seed = 0;
  double minP = 0; ///< Of the likeliest token's probability.
  /// Logits of tokens that are there already are divided by it, negative ones
  /// multiplied (Keskar et al., arXiv 1909.05858).
  double repetitionPenalty = 1;
};

/// Draws tokens as Hugging Face does: the penalty, temperature, top-k, top-p,
/// then min-p. The same seed draws the same tokens from the same logits.
class Sampler {
public:
  explicit Sampler(const SamplingOptions &options) : options(options) {}
  /// The token behind `seen`. Penalized logits are changed in place.
  int32_t next(float *logits, int64_t vocab,
               const std::vector<int32_t> &seen = {});

private:
  struct Candidate {
    int32_t token;
    double weight;
  };
  void penalize(float *logits, int64_t vocab, const std::vector<int32_t> &seen);
  void keepTopP();

  SamplingOptions options;
  uint64_t drawn = 0;
  std::vector<Candidate> candidates;
  std::vector<bool> isPenalized;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SAMPLER_H
