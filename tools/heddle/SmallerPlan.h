//===- SmallerPlan.h - Searches flags that need less memory -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches flags with which a plan needs less memory. `heddle compile` proposes
// them if a plan exceeds its memory budgets.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
#define HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H

#include "heddle/Import/Settings.h"
#include <chrono>
#include <functional>
#include <optional>

namespace heddle::driver {

/// A change of settings, as flags that replace flags of the same name.
struct Change {
  std::vector<std::pair<std::string, std::string>> flags;

  /// The flags as text, such as `--zero 1 --recompute full`.
  std::string text() const;
  /// The flags `given` with the change applied.
  config::Flags on(config::Flags given) const;
};

/// The result of a search.
struct Smaller {
  std::string flags; ///< The change's flags, or "".
  bool isCheapest;   ///< Whether all cheaper changes were tried.
};

/// The time limit of a search. The search may exceed it by up to two
/// compilations.
constexpr std::chrono::seconds searchTime(20);

/// The seconds of a step with a change; nothing if the plan does not fit.
using CostOf = std::function<std::optional<double>(const Change &)>;

/// Finds the cheapest change with which the plan fits. The mesh and the global
/// batch stay. In training, it first tries to change one thing: ZeRO, the
/// micro-batch, recomputation, or offloading of states or activations. For each
/// setting it takes the first value that fits, since later values make a step
/// slower. If no single change fits, it changes everything, and then undoes
/// what is not needed. bf16 comes last, since it changes results. In serving,
/// it takes the first change that fits: fewer requests at a time, then narrower
/// types. After `time`, it stops if a change fits; otherwise it only tries the
/// change that needs the least memory.
Smaller findSmaller(const config::Settings &settings, const CostOf &costOf,
                    std::chrono::nanoseconds time = searchTime);

/// The offloaded states, as the value of --place; "" if there are none.
std::string offloadsOf(const config::Settings &settings);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_SMALLERPLAN_H
