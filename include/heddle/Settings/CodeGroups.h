//===- CodeGroups.h - Groups that share a scale -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_CODEGROUPS_H
#define HEDDLE_SETTINGS_CODEGROUPS_H

#include <algorithm>
#include <cstdint>
#include <string>

namespace heddle::config {

/// The longest group of up to 128 inputs, in whole words of codes, that divides
/// all weights whose inputs have this greatest common divisor; 0: there is
/// none.
inline int64_t groupThatDivides(int64_t commonInputs, int64_t perWord) {
  constexpr int64_t longest = 128;
  for (int64_t group = longest / perWord * perWord; group > 0; group -= perWord)
    if (commonInputs % group == 0)
      return group;
  return 0;
}

/// For "layers.0.mlp.up_proj.weight" the pattern "layers.*.mlp.up_proj.weight".
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

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_CODEGROUPS_H
