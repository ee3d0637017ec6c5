//===- Collectives.h - Collectives on host memory ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives of host memory, made of point-to-point messages, so that every
// transport gives bit-identical results and the same traffic. Of n ranks, rank
// r does the following in steps k = 1..n-1, with all ranks modulo n:
//
//   all_gather      send its part to r+k, receive the part of r-k
//   reduce_scatter  send part r+k to that rank, receive its own part from r-k;
//                   then add all in the order of ranks, in fp32, so that the
//                   sum of an element does not depend on who computes it
//   all_reduce      a reduce_scatter of parts of ceil(count / n) elements (the
//                   last ones shorter or empty), then an all_gather
//   all_to_all      send part r+k to that rank, receive a part from r-k
//   rotate          one step: send everything to r+1, receive from r-1
//
// Messages have the wire type. A rank also rounds its own values to the wire
// type where others receive them, so that all ranks have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_COLLECTIVES_H
#define HEDDLE_RUNTIME_COMM_COLLECTIVES_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/comm/Communicator.h"
#include "heddle/runtime/comm/Transport.h"

#include <atomic>

namespace heddle::rt {

/// Bytes that this rank has sent.
struct Traffic {
  /// Bytes sent in collectives. The first index is Communicator::id, and the
  /// second one is the plan::CollectiveKind.
  std::atomic<int64_t> collectives[numGroupIds][plan::numCollectiveKinds] = {};
  std::atomic<int64_t> pointToPoint = 0;
};

/// One collective and its buffers. The pointers must stay valid while the
/// collective runs.
struct CollectiveCall {
  const plan::CollectiveShape *shape = nullptr;
  const Communicator *group = nullptr;
  void *destination = nullptr;
  const void *source = nullptr;
  /// A buffer of plan::stagingBytes(), 64-byte aligned.
  void *staging = nullptr;
};

class Collectives {
public:
  /// If `useLibrary`, the MPI library runs sums and gathers. Throws H0226 when
  /// `useLibrary` is set and the transport has no such library.
  explicit Collectives(Transport &transport, bool useLibrary = false);

  /// Registers a group with the MPI library. All ranks of the world call it for
  /// their groups in the same order.
  void prepare(Communicator &group);

  /// Runs a collective; every rank of the group calls it, in the same order.
  /// Allocates no memory. For an all-reduce the source may be the destination.
  /// For an all-gather the source may be this rank's part of a contiguous
  /// destination, and for a reduce-scatter the destination may be this rank's
  /// part of a contiguous source. Otherwise source and destination must not
  /// overlap.
  void run(const CollectiveCall &call);

  /// Starts a message of the plan to or from a world rank. Messages of one
  /// channel between two ranks are received in the order of sending.
  Request send(int peer, int channel, const void *data, int64_t bytes);
  Request receive(int peer, int channel, void *data, int64_t bytes);
  void wait(Request &request) { transport.wait(request); }

  /// Returns the bytes that this rank has sent in messages; collectives of the
  /// MPI library are not counted.
  const Traffic &traffic() const { return sent; }
  bool usesLibrary() const { return useLibrary; }

private:
  friend class CollectiveRun;
  Transport &transport;
  bool useLibrary;
  Traffic sent;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_COLLECTIVES_H
