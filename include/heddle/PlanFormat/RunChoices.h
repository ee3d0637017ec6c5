//===- RunChoices.h - What a run chooses of a plan --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_RUNCHOICES_H
#define HEDDLE_PLANFORMAT_RUNCHOICES_H

#include "heddle/PlanFormat/Plan.h"

#include <string_view>

namespace heddle::plan {

/// Inputs of a training step that are numbers of a run, beside the learning
/// rate: ports of the role Value with these names.
inline constexpr char weightDecayPort[] = "weight_decay";
inline constexpr char maxNormPort[] = "max_norm";
inline bool isRunNumber(std::string_view name) {
  return name == weightDecayPort || name == maxNormPort;
}

/// Who owns the scratch memory of a CPU's threads, and what of the arena nobody
/// owns when most is used.
inline constexpr char scratchOwner[] = "scratch of threads";
inline constexpr char unusedOwner[] = "not used at the peak";

/// Gives the arena of the selected stage scratch memory for so many threads.
void setThreads(Plan &plan, int64_t threads);

/// A key of `Plan::strategy`: nobody chose the threads, they are the cores of
/// the machine that compiled.
inline constexpr char threadsOfMachineKey[] = "threads_of_machine";
bool hasThreadsOfMachine(const Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_RUNCHOICES_H
