//===- GridLaunchJson.h - Launches as JSON ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_GRIDLAUNCHJSON_H
#define HEDDLE_RUNTIME_CORE_GRIDLAUNCHJSON_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::plan {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GridLaunch, symbol, grid, block, cluster,
                                   sharedBytes)

} // namespace heddle::plan

#endif // HEDDLE_RUNTIME_CORE_GRIDLAUNCHJSON_H
