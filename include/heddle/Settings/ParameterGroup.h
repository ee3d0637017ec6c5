//===- ParameterGroup.h - Parameter groups of the optimizer -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameter groups of the optimizer, as `--group` gives them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_PARAMETERGROUP_H
#define HEDDLE_SETTINGS_PARAMETERGROUP_H

#include <optional>
#include <string>

namespace heddle::config {

/// Options of the parameters whose names match a pattern.
struct ParameterGroup {
  std::string pattern; ///< A regular expression, matched anywhere in a name.
  bool frozen = false;
  /// `lr` is a factor for the learning rate of the schedule. `weightDecay`
  /// replaces the weight decay of the optimizer. If one of them is empty, the
  /// group keeps the optimizer's learning rate or weight decay.
  std::optional<double> lr, weightDecay;
};

/// Parses `REGEX:frozen` or `REGEX:lr=X,weight_decay=Y`. For any other text
/// returns nullopt, and sets `wrong` to the reason.
std::optional<ParameterGroup> parseGroup(const std::string &text,
                                         std::string &wrong);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_PARAMETERGROUP_H
