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

/// The participants of the communication: every rank, or one rank for each
/// pipeline stage.
struct Peers {
  Peers(const plan::Mesh &mesh, const std::vector<Trace> &traces);
  void findGroups();
  void findChannels();
  /// Prints a participant as `rank 3` or `stage 3`.
  std::string name(size_t who) const;
  /// Calls `act` for every communication of a participant, in order.
  void
  forEach(size_t who,
          const std::function<void(const Event &, const BodyRun &)> &act) const;

  /// The messages of one name from one participant to another.
  struct Channel {
    size_t from, to;
    std::string name;
  };

  plan::Mesh mesh;     ///< The mesh of all ranks.
  plan::Mesh peerMesh; ///< The mesh of the peers.
  const std::vector<Trace> &traces;
  bool byStage = false;
  /// Groups of at least two participants.
  std::vector<std::vector<int64_t>> groups;
  /// By participant and collective: the group, or -1 if it has one member.
  std::vector<std::vector<int64_t>> groupOf;
  std::vector<Channel> channels;
  /// By participant and body: its communication.
  std::vector<std::vector<std::vector<const Event *>>> events;
  /// By participant and message: the channel; -1 for a flush.
  std::vector<std::vector<int64_t>> channelOf;
};

/// Executes the step, and returns the cycle in which participants wait, if
/// there is one. Requires that what is sent is received, and that groups run
/// the same collectives.
std::optional<Fault> simulate(const Peers &peers);

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_SIMULATION_H
