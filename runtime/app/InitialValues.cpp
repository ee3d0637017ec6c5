//===- InitialValues.cpp - Initial values of states -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/InitialValues.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

using plan::Init;

/// Hashes a state's name by FNV-1a. The hash chooses the state's random stream.
/// It is implemented here because the same seed must give the same values in
/// every version.
static uint32_t streamOf(const std::string &name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

void heddle::rt::fillNormal(float *values, int64_t first, int64_t count,
                            uint64_t seed, uint32_t site, double mean,
                            double stddev) {
  constexpr double scale = 1.0 / 4294967296.0;
  for (int64_t i = first; i < first + count;) {
    PhiloxWords words = philox(seed, uint64_t(i) / 4, 0, site);
    double normals[4];
    for (int pair = 0; pair < 2; ++pair) { // Box-Muller transform.
      double radius = std::sqrt(-2 * std::log((words[2 * pair] + 0.5) * scale));
      double angle = 2 * M_PI * scale * words[2 * pair + 1];
      normals[2 * pair] = radius * std::cos(angle);
      normals[2 * pair + 1] = radius * std::sin(angle);
    }
    for (int64_t word = i % 4; word < 4 && i < first + count; ++word, ++i)
      values[i - first] = float(mean + stddev * normals[word]);
  }
}

/// Zeroes a row of a state of shape `whole`, as far as `values` has its
/// elements. `values` has the elements [first, first + count) of the state.
static void zeroRow(int64_t row, const std::vector<int64_t> &whole,
                    int64_t first, int64_t count, float *values) {
  int64_t width = 1;
  for (size_t i = 1; i < whole.size(); ++i)
    width *= whole[i];
  int64_t begin = std::clamp<int64_t>(row * width - first, 0, count);
  int64_t end = std::clamp<int64_t>((row + 1) * width - first, 0, count);
  std::fill(values + begin, values + end, 0.0f);
}

void heddle::rt::initialValues(const Init &init, const std::string &name,
                               const std::vector<int64_t> &whole, uint64_t seed,
                               int64_t first, int64_t count, float *values) {
  if (init.kind == Init::Kind::Normal)
    fillNormal(values, first, count, seed, streamOf(name), init.value,
               init.stddev);
  else
    std::fill_n(values, count,
                init.kind == Init::Kind::Constant ? float(init.value)
                // Kind::Power is a state that holds beta^t after t updates. No
                // update was made yet, and beta^0 is 1.
                : init.kind == Init::Kind::Power ? 1.0f
                                                 : 0.0f);
  if (init.zeroRow >= 0)
    zeroRow(init.zeroRow, whole, first, count, values);
}
