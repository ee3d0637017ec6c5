//===- QuantizeGroups.h - Groups that divide weights ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds a size of quantization groups (inputs that share a scale) that divides
// the number of inputs of each quantized weight. Error messages about
// --quantize-group suggest it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_QUANTIZEGROUPS_H
#define HEDDLE_SETTINGS_QUANTIZEGROUPS_H

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace heddle::config {

/// Replaces layer numbers by `*`: "layers.*.mlp.up_proj.weight" for
/// "layers.0.mlp.up_proj.weight".
inline std::string patternOfLayers(const std::string &name) {
  std::string pattern;
  for (size_t i = 0; i < name.size();) {
    size_t end = std::min(name.find('.', i), name.size());
    bool isNumber = end > i && name.find_first_not_of("0123456789", i) >= end;
    pattern += isNumber ? "*" : name.substr(i, end - i);
    if (end < name.size())
      pattern += '.';
    i = end + 1;
  }
  return pattern;
}

/// A weight that the user wants quantized.
struct QuantizeCandidate {
  std::string name;
  int64_t inputs = 0;
  /// Whether the weight can be quantized with some group size.
  bool canBe = true;

  bool isDividedBy(int64_t group) const {
    return canBe && (group == 0 || inputs % group == 0);
  }
};

/// Returns flags with which all weights can be quantized. A group size fits a
/// weight if it divides the weight's inputs. If no size fits all weights, the
/// flags choose the one that fits the most weights, and keep the other weights
/// in 16 bits. A group size is a multiple of `perWord`, the number of codes in
/// a word. `asked` is the user's group size, which does not fit all weights.
inline std::string
flagsToQuantize(const std::vector<QuantizeCandidate> &weights, int64_t perWord,
                int64_t asked) {
  auto leftBy = [&](int64_t group) {
    return std::count_if(weights.begin(), weights.end(),
                         [&](const QuantizeCandidate &weight) {
                           return !weight.isDividedBy(group);
                         });
  };
  constexpr int64_t longest = 128;
  int64_t best = asked;
  for (int64_t group = longest; group >= perWord; group -= perWord)
    if (leftBy(group) < leftBy(best))
      best = group;
  std::string flags;
  if (best != asked)
    flags = "--quantize-group " + std::to_string(best);
  std::set<std::string> kept;
  for (const QuantizeCandidate &weight : weights)
    if (!weight.isDividedBy(best))
      kept.insert(patternOfLayers(weight.name));
  for (const std::string &pattern : kept)
    flags += (flags.empty() ? "" : " ") + ("--keep-16bit '" + pattern + "'");
  return flags;
}

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_QUANTIZEGROUPS_H
