//===- AsyncState.h - Asynchronous operations of a warp ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state of asynchronous operations: bulk copies, products of warpgroups
// (wgmma), and mbarriers. The emulator completes an asynchronous operation as
// late as possible, when a thread waits for it, so that a missing wait is
// found.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ASYNCSTATE_H
#define HEDDLE_EMULATOR_PTX_ASYNCSTATE_H

#include "emulator/ptx/Program.h"
#include "emulator/ptx/SharedMemory.h"

#include <array>
#include <map>

namespace heddle::emulator {

/// An mbarrier. Its current phase completes when neither arrivals nor bytes are
/// pending.
struct Mbarrier {
  /// Arrivals that a phase needs in all, and arrivals that are missing in this
  /// phase.
  int64_t expected = 0, pending = 0;
  /// Bytes that are pending. Negative if bytes arrived before they were
  /// expected.
  int64_t bytes = 0;
  uint64_t phase = 0;
  /// Whether other blocks of the cluster have arrived at the mbarrier. Such an
  /// arrival orders accesses of global memory, but the race detector does not
  /// know which. So after a wait for the mbarrier, a block's accesses of global
  /// memory are not compared with those of other blocks of the cluster.
  bool isTold = false;
  /// Vector clocks for the detection of races: `next` joins the clocks of the
  /// warps that have arrived in the current phase, `done` those of the previous
  /// phase.
  VectorClock next, done;
};

/// Combines `bytes` bytes of elements at `from` with the elements at `to`, and
/// writes the results to `to`.
using Reduction = void (*)(char *to, const char *from, int64_t bytes);

/// Up to 16 bytes of a bulk copy. The bytes [first, last) are inside the
/// tensor.
struct Chunk {
  /// Offset in the cluster's shared memory: of the target of a BulkCopy, or of
  /// the source of a BulkStore.
  int64_t shared = 0;
  /// Address on the host: of the source of a BulkCopy, or of the target of a
  /// BulkStore. The source of a copy between blocks of a cluster is in shared
  /// memory, any other source or target in global memory.
  char *other = nullptr;
  int32_t bytes = 16, first = 0, last = 16;
};

/// A bulk copy to shared memory.
struct BulkCopy {
  std::vector<Chunk> chunks;
  /// The offset of the mbarrier to notify when the copy is complete, and the
  /// number of bytes by which the mbarrier's pending bytes are reduced.
  int64_t barrier = 0, bytes = 0;
  /// Whether elements outside of the tensor are NaN instead of 0.
  bool fillsNaN = false;
  int32_t op = 0;
  /// Offset of the source in shared memory; -1 if it is in global memory.
  int64_t source = -1;
  Reduction reduction = nullptr; ///< If null, the copy overwrites its target.
};

/// A bulk copy from shared memory to global memory.
struct BulkStore {
  std::vector<Chunk> chunks;
  std::vector<char> bytes; ///< The bytes of the source, after they were read.
  int member = 0;
  int32_t op = 0;
  Reduction reduction = nullptr;
};

/// An arrival at an mbarrier that a thread has asked for by
/// cp.async.mbarrier.arrive. It takes place when the cp.async copies that the
/// thread had issued before are complete.
struct AsyncArrival {
  int64_t barrier = 0;
  /// The thread, given by the index of its warp in the cluster and its lane.
  int warp = 0, lane = 0;
  uint64_t last = 0; ///< Number of the last copy that the thread had issued.
  /// The thread's vector clock when it issued the instruction for the arrival.
  /// It says which accesses the arrival orders.
  VectorClock known;
  uint32_t time = 0; ///< The warp's time when the instruction was issued.
  int32_t op = 0;
};

/// The bulk stores that a warp has issued: `open` has those after the last
/// cp.async.bulk.commit_group, `groups` the committed groups, oldest first.
struct BulkStores {
  std::vector<BulkStore> open;
  std::vector<std::vector<BulkStore>> groups;
};

/// A warp's part of a wgmma product: 16 of its warpgroup's 64 rows.
struct WarpProduct {
  const Op *op = nullptr;
  int32_t at = 0;
  uint64_t a = 0, b = 0; ///< Matrix descriptors.
  std::array<std::array<uint32_t, warpSize>, 4> ofRegisters;
  bool adds = true; ///< Whether the product is added to the accumulators.
};

using Row = std::array<uint32_t, warpSize>;

/// A warp's products that are in flight.
struct Products {
  std::vector<WarpProduct> open;
  std::vector<std::vector<WarpProduct>> groups;
  /// The accumulators of products in flight. The key is the row (register) that
  /// gets the accumulator when the warp waits for the products.
  std::map<uint32_t, Row> accumulators;
  std::map<uint32_t, Row> fenced; ///< Values of rows at the last wgmma.fence.
  bool hasFence = false;

  void reset() { *this = Products(); }
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ASYNCSTATE_H
