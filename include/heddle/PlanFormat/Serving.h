//===- Serving.h - Groups of ranks that serve -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups of ranks in a serving binary: each group generates its own sequences.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_SERVING_H
#define HEDDLE_PLANFORMAT_SERVING_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::plan {

/// The number of groups of ranks. The ranks of a group together have one copy
/// of the weights.
int64_t groupsOf(const Plan &plan);
/// The axes along which ranks belong to different groups: `data`. None if the
/// weights are split along `data`, because the ranks then form a single group.
AxisNames groupAxes(const Plan &plan);

/// Returns words to write after the size of a cache, which say that each group
/// of ranks has such a cache; empty for one group.
std::string inEachGroup(const Plan &plan);

/// A text for people. It says how many sequences of which length all groups
/// generate at a time, and how many pages of cache each group has. Empty if the
/// binary has no cache.
std::string describeServing(const Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_SERVING_H
