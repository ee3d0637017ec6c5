//===- ReportData.h - The figures of a report's plan ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the page of `heddle report` shows of a plan, as data and as pictures.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_REPORTDATA_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_REPORTDATA_H

#include "ExplainPlan.h"
#include "MemoryTimeline.h"

namespace heddle::driver {

/// Ranks for which `heddle explain --json` prints the same figures, apart from
/// their numbers.
struct RankClass {
  std::vector<int64_t> ranks; ///< In ascending order.
  std::vector<int64_t> stages;
  nlohmann::json explained; ///< Of the first rank.

  /// The ranks as ranges: `0-3, 8-11`.
  std::string text() const;
};

/// Groups the ranks of a plan. The class whose ranks need most memory is first.
/// `plan` is left with another stage selected.
std::vector<RankClass> classesOf(plan::Plan &plan,
                                 const cost::Cluster *cluster);

/// Returns the timelines of all programs of the stage that `plan` has selected,
/// and of the sequences that they call.
std::vector<ProgramTimeline> timelinesOf(const plan::Plan &plan);

/// Describes the states of the stage that `plan` has selected. States of layers
/// that differ in nothing but the number of the layer share an entry.
nlohmann::json describeStates(const plan::Plan &plan);

/// Describes the modules of all stages, folded as the states are. With a
/// cluster that states rates, `seconds` is the time of a module's kernels in a
/// step. `measured` has the measured times (see MeasuredStage::modules). `plan`
/// is left with another stage selected.
nlohmann::json
describeModulesOfStages(plan::Plan &plan, const cost::Cluster *cluster,
                        const std::map<std::string, double> &measured);

/// Returns the command line that compiles such a plan, made from its settings.
/// It reads the settings of strategyOf from a file `strategy.json`.
std::string commandOf(const plan::Plan &plan, bool isRedacted);

/// Returns the settings of the plan that no flag of commandOf gives, such as
/// those of an optimizer, as the content of a strategy file.
nlohmann::json strategyOf(const plan::Plan &plan, bool isRedacted);

/// Returns the settings of the plan that differ from their defaults. If
/// `isRedacted`, without paths.
nlohmann::json settingsOf(const plan::Plan &plan, bool isRedacted);

/// Returns the budget of a kind of memory of a rank: that of --memory-budget,
/// or else the size of the cluster's device memory; 0 if none is known.
int64_t budgetOf(const plan::Plan &plan, plan::MemoryKind kind,
                 const cost::Cluster *cluster);

/// Replaces the numbers in a path by `*`, such as `h.*.attn` for `h.3.attn`.
std::string patternOf(const std::string &path);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_REPORTDATA_H
