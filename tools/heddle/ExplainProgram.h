//===- ExplainProgram.h - One program of a binary ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle explain --program NAME`, which describes one run of a
// program, and the list of all programs in `heddle explain`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINPROGRAM_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINPROGRAM_H

#include "heddle/Cost/ClusterCost.h"
#include "heddle/PlanFormat/Plan.h"

namespace heddle::driver {

/// Returns the program `name`; throws H0113 if the stage that is selected in
/// `plan` has none.
const plan::Program &programOf(const plan::Plan &plan, const std::string &name);

/// The number of kernels that the device launches in a run of a program. A
/// kernel of the plan can be several launches on a GPU.
struct ProgramLaunches {
  int64_t all = 0;
  int64_t ofLayer = 0; ///< In a call of the layer that is called most often.
};

/// Throws H0113 if the plan's selected stage has no program `name`.
ProgramLaunches countProgramLaunches(const plan::Plan &plan,
                                     const std::string &name);

/// Returns the number of sequences whose tokens a run of the program computes,
/// and the number of these tokens. Both are 0 for a program without ids.
std::pair<int64_t, int64_t> sizeOf(const plan::Program &program);

/// Describes the counts, for example `41 launches, 8 of them in each layer`.
std::string launchesText(const ProgramLaunches &launches);

/// Describes a run of a program: its launches, the bytes that it must move,
/// and, if the plan is for this machine's CPU, a lower bound of its time. The
/// bound of a launch is the time of its bytes or of its operations, whichever
/// is longer, at rates that this function measures. Throws H0113 if the plan's
/// selected stage has no program `name`.
nlohmann::json describeProgram(const plan::Plan &plan, const std::string &name);

/// Lists the programs of the plan's selected stage as JSON: name, kind, phase,
/// memory and what rank `rank` sends in a run; with `cost` also the seconds
/// that this takes.
nlohmann::json listPrograms(const plan::Plan &plan, int64_t rank,
                            const cost::ClusterCost *cost);

/// If the plan has several train programs, prints a table of them: in which
/// steps they run, their memory, and what rank `rank` sends in a step; with
/// `cost` also the time that this takes.
void printPhases(const plan::Plan &plan, int64_t rank,
                 const cost::ClusterCost *cost);

/// Prints what `describeProgram` returns.
void printProgram(const plan::Plan &plan, const std::string &name);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINPROGRAM_H
