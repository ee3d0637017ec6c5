//===- Launcher.h - Detect the launcher and connect the ranks ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Detects which launcher started this process (torchrun, mpirun, srun or none),
// and connects the ranks by MPI or TCP.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_LAUNCHER_H
#define HEDDLE_RUNTIME_COMM_LAUNCHER_H

#include "heddle/runtime/comm/Transport.h"

#include <functional>

namespace heddle::rt {

/// The job of this process, as environment variables of a launcher describe it.
struct Launch {
  enum class Kind {
    Alone,   ///< No launcher: one rank; MPI is not loaded.
    OpenMpi, ///< Open MPI's library.
    Mpich,   ///< MPICH's library, or one with its ABI.
    Tcp,     ///< Sockets; ranks meet rank 0 at `address`:`port`.
  } kind = Kind::Alone;
  std::string launcher = "none"; ///< For messages, as "torchrun".
  int rank = 0;
  int size = 1;
  int localRank = 0; ///< Index among the ranks of this machine.
  int localSize = 1; ///< Ranks of this machine; 1 if unknown.
  std::string address;
  int port = 0;
  std::string job;      ///< Distinguishes jobs that meet at the same address.
  int joinSeconds = 60; ///< Time limit for ranks to connect over TCP.
};

/// Looks for these launchers in order: torchrun, mpirun of Open MPI, mpirun of
/// MPICH, any launcher that sets RANK, WORLD_SIZE and MASTER_ADDR, and a step
/// of srun. `variable` works like std::getenv. Throws H0224 for inconsistent
/// variables.
Launch detectLaunch(const std::function<const char *(const char *)> &variable);
Launch detectLaunch();

/// Connects this rank to the others. Throws H0221 when the MPI library is not
/// installed, H0223 when this binary was built without a plug-in for it, H0225
/// when the ranks cannot connect.
std::unique_ptr<Transport> openTransport(const Launch &launch);

/// Connect the ranks by MPI, or by TCP, for `openTransport`. Under srun,
/// `openTransport` uses TCP if no MPI library is installed.
std::unique_ptr<Transport> openMpi(const Launch &launch);
std::unique_ptr<Transport> openTcp(const Launch &launch);

/// Lists the MPI plug-ins in this binary, as "Open MPI, MPICH", or "none".
std::string carriedPlugins();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_LAUNCHER_H
