//===- ChooseMesh.h - --mesh auto for serving -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses data and tensor ranks for `heddle compile --serve --mesh auto`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H
#define HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H

#include "CompileJob.h"
#include "heddle/Import/Parallel.h"

namespace heddle::driver {

/// The goal for which a mesh is chosen.
enum class Goal {
  Latency,   ///< The time between two tokens of one request.
  Throughput ///< Tokens per second with --max-batch requests.
};

/// Compiles plans of `job` and its draft for several meshes, and sets the best
/// mesh in the settings. It tries all numbers of tensor ranks that divide a
/// node of the cluster. For throughput it also tries all numbers of data groups
/// that divide the cluster and --max-batch. The cost model estimates the times
/// of the `decode` programs, which are printed. Throws H0137 if the mode is not
/// `serve` or the cluster file lacks a rate that the estimate needs, and H0138
/// if no mesh is possible.
void chooseMesh(CompileJob &job, const config::Cluster &cluster, Goal goal);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H
