//===- SmallerPlan.h - What makes a plan need less memory -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
#define HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H

#include "heddle/Import/Settings.h"
#include <chrono>
#include <functional>
#include <optional>

namespace heddle::driver {

/// Other settings, as flags that replace those of the same name.
struct Change {
  std::vector<std::pair<std::string, std::string>> flags;

  /// As `--zero 1 --recompute full`.
  std::string text() const;
  /// `given` and the change.
  config::Flags on(config::Flags given) const;
};

/// What a search for a change found.
struct Smaller {
  std::string flags; ///< Of the change; or "".
  bool isCheapest;   ///< Whether there was time for all that cost less.
};

/// How long a search takes, and at most two plans longer.
constexpr std::chrono::seconds searchTime(20);

/// The seconds of a step with the change; nothing if the plan does not fit.
using CostOf = std::function<std::optional<double>(const Change &)>;

/// The cheapest change that fits, of those with which a plan may need less
/// memory. They leave mesh and global batch as they are. In training one thing
/// is changed: ZeRO, the rows at a time, recomputation, or where states and
/// activations are; of each, what fits first is asked for and no more, since
/// further changes of that kind take longer. If none fits, all is changed, and
/// what can be is taken back. bf16, which changes numbers, comes last. In
/// serving the first that fits counts: fewer texts at a time, then narrower
/// types. After `time` nothing more is asked for, but for what needs least if
/// nothing has fit.
Smaller findSmaller(const config::Settings &settings, const CostOf &costOf,
                    std::chrono::nanoseconds time = searchTime);

/// What is not in the device's memory, as --place takes it; "": nothing.
std::string offloadsOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
