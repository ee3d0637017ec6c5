//===- ChooseMesh.h - --mesh auto of a binary that serves -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H
#define HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H

#include "CompileJob.h"
#include "heddle/Import/Parallel.h"

namespace heddle::driver {

/// What a mesh is chosen for.
enum class Goal {
  Latency,   ///< The least time between two tokens of one text.
  Throughput ///< The most tokens a second of --max-batch texts.
};

/// Plans `job`, with its draft, for each number of tensor ranks that divides a
/// node of the cluster and, for throughput, for each number of groups of these
/// that divides the cluster and --max-batch; takes the times of the model's
/// programs `decode` from the cost model, and gives the settings the mesh that
/// is best. Prints what each takes. Throws
/// H0137 where the mode or the cluster does not say enough, and H0138 where no
/// mesh is possible.
void chooseMesh(CompileJob &job, const config::Cluster &cluster, Goal goal);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H
