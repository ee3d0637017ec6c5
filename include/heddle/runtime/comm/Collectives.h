//===- Collectives.h - Collectives in a fixed order -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The default algorithms are made of point-to-point messages, so that results
// are the same bits, and traffic the same bytes, over every transport. Of n
// ranks, rank r does
//
//   all_gather      step k = 1..n-1: send the own part to r+k, receive the
//                   part of r-k
//   reduce_scatter  step k: send piece r+k to its owner, receive the own piece
//                   of r-k; then add them in the order of the ranks, in fp32:
//                   the sum of a number does not depend on whose piece it is in
//   all_reduce      a reduce_scatter over pieces of ceil(count / n) elements
//                   (the last ones shorter or empty), then an all_gather
//   all_to_all      step k: send part r+k, receive the part of r-k
//   rotate          send all to r+1, receive all of r-1
//
// with all numbers modulo n. What is sent has the wire type. What a rank adds,
// gathers or hands on is rounded to the wire type on the rank itself too, so
// that all ranks hold the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_COLLECTIVES_H
#define HEDDLE_RUNTIME_COMM_COLLECTIVES_H

#include "heddle/PlanFormat/Collective.h"
#include "heddle/runtime/comm/Communicator.h"
#include "heddle/runtime/comm/Transport.h"

#include <atomic>

namespace heddle::rt {

/// Bytes of payload that this rank sent.
struct Traffic {
  /// By Communicator::id and plan::CollectiveKind.
  std::atomic<int64_t> collectives[numGroupIds][plan::numCollectiveKinds] = {};
  std::atomic<int64_t> pointToPoint = 0;
};

/// One collective on its buffers. The pointers stay valid while it runs.
struct CollectiveCall {
  const plan::CollectiveShape *shape = nullptr;
  const Communicator *group = nullptr;
  void *destination = nullptr;
  const void *source = nullptr;
  void *staging = nullptr; ///< plan::stagingBytes(), 64-byte aligned.
};

class Collectives {
public:
  /// With `useLibrary`, sums and moves are left to the MPI library; H0226 when
  /// the transport has none.
  explicit Collectives(Transport &transport, bool useLibrary = false);

  /// Makes a group known to the MPI library. All ranks of the world call it
  /// for their groups in the same order.
  void prepare(Communicator &group);

  /// Runs a collective; every rank of the group calls it, in one order. It
  /// allocates nothing. The source may be the destination for AllReduce, and
  /// the own part of a contiguous destination for AllGather; a ReduceScatter's
  /// destination may be the own part of its contiguous source. Otherwise they
  /// do not overlap.
  void run(const CollectiveCall &call);

  /// Starts a message of the plan to or from a world rank. Messages from one
  /// rank to another on one channel are received in the order of sending.
  Request send(int peer, int channel, const void *data, int64_t bytes);
  Request receive(int peer, int channel, void *data, int64_t bytes);
  void wait(Request &request) { transport.wait(request); }

  /// Traffic inside the MPI library's collectives is not counted.
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
