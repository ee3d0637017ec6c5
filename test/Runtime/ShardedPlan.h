//===- ShardedPlan.h - The bigram model on several ranks --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_SHARDEDPLAN_H
#define HEDDLE_TEST_RUNTIME_SHARDEDPLAN_H

#include "heddle/PlanFormat/Plan.h"

namespace heddle::test {

/// The model of makeBigramPlan on two data ranks: each takes half of the rows,
/// and keeps half of a flat tensor of which the table, its copy and its moments
/// are a member each.
plan::Plan makeShardedPlan();

/// The same on two pipeline stages: the first reads the inputs and sends them
/// to the second, which has the labels and all states.
plan::Plan makePipelinedPlan();

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_SHARDEDPLAN_H
