//===- PredictProgram.h - The time of a program on a GPU --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_PREDICTPROGRAM_H
#define HEDDLE_TOOLS_HEDDLE_PREDICTPROGRAM_H

#include "heddle/PlanFormat/Plan.h"

#include <nlohmann/json.hpp>

namespace heddle::driver {

/// Predicts the time of one run of a program that serves, from the kernels that
/// `describeLaunches` describes. Each sequence has `context` positions, or with
/// 0 as many as the plan allows. Returns null if the program has no cache, or
/// if no GPU of the plan's target is known.
nlohmann::json predictProgram(const plan::Plan &plan,
                              const plan::Program &program,
                              const nlohmann::json &kernels, int64_t context);

/// Prints what `predictProgram` returns, unless it is null.
void printPrediction(const nlohmann::json &predicted);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_PREDICTPROGRAM_H
