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

/// All participants of the communication: every rank of the mesh, or one rank
/// for each pipeline stage.
struct Peers {
  Peers(const plan::Mesh &mesh, const std::vector<Trace> &traces);
  void findGroups();
  void findChannels();
  /// Names a participant in error messages: `rank 3` or `stage 3`.
  std::string name(size_t who) const;
  /// Calls `act` for every collective and message of participant `who` (a rank
  /// or a pipeline stage), in the order of execution.
  void
  forEach(size_t who,
          const std::function<void(const Event &, const BodyRun &)> &act) const;

  /// All messages with one name that one participant sends to another.
  struct Channel {
    size_t from, to;
    std::string name;
  };

  plan::Mesh mesh; ///< The mesh of all ranks.
  /// The mesh of the participants: all ranks, or one for each stage.
  plan::Mesh peerMesh;
  const std::vector<Trace> &traces;
  bool byStage = false;
  /// The groups of at least two participants that run collectives together.
  std::vector<std::vector<int64_t>> groups;
  /// For each participant and each of its collectives, the index of the group
  /// that runs it. -1 if the group has only one member.
  std::vector<std::vector<int64_t>> groupOf;
  std::vector<Channel> channels;
  /// For each participant and each body of its trace (the commands of a loop,
  /// for example), the body's collectives and messages.
  std::vector<std::vector<std::vector<const Event *>>> events;
  /// For each participant and each of its messages, the index of the message's
  /// channel. -1 for a flush, which only waits for earlier sends.
  std::vector<std::vector<int64_t>> channelOf;
};

/// Simulates the collectives and messages of a step. If participants wait for
/// each other in a cycle, returns a fault that describes the cycle. Every
/// message must have a receive, and the members of a group must run the same
/// collectives.
std::optional<Fault> simulate(const Peers &peers);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H
