//===- Sampler.h - Choosing the next token ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_SAMPLER_H
#define HEDDLE_RUNTIME_SERVE_SAMPLER_H

#include <cstdint>
#include <utility>
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
  /// Taken from a token's logit if it was drawn before, and as often as it was
  /// (OpenAI's API); tokens of the prompt are not meant.
  double presencePenalty = 0, frequencyPenalty = 0;
  /// Tokens of the vocabulary and what is added to their logits.
  std::vector<std::pair<int32_t, double>> bias = {};
  uint32_t stream = 0; ///< Which of several texts of the same seed.
};

/// Draws tokens as Hugging Face does: the bias, penalties, temperature, top-k,
/// top-p, then min-p. The random numbers for a position, one for each token of the
/// vocabulary, are those of the seed and the stream, so the same logits give
/// the same text however it is computed, and logits that are nearly the same
/// nearly always the same token.
class Sampler {
public:
  /// Of what it sees, `prompt` tokens were not drawn.
  explicit Sampler(const SamplingOptions &options, size_t prompt = 0)
      : options(options), prompt(prompt) {}
  /// The token behind `seen`. The logits are finite; those with a bias or a
  /// penalty are changed in place.
  int32_t next(float *logits, int64_t vocab, const std::vector<int32_t> &seen);

  struct Candidate {
    int32_t token;
    double weight; ///< The likeliest token's is 1.
  };
  /// The tokens that can be drawn behind `seen` at a temperature over 0. Valid
  /// until the next call; changes `logits` as `next` does.
  const std::vector<Candidate> &filter(float *logits, int64_t vocab,
                                       const std::vector<int32_t> &seen);

private:
  void adjust(float *logits, int64_t vocab, const std::vector<int32_t> &seen);
  void penalize(float *logits, int64_t vocab, const std::vector<int32_t> &seen);
  void keepTopK();
  void keepTopP();
  /// The candidate whose time is the first, of exponential random times with
  /// the weights as their rates: each is it with the share of its weight
  /// (Gumbel's maximum; Maddison et al., arXiv 1411.0030).
  int32_t first(uint64_t position) const;

  SamplingOptions options;
  size_t prompt;
  std::vector<Candidate> candidates;
  std::vector<bool> isSeen;
};

/// Whether all of `count` logits are finite; of others no token can be chosen.
bool areFinite(const float *logits, int64_t count);

/// The logarithm of a token's probability.
struct TokenLogprob {
  int32_t token;
  double logprob;
};
/// Those of `token` and then of the `top` likeliest, the likeliest first, by
/// the model's own logits [vocab].
std::vector<TokenLogprob> logprobsOf(const float *logits, int64_t vocab,
                                     int32_t token, int64_t top);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_SAMPLER_H
