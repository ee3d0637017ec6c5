//===- Simulation.h - Whether ranks wait for each other ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H

#include "heddle/Transforms/Prove/Traces.h"
#include <functional>
#include <map>

namespace heddle::prove {

/// Those who talk: every rank, or one for each pipeline stage.
struct Peers {
  Peers(const plan::Mesh &mesh, const std::vector<Trace> &traces);
  void findGroups();
  void findChannels();
  /// As `rank 3` or `stage 3`.
  std::string name(size_t who) const;
  /// Everything that communicates, in order.
  void
  forEach(size_t who,
          const std::function<void(const Event &, const BodyRun &)> &act) const;

  /// Messages of one name from one participant to another.
  struct Channel {
    size_t from, to;
    std::string name;
  };

  plan::Mesh mesh;     ///< Of all ranks.
  plan::Mesh peerMesh; ///< Of the peers.
  const std::vector<Trace> &traces;
  bool byStage = false;
  std::vector<std::vector<int64_t>> groups; ///< Of more than one participant.
  /// For each participant and each of its collectives the group, or -1.
  std::vector<std::vector<int64_t>> groupOf;
  std::vector<Channel> channels;
  /// For each participant and each body, what communicates.
  std::vector<std::vector<std::vector<const Event *>>> events;
  /// For each participant and each message the channel; -1: of a flush.
  std::vector<std::vector<int64_t>> channelOf;
};

/// Executes the step; the circle in which peers wait, if there is one.
/// What is sent is received, and groups run the same collectives.
std::optional<Fault> simulate(const Peers &peers);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H
