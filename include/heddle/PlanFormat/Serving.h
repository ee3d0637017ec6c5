//===- Serving.h - What a binary that serves has room for -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_SERVING_H
#define HEDDLE_PLANFORMAT_SERVING_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::plan {

/// Ranks that share one copy of the weights are a group; how many there are.
int64_t groupsOf(const Plan &plan);
/// The axes along which ranks are in different groups: `data`, or none where
/// the weights are split along it.
AxisNames groupAxes(const Plan &plan);

/// What stands behind the size of a cache; empty where there is one group.
std::string inEachGroup(const Plan &plan);

/// How many texts of which length all groups continue together, and the pages
/// that each group has for them; empty where the plan has no cache.
std::string describeServing(const Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_SERVING_H
