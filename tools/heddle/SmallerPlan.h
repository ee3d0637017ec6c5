//===- SmallerPlan.h - Searches flags that need less memory -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches for flags with which a plan needs less memory. If a plan exceeds its
// memory budgets, `heddle compile` prints these flags.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
#define HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H

#include "heddle/Import/Settings.h"
#include <chrono>
#include <functional>
#include <optional>

namespace heddle::driver {

/// A change of settings, as a set of flags. They replace flags of the same
/// names.
struct Change {
  std::vector<std::pair<std::string, std::string>> flags;

  /// The flags as text, such as `--zero 1 --recompute full`.
  std::string text() const;
  /// Returns the flags `given` after the change is applied to them.
  config::Flags on(config::Flags given) const;
};

/// The result of a search for a change with which a plan fits.
struct Smaller {
  std::string flags; ///< The change's flags, or "".
  bool isCheapest;   ///< Whether all cheaper changes were tried.
};

/// The time limit of a search. A search may take longer by up to two
/// compilations: it completes the one that is running, and may try one last
/// change.
constexpr std::chrono::seconds searchTime(20);

/// Returns the seconds of a step with a change. Returns nothing if the plan
/// with this change does not fit the memory.
using CostOf = std::function<std::optional<double>(const Change &)>;

/// Finds the change with which the plan fits and a step takes the least time.
/// The mesh and the global batch stay.
///
/// For a training, it first tries to change only one thing: ZeRO, the
/// micro-batch, recomputation, or offloading of states or of activations. Of
/// each, it takes the first value that fits, since later values make a step
/// slower. If no such change fits, it changes everything, and then undoes what
/// is not needed. It tries bf16 last, since bf16 changes results. For serving,
/// it takes the first change that fits: fewer requests at a time, then narrower
/// types.
///
/// When `time` is over, the search stops if it has found a change that fits.
/// Otherwise it only tries the change that needs the least memory.
Smaller findSmaller(const config::Settings &settings, const CostOf &costOf,
                    std::chrono::nanoseconds time = searchTime);

/// Returns the value of --place that describes which states are offloaded.
/// Returns "" if none are.
std::string offloadsOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
