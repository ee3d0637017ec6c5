//===- Collectives.h - Collectives on host memory ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives on host memory, made of point-to-point messages, so that every
// transport gives bit-identical results and the same traffic. A buffer of all n
// ranks consists of n slices; slice r is what rank r contributes or receives.
// Rank r does the following in steps k = 1..n-1; rank numbers are modulo n:
//
//   all_gather      send slice r to rank r+k, receive slice r-k from rank r-k
//   reduce_scatter  send slice r+k to rank r+k, receive slice r from rank r-k;
//                   then add all in the order of ranks, in fp32, so that the
//                   sum of an element does not depend on who computes it
//   all_reduce      a reduce_scatter of slices of ceil(count / n) elements
//                   (the last ones shorter or empty), then an all_gather
//   all_to_all      send slice r+k to rank r+k, receive a slice from rank r-k
//   rotate          one step: send all to rank r+1, receive all from rank r-1
//
// Elements are converted to the collective's wire type before they are sent. A
// rank also rounds its own values to this type where others receive them, so
// that all ranks have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_COLLECTIVES_H
#define HEDDLE_RUNTIME_COMM_COLLECTIVES_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/comm/CommLog.h"
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
  /// If `useLibrary`, the MPI library runs all collectives except `rotate` and
  /// those of more than INT_MAX elements. Throws H0226 if `useLibrary` is set
  /// and the transport has no such library.
  explicit Collectives(Transport &transport, bool useLibrary = false);

  /// Registers a group of ranks with the MPI library, which needs a
  /// communicator for each group. All ranks call this function for the groups
  /// to which they belong, in the same order.
  void prepare(Communicator &group);

  /// Runs a collective. Every rank of the group calls this function, in the
  /// same order. It allocates no memory. Source and destination must not
  /// overlap, with three exceptions. In an all-reduce they may be the same. In
  /// an all-gather the source may be this rank's slice of a contiguous
  /// destination. In a reduce-scatter the destination may be this rank's slice
  /// of a contiguous source.
  void run(const CollectiveCall &call);
  /// Adds all later collectives of several ranks to `log`. No collective may be
  /// running.
  void logTo(CommLog *newLog) { log = newLog; }

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
  void runUnlogged(const CollectiveCall &call);
  Transport &transport;
  bool useLibrary;
  Traffic sent;
  CommLog *log = nullptr;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_COLLECTIVES_H
