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

/// The first change for which `fits` says so, of those with which a plan may
/// need less memory. They leave mesh and global batch as they
/// are. What costs least is asked for first: in training ZeRO 1 and 2, fewer
/// rows at a time, recomputation, ZeRO 3, states and activations elsewhere, all
/// of that together, and bf16, which changes numbers; in serving fewer texts at
/// a time, then narrower types. After `time` only the last one is asked for,
/// which needs least.
Smaller findSmaller(const config::Settings &settings,
                    const std::function<bool(const Change &)> &fits,
                    std::chrono::nanoseconds time = searchTime);

/// What is not in the device's memory, as --place takes it; "": nothing.
std::string placesOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
