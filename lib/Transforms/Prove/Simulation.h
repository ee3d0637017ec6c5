//===- Simulation.h - Simulates the communication of ranks ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used by `checkAgreement`: it matches the participants' collectives and
// messages, then executes them to find deadlocks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H

#include "heddle/Transforms/Prove/Traces.h"
#include <functional>
#include <map>

namespace heddle::prove {

/// All ranks that communicate: every rank of the mesh, or one rank for each
/// pipeline stage.
struct Peers {
  Peers(const plan::Mesh &mesh, const std::vector<Trace> &traces);
  void findGroups();
  void findChannels();
  /// Names a participant in messages: `rank 3` or `stage 3`.
  std::string name(size_t who) const;
  /// Calls `act` for every collective and message of a participant, in the
  /// order of execution.
  void
  forEach(size_t who,
          const std::function<void(const Event &, const BodyRun &)> &act) const;

  /// All messages of one name from one participant to another.
  struct Channel {
    size_t from, to;
    std::string name;
  };

  plan::Mesh mesh;     ///< The mesh of all ranks.
  plan::Mesh peerMesh; ///< The mesh of the participants alone.
  const std::vector<Trace> &traces;
  bool byStage = false;
  /// The groups that run collectives, if they have at least two participants.
  std::vector<std::vector<int64_t>> groups;
  /// The group of each collective, by participant and collective; -1 if the
  /// group has one member.
  std::vector<std::vector<int64_t>> groupOf;
  std::vector<Channel> channels;
  /// The collectives and messages of each body, by participant.
  std::vector<std::vector<std::vector<const Event *>>> events;
  /// The channel of each message, by participant and message; -1 for a flush.
  std::vector<std::vector<int64_t>> channelOf;
};

/// Simulates the collectives and messages of a step. Returns a fault that
/// describes the cycle of waiting participants if they deadlock. Requires that
/// every message is received, and that the members of a group run the same
/// collectives.
std::optional<Fault> simulate(const Peers &peers);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H
