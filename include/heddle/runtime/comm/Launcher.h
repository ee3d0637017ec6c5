//===- Launcher.h - Who started this process, and the ranks -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_LAUNCHER_H
#define HEDDLE_RUNTIME_COMM_LAUNCHER_H

#include "heddle/runtime/comm/Transport.h"

#include <functional>

namespace heddle::rt {

/// What the environment says of the job that this process is part of.
struct Launch {
  enum class Kind {
    Alone,   ///< No launcher: a world of one; no MPI is loaded.
    OpenMpi, ///< Through Open MPI's library.
    Mpich,   ///< Through MPICH's, or one with its ABI.
    Tcp,     ///< Sockets; rank 0 is met at `address`:`port`.
  } kind = Kind::Alone;
  std::string launcher = "none"; ///< As "torchrun", for messages.
  int rank = 0;
  int size = 1;
  int localRank = 0; ///< Among the ranks on this machine.
  int localSize = 1; ///< So many are there; 1 where nothing says it.
  std::string address;
  int port = 0;
  std::string job;      ///< Tells jobs apart that meet at the same place.
  int joinSeconds = 60; ///< How long ranks over TCP wait for each other.
};

/// Looks for, in this order: torchrun, mpirun of Open MPI, mpirun of MPICH,
/// RANK with WORLD_SIZE and MASTER_ADDR, and a step of srun. `variable` is as
/// std::getenv. Throws H0224 for variables that make no sense.
Launch detectLaunch(const std::function<const char *(const char *)> &variable);
Launch detectLaunch();

/// Connects this rank with the others. Throws H0221 when the MPI library is
/// not installed, H0223 when this binary was built without its plug-in, H0225
/// when the ranks do not meet.
std::unique_ptr<Transport> openTransport(const Launch &launch);

/// The parts of `openTransport`. Under srun, an MPI that is not there is no
/// error: sockets take its place.
std::unique_ptr<Transport> openMpi(const Launch &launch);
std::unique_ptr<Transport> openTcp(const Launch &launch);

/// Names of the MPI plug-ins that this binary carries, as "Open MPI, MPICH";
/// "none".
std::string carriedPlugins();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_LAUNCHER_H
