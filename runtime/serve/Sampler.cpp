//===- Sampler.cpp - Choose the next token --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Filters and samples tokens from logits.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Sampler.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle::rt;

static bool isHeavier(const Sampler::Candidate &a,
                      const Sampler::Candidate &b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

void Sampler::adjust(float *logits, int64_t vocab,
                     const std::vector<int32_t> &seen) {
  for (auto [token, bias] : options.bias)
    logits[token] += float(bias);
  if (options.repetitionPenalty != 1)
    penalize(logits, vocab, seen);
  if (options.presencePenalty == 0 && options.frequencyPenalty == 0)
    return;
  isSeen.assign(vocab, false);
  for (size_t i = prompt; i < seen.size(); ++i) {
    int32_t token = seen[i];
    if (token >= vocab)
      continue;
    double penalty = options.frequencyPenalty +
                     (isSeen[token] ? 0 : options.presencePenalty);
    isSeen[token] = true;
    logits[token] -= float(penalty);
  }
}

/// Applies the penalties of tokens that have occurred.
void Sampler::penalize(float *logits, int64_t vocab,
                       const std::vector<int32_t> &seen) {
  isSeen.assign(vocab, false);
  for (int32_t token : seen) {
    if (token >= vocab || isSeen[token])
      continue;
    isSeen[token] = true;
    auto penalty = static_cast<float>(options.repetitionPenalty);
    logits[token] =
        logits[token] < 0 ? logits[token] * penalty : logits[token] / penalty;
  }
}

int32_t Sampler::next(float *logits, int64_t vocab,
                      const std::vector<int32_t> &seen) {
  if (options.temperature <= 0) {
    adjust(logits, vocab, seen);
    return int32_t(std::max_element(logits, logits + vocab) - logits);
  }
  filter(logits, vocab, seen);
  return first(seen.size());
}

int32_t Sampler::first(uint64_t position) const {
  Candidate found = {candidates.front().token, 0};
  double least = std::numeric_limits<double>::infinity();
  PhiloxWords words = {};
  uint32_t known = ~0u; // Block of random numbers that `words` has.
  for (const Candidate &candidate : candidates) {
    auto token = static_cast<uint32_t>(candidate.token);
    if (token / 4 != known) {
      known = token / 4;
      words = philox(options.seed, position, options.stream, known);
    }
    double uniform = (words[token % 4] + 0.5) / 4294967296.0;
    // The candidate with the least `time` is sampled. Since -log(x) >= 1 - x,
    // the `time` of a candidate that this test skips is above `least`. The test
    // saves most logarithms.
    if (1 - uniform > least * candidate.weight)
      continue;
    double time = -std::log(uniform) / candidate.weight;
    if (time > least || (time == least && candidate.token > found.token))
      continue;
    least = time;
    found = candidate;
  }
  return found.token;
}

const std::vector<Sampler::Candidate> &
Sampler::filter(float *logits, int64_t vocab,
                const std::vector<int32_t> &seen) {
  adjust(logits, vocab, seen);
  double largest = *std::max_element(logits, logits + vocab);
  candidates.resize(vocab);
  for (int64_t token = 0; token < vocab; ++token)
    candidates[token] = {int32_t(token), std::exp((logits[token] - largest) /
                                                  options.temperature)};
  keepTopK();
  keepTopP();
  auto isTooLight = [&](const Candidate &candidate) {
    return candidate.weight < options.minP;
  };
  if (options.minP > 0)
    candidates.erase(
        std::remove_if(candidates.begin(), candidates.end(), isTooLight),
        candidates.end());
  return candidates;
}

/// Keeps the K likeliest tokens, and those as likely as the K-th.
void Sampler::keepTopK() {
  if (options.topK <= 0 || options.topK >= int64_t(candidates.size()))
    return;
  auto last = candidates.begin() + options.topK - 1;
  std::nth_element(candidates.begin(), last, candidates.end(), isHeavier);
  double least = last->weight;
  auto end = std::partition(
      last + 1, candidates.end(),
      [&](const Candidate &candidate) { return candidate.weight == least; });
  candidates.erase(end, candidates.end());
  std::sort(candidates.begin(), candidates.end(), isHeavier);
}

/// Keeps the fewest likeliest tokens whose probabilities add up to top-p or
/// more.
void Sampler::keepTopP() {
  if (options.topP >= 1)
    return;
  double sum = 0, reached = 0;
  for (const Candidate &candidate : candidates)
    sum += candidate.weight;
  // Usually few tokens are kept, so sort only as many as needed.
  size_t kept = 0, sorted = 0;
  while (kept < candidates.size() &&
         (kept == 0 || reached < options.topP * sum)) {
    if (kept == sorted) {
      auto begin = candidates.begin() + sorted;
      sorted = std::min(candidates.size(), std::max<size_t>(64, 2 * sorted));
      std::partial_sort(begin, candidates.begin() + sorted, candidates.end(),
                        isHeavier);
    }
    reached += candidates[kept++].weight;
  }
  candidates.resize(kept);
}

bool heddle::rt::areFinite(const float *logits, int64_t count) {
  // A float is infinite or NaN if all bits of its exponent are set. The
  // compiler can vectorize this test.
  constexpr uint32_t exponent = 0x7F800000;
  uint32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, logits + i, sizeof bits);
    found |= uint32_t((bits & exponent) == exponent);
  }
  return found == 0;
}

std::vector<TokenLogprob> heddle::rt::logprobsOf(const float *logits,
                                                 int64_t vocab, int32_t token,
                                                 int64_t top) {
  double largest = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i)
    sum += std::exp(logits[i] - largest);
  double offset = largest + std::log(sum);
  std::vector<int32_t> order(vocab);
  for (int64_t i = 0; i < vocab; ++i)
    order[i] = int32_t(i);
  top = std::min(top, vocab);
  std::partial_sort(order.begin(), order.begin() + top, order.end(),
                    [&](int32_t a, int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  std::vector<TokenLogprob> result = {{token, logits[token] - offset}};
  for (int64_t i = 0; i < top; ++i)
    result.push_back({order[i], logits[order[i]] - offset});
  return result;
}
