//===- Rendezvous.h - Connect ranks without MPI -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Connects the ranks of a job with each other over TCP, without MPI.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_RENDEZVOUS_H
#define HEDDLE_RUNTIME_COMM_RENDEZVOUS_H

#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/comm/Socket.h"

namespace heddle::rt {

/// Returns a connection to each other rank, indexed by rank. This rank's entry
/// is empty. Rank 0 listens on the launch's port, or on one of the next fifteen
/// ports if that port is taken. The other ranks try these sixteen ports until
/// rank 0 of this job answers. Throws H0225 when not all ranks have connected
/// within `milliseconds`.
std::vector<Socket> meet(const Launch &launch, int64_t milliseconds);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_RENDEZVOUS_H
