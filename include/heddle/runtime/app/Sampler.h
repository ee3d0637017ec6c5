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
};

/// Draws tokens as Hugging Face does: temperature, then top-k, then top-p. The
/// same seed draws the same tokens from the same logits.
class Sampler {
public:
  explicit Sampler(const SamplingOptions &options) : options(options) {}
  int32_t next(const float *logits, int64_t vocab);

private:
  struct Candidate {
    int32_t token;
    double weight;
  };
  void keepTopP();

  SamplingOptions options;
  uint64_t drawn = 0;
  std::vector<Candidate> candidates;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SAMPLER_H
