//===- World.h - The ranks of a job, from start to end ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Connects a rank to the other ranks of a job, checks that all of them run the
// same plan, and ends the job after its last step or after an error. The class
// Ranks (runtime/app) owns the World.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_WORLD_H
#define HEDDLE_RUNTIME_COMM_WORLD_H

#include "heddle/runtime/comm/Communicator.h"
#include "heddle/runtime/comm/Heartbeat.h"
#include "heddle/runtime/comm/Launcher.h"

#include <functional>

namespace heddle::rt {

/// This rank's connection with the other ranks of the job. The owner calls
/// `open`, `checkPlan` and `startHeartbeat`, then runs the steps, and then
/// calls `finish` or `fail`.
class World {
public:
  /// Connects to the other ranks that the launcher has started. Throws when
  /// that takes longer than `joinSeconds`.
  static std::unique_ptr<World> open(int joinSeconds);
  World(Launch launch, std::unique_ptr<Transport> transport);

  int rank() const { return link->rank(); }
  int size() const { return link->size(); }
  const Launch &launch() const { return started; }
  Transport &transport() { return *link; }

  /// Throws on all ranks: H0222 when they run plans with different hashes,
  /// H0220 when the plan's mesh has another size than the job.
  void checkPlan(const std::string &hash, const plan::Mesh &mesh);

  /// A callback for the error with which this process ends. It is called on any
  /// thread, after the error was printed. `missing` is the rank that died; -1
  /// if no rank died, or if all ranks failed.
  using Witness = std::function<void(const Diagnostic &, int missing)>;
  /// Must be called before startHeartbeat.
  void setWitness(Witness newWitness) { witness = std::move(newWitness); }
  /// From now on the death of another rank ends this process, whatever its
  /// other threads do.
  void startHeartbeat();
  void setActivity(int64_t step, std::string_view text) {
    if (heartbeat)
      heartbeat->setActivity(step, text);
  }

  /// Ends this rank's part of the job after the last step, or after an error
  /// that all ranks have seen. All ranks call this function, and wait for each
  /// other, before they close their connections.
  void finish();
  /// Ends this process after an error that the other ranks may not have seen,
  /// and tells the other ranks. If the error is a broken connection (H0424),
  /// first waits for the heartbeat, because it may detect which rank has died.
  [[noreturn]] void fail(const Diagnostic &diagnostic);
  /// Prints the error with which this process is about to end. Then calls the
  /// callback that setWitness has set. Its arguments are the error and
  /// `missing`: the rank that died, or -1 if no rank died or all ranks failed.
  void report(const Diagnostic &diagnostic, int missing = -1);

private:
  Launch started;
  Witness witness;
  std::unique_ptr<Transport> link;
  std::unique_ptr<Heartbeat> heartbeat;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_WORLD_H
