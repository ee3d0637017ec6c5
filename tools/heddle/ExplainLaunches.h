//===- ExplainLaunches.h - Launches of steps that drop layers ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of `heddle explain` that says how many kernels and CUDA graphs a
// step launches, depending on the layers that it keeps.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINLAUNCHES_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINLAUNCHES_H

#include "heddle/PlanFormat/Plan.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// Adds the launches of a step of `program` to the JSON object `all`. Adds
/// nothing if steps drop no layers.
void addStepLaunches(nlohmann::json &all, const plan::Plan &plan,
                     const plan::Program &program);

/// Prints what `addStepLaunches` adds, as a table.
void printStepLaunches(const plan::Plan &plan, const plan::Program &program);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINLAUNCHES_H
