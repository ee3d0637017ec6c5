//===- Pooling.cpp - Pool hidden states into an embedding -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pooling.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

const std::vector<std::pair<std::string, PoolingMode>>
    heddle::rt::poolingModes = {{"cls", PoolingMode::First},
                                {"max", PoolingMode::Maximum},
                                {"mean", PoolingMode::Mean},
                                {"mean_sqrt_len_tokens", PoolingMode::MeanSqrt},
                                {"weightedmean", PoolingMode::WeightedMean},
                                {"lasttoken", PoolingMode::Last}};

VectorStep heddle::rt::normalizeStep() {
  VectorStep step;
  step.name = "Normalize";
  step.normalizes = true;
  step.apply = [](std::vector<float> &vector) {
    double squares = 0;
    for (float value : vector)
      squares += double(value) * value;
    if (squares == 0)
      return;
    double scale = 1 / std::sqrt(squares);
    for (float &value : vector)
      value = float(value * scale);
  };
  return step;
}

int64_t Pooling::widthOf(int64_t width) const {
  int64_t made = width * int64_t(modes.size());
  for (const VectorStep &step : steps) {
    if (step.inputs != 0 && step.inputs != made)
      fail("H0378",
           step.name + " takes vectors of " + std::to_string(step.inputs) +
               " features, and those before it have " + std::to_string(made),
           "use the modules that were saved with these weights", step.location);
    if (step.outputs != 0)
      made = step.cuts ? std::min(made, step.outputs) : step.outputs;
  }
  return made;
}

/// Computes the sum of the tokens' hidden states with weights
/// `weightOf(token)`, divided by `divisor`.
template <typename WeightOf>
static void sum(const float *hidden, int64_t first, int64_t tokens,
                int64_t width, WeightOf weightOf, double divisor, float *out) {
  for (int64_t i = 0; i < width; ++i) {
    double total = 0;
    for (int64_t token = first; token < tokens; ++token)
      total += hidden[token * width + i] * weightOf(token);
    out[i] = first < tokens ? float(total / divisor) : 0;
  }
}

/// Pools tokens first..tokens-1 by one mode. If there are none, since all
/// tokens belong to the prompt, the result is 0 for the means and the maximum.
static void pool(PoolingMode mode, const float *hidden, int64_t first,
                 int64_t tokens, int64_t width, float *out) {
  const double count = double(tokens - first);
  auto one = [](int64_t) { return 1.0; };
  switch (mode) {
  case PoolingMode::First:
    std::copy_n(hidden + (first < tokens ? first : 0) * width, width, out);
    return;
  case PoolingMode::Last:
    std::copy_n(hidden + (tokens - 1) * width, width, out);
    return;
  case PoolingMode::Maximum:
    std::fill_n(out, width, 0.0f);
    for (int64_t token = first; token < tokens; ++token)
      for (int64_t i = 0; i < width; ++i) {
        float value = hidden[token * width + i];
        if (token == first || !(std::isnan(out[i]) || value <= out[i]))
          out[i] = value;
      }
    return;
  case PoolingMode::Mean:
    return sum(hidden, first, tokens, width, one, count, out);
  case PoolingMode::MeanSqrt:
    return sum(hidden, first, tokens, width, one, std::sqrt(count), out);
  case PoolingMode::WeightedMean:
    // Token i has the weight i + 1. The divisor is the sum of these weights,
    // from first + 1 to `tokens`.
    return sum(
        hidden, first, tokens, width,
        [](int64_t token) { return double(token + 1); },
        double(first + 1 + tokens) * count / 2, out);
  }
}

void Pooling::apply(const float *hidden, int64_t tokens, int64_t unpooled,
                    int64_t width, float *vector) const {
  const int64_t first = poolsPrompt ? 0 : std::min(unpooled, tokens);
  std::vector<float> made(width * modes.size());
  for (size_t i = 0; i < modes.size(); ++i)
    pool(modes[i], hidden, first, tokens, width, made.data() + i * width);
  for (const VectorStep &step : steps)
    step.apply(made);
  std::copy(made.begin(), made.end(), vector);
}
