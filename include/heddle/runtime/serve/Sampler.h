//===- Sampler.h - Choose the next token ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples the next token from logits: penalties, temperature, top-k, top-p,
// min-p. Reproducible for a seed, on any number of threads and ranks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_SAMPLER_H
#define HEDDLE_RUNTIME_SERVE_SAMPLER_H

#include <cstdint>
#include <utility>
#include <vector>

namespace heddle::rt {

/// Parameters of sampling. The defaults are greedy.
struct SamplingOptions {
  double temperature = 0; ///< 0: the likeliest token is always chosen.
  int64_t topK = 0;       ///< Number of likeliest tokens that are kept; 0: all.
  double topP = 1;
  uint64_t seed = 0;
  double minP = 0; ///< Least probability, relative to the likeliest token's.
  /// Penalty of tokens that occur in the prompt or the output: their positive
  /// logits are divided by this number, and their negative logits multiplied by
  /// it (Keskar et al., arXiv 1909.05858).
  double repetitionPenalty = 1;
  /// If a token was generated n > 0 times, presencePenalty + n *
  /// frequencyPenalty is subtracted from its logit, as in OpenAI's API. Prompt
  /// tokens do not count.
  double presencePenalty = 0, frequencyPenalty = 0;
  /// Token ids, and what is added to their logits.
  std::vector<std::pair<int32_t, double>> bias = {};
  /// The index of the sequence among the sequences that share a seed, so that
  /// they get different random numbers.
  uint32_t stream = 0;
};

/// Samples tokens in the order of Hugging Face's processors: bias, penalties,
/// temperature, top-k, top-p, min-p. Seed, stream and position determine one
/// random number for each token of the vocabulary. So equal logits give the
/// same token, and almost equal logits almost always do.
class Sampler {
public:
  /// `prompt` is the number of prompt tokens. The argument `seen` of the
  /// methods begins with these tokens, and generated tokens follow.
  explicit Sampler(const SamplingOptions &options, size_t prompt = 0)
      : options(options), prompt(prompt) {}
  /// Samples the token that follows the tokens `seen`. The logits must be
  /// finite. Bias and penalties are applied to `logits` in place.
  int32_t next(float *logits, int64_t vocab, const std::vector<int32_t> &seen);

  struct Candidate {
    int32_t token;
    double weight; ///< Relative to the likeliest token's, which is 1.
  };
  /// Returns the tokens that `next` can sample after the tokens `seen` if the
  /// temperature is above 0. The result is valid until the next call. Bias and
  /// penalties are applied to `logits` in place.
  const std::vector<Candidate> &filter(float *logits, int64_t vocab,
                                       const std::vector<int32_t> &seen);

private:
  void adjust(float *logits, int64_t vocab, const std::vector<int32_t> &seen);
  void penalize(float *logits, int64_t vocab, const std::vector<int32_t> &seen);
  void keepTopK();
  void keepTopP();
  /// Samples a candidate with a probability in proportion to its weight. For
  /// each candidate an exponentially distributed time is drawn, whose rate is
  /// the weight, and the candidate with the earliest time is chosen (Gumbel-max
  /// trick; Maddison et al., arXiv 1411.0030).
  int32_t first(uint64_t position) const;

  SamplingOptions options;
  size_t prompt;
  std::vector<Candidate> candidates;
  std::vector<bool> isSeen;
};

/// Whether all of `count` logits are finite. Nothing can be sampled otherwise.
bool areFinite(const float *logits, int64_t count);

/// A token with its log probability.
struct TokenLogprob {
  int32_t token;
  double logprob;
};
/// Returns the log probabilities of `token` and then of the `top` likeliest
/// tokens, likeliest first, by the model's unchanged logits [vocab].
std::vector<TokenLogprob> logprobsOf(const float *logits, int64_t vocab,
                                     int32_t token, int64_t top);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_SAMPLER_H
