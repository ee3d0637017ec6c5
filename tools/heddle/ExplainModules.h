//===- ExplainModules.h - What the modules of a model cost ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle explain --modules`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_EXPLAINMODULES_H
#define HEDDLE_TOOLS_HEDDLE_EXPLAINMODULES_H

#include "heddle/PlanFormat/Plan.h"
#include <nlohmann/json.hpp>

namespace heddle::driver {

/// Describes the modules that are at most `depth` levels below the model: an
/// array with an entry for each, whose costs include those of the modules
/// inside of it. The costs are those of one run of the program `name`; "" means
/// the forward pass of one micro-batch. Throws H0113 if the stage that is
/// selected in `plan` has no such program.
nlohmann::json describeModules(const plan::Plan &plan, const std::string &name,
                               int64_t depth);

/// Prints what describeModules returns as a tree.
void printModules(const plan::Plan &plan, const std::string &name,
                  int64_t depth, int64_t rank);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_EXPLAINMODULES_H
