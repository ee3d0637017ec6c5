//===- Sampler.cpp - Choosing the next token ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Sampler.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>
#include <cmath>

using namespace heddle::rt;

void Sampler::penalize(float *logits, int64_t vocab,
                       const std::vector<int32_t> &seen) {
  isPenalized.assign(vocab, false);
  for (int32_t token : seen) {
    if (token >= vocab || isPenalized[token])
      continue;
    isPenalized[token] = true;
    auto penalty = static_cast<float>(options.repetitionPenalty);
    logits[token] =
        logits[token] < 0 ? logits[token] * penalty : logits[token] / penalty;
  }
}

int32_t Sampler::next(float *logits, int64_t vocab,
                      const std::vector<int32_t> &seen) {
  if (options.repetitionPenalty != 1)
    penalize(logits, vocab, seen);
  if (options.temperature <= 0)
    return int32_t(std::max_element(logits, logits + vocab) - logits);

  candidates.clear();
  for (int64_t token = 0; token < vocab; ++token)
    candidates.push_back({int32_t(token), logits[token] / options.temperature});
  auto heavier = [](const Candidate &a, const Candidate &b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  std::sort(candidates.begin(), candidates.end(), heavier);
  if (options.topK > 0 && options.topK < vocab)
    candidates.resize(options.topK);
  double largest = candidates.front().weight;
  for (Candidate &candidate : candidates)
    candidate.weight = std::exp(candidate.weight - largest);
  keepTopP();
  // The likeliest comes first, and weighs 1.
  while (candidates.back().weight < options.minP)
    candidates.pop_back();

  double sum = 0;
  for (const Candidate &candidate : candidates)
    sum += candidate.weight;
  PhiloxWords words = philox(options.seed, drawn++, 0, 0);
  double place = (words[0] + words[1] / 4294967296.0) / 4294967296.0 * sum;
  for (const Candidate &candidate : candidates) {
    place -= candidate.weight;
    if (place < 0)
      return candidate.token;
  }
  return candidates.back().token;
}

/// Keeps the fewest of the likeliest whose probabilities reach top-p.
void Sampler::keepTopP() {
  if (options.topP >= 1)
    return;
  double sum = 0, reached = 0;
  for (const Candidate &candidate : candidates)
    sum += candidate.weight;
  size_t kept = 0;
  while (kept < candidates.size() &&
         (kept == 0 || reached < options.topP * sum))
    reached += candidates[kept++].weight;
  candidates.resize(kept);
}
