//===- World.h - All ranks of a job, seen from one --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_WORLD_H
#define HEDDLE_RUNTIME_COMM_WORLD_H

#include "heddle/runtime/comm/Communicator.h"
#include "heddle/runtime/comm/Heartbeat.h"
#include "heddle/runtime/comm/Launcher.h"

#include <functional>

namespace heddle::rt {

/// The life of a rank among the others: `open`, `checkPlan`, `startHeartbeat`,
/// then steps, then `finish` or `fail`.
class World {
public:
  /// Connects with the other ranks that the launcher started, which have so
  /// many seconds to come.
  static std::unique_ptr<World> open(int joinSeconds);
  World(Launch launch, std::unique_ptr<Transport> transport);

  int rank() const { return link->rank(); }
  int size() const { return link->size(); }
  const Launch &launch() const { return started; }
  Transport &transport() { return *link; }

  /// Throws, on all ranks, H0222 when they do not all run the plan of this
  /// hash, and H0220 when the plan's mesh is not as large as the job.
  void checkPlan(const std::string &hash, const plan::Mesh &mesh);

  /// Hears, after it was printed, the error with which this process ends, and
  /// the rank that is missed (-1: the error is this rank's own or all ranks').
  /// It is called from any thread.
  using Witness = std::function<void(const Diagnostic &, int missing)>;
  /// To be set before the heartbeat is started.
  void setWitness(Witness newWitness) { witness = std::move(newWitness); }
  /// From now on a rank that is missed ends this process, whatever its other
  /// threads do.
  void startHeartbeat();
  void setActivity(int64_t step, std::string_view text) {
    if (heartbeat)
      heartbeat->setActivity(step, text);
  }

  /// The orderly end, which all ranks come to: after the last step, or after an
  /// error that each of them saw.
  void finish();
  /// Ends this process after an error that the others may not have seen; they
  /// are told. A broken connection (H0424) first gives the heartbeat time to
  /// say whose fault it is.
  [[noreturn]] void fail(const Diagnostic &diagnostic);
  /// Prints the error with which this process is about to end.
  void report(const Diagnostic &diagnostic, int missing = -1);

private:
  Launch started;
  Witness witness;
  std::unique_ptr<Transport> link;
  std::unique_ptr<Heartbeat> heartbeat;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_WORLD_H
