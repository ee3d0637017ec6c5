//===- ChooseMesh.h - --mesh auto for serving -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the numbers of data and tensor ranks for `heddle compile --serve
// --mesh auto`.
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

/// Compiles plans of `job` and its draft model for several meshes, and sets the
/// best mesh in the settings. Tries all numbers of tensor ranks that divide the
/// number of ranks of a node. For throughput, also tries several data ranks
/// (groups of tensor ranks): all numbers of data ranks that divide both
/// --max-batch and the largest number of data ranks that the cluster has room
/// for. Compares the meshes by the times that the cost model estimates for the
/// programs `decode`, which compute one token of each request, and prints these
/// times. Throws H0137 if the mode is not `serve`, or if the cluster file lacks
/// a rate that the estimate needs. Throws H0138 if no mesh is possible.
void chooseMesh(CompileJob &job, const config::Cluster &cluster, Goal goal);

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_CHOOSEMESH_H
