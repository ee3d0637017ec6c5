//===- ExplainProgram.h - One program of a binary ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINPROGRAM_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINPROGRAM_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::driver {

/// What a program launches in a run, the bytes that the run must move, and how
/// long it takes at least on this machine, where the plan is for its CPU: each
/// launch as long as its bytes or its operations do at the rates measured now.
/// Throws H0113 when the plan's selected stage has no program `name`.
nlohmann::json describeProgram(const plan::Plan &plan, const std::string &name);

/// The same for people.
void printProgram(const plan::Plan &plan, const std::string &name);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINPROGRAM_H
