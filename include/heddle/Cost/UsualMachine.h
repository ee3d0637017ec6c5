//===- UsualMachine.h - Default figures of machines -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Default figures of machines, for plans whose user gives no cluster file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_USUALMACHINE_H
#define HEDDLE_COST_USUALMACHINE_H

#include "heddle/Cost/ClusterCost.h"

namespace heddle::cost {

/// A cluster of machines with 8 ranks each, enough for `ranks` ranks. Its
/// speeds are round figures, which only serve to compare plans with each other.
Cluster usualMachines(plan::DeviceKind device, int64_t ranks);

/// Returns `cluster` with a default figure for each speed that it does not
/// state.
Cluster withUsualTimes(Cluster cluster, plan::DeviceKind device);

} // namespace heddle::cost

#endif // HEDDLE_COST_USUALMACHINE_H
