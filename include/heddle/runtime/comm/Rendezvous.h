//===- Rendezvous.h - How ranks without an MPI meet -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_RENDEZVOUS_H
#define HEDDLE_RUNTIME_COMM_RENDEZVOUS_H

#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/comm/Socket.h"

namespace heddle::rt {

/// One connection to each other rank; none for the own. Rank 0 listens at the
/// launch's port, or at one of the next fifteen when that is taken; the others
/// try them all until one answers for this job. Throws H0225 when not all ranks
/// have come within `milliseconds`.
std::vector<Socket> meet(const Launch &launch, int64_t milliseconds);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_RENDEZVOUS_H
