//===- UsualMachine.h - Figures where no cluster file has any ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_COST_USUALMACHINE_H
#define HEDDLE_COST_USUALMACHINE_H

#include "heddle/Cost/ClusterCost.h"

namespace heddle::cost {

/// Machines of 8 ranks, as many as `ranks` need, with round figures: what they
/// are good for is to compare plans with each other.
Cluster usualMachines(plan::DeviceKind device, int64_t ranks);

/// The cluster, and where it does not say how fast something is, as the usual
/// machines have it.
Cluster withUsualTimes(Cluster cluster, plan::DeviceKind device);

} // namespace heddle::cost

#endif // HEDDLE_COST_USUALMACHINE_H
