//===- AsyncState.h - What runs beside a warp -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bulk copies, products of warpgroups, and the mbarriers that tell of copies.
// All of it happens as late as it may: when somebody waits for it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ASYNCSTATE_H
#define HEDDLE_EMULATOR_PTX_ASYNCSTATE_H

#include "emulator/ptx/Program.h"
#include "emulator/ptx/SharedMemory.h"

#include <array>
#include <map>

namespace heddle::emulator {

/// An mbarrier: a phase ends when nobody and nothing is awaited any more.
struct Mbarrier {
  int64_t expected = 0, pending = 0; ///< Arrivals.
  int64_t bytes = 0;                 ///< Still to come; fewer than none: early.
  uint64_t phase = 0;
  bool isTold = false; ///< Other blocks of the cluster have arrived.
  Times next, done; ///< What those know who arrived in this and the last phase.
};

/// Combines `bytes` of numbers at `from` with those at `to`.
using Reduction = void (*)(char *to, const char *from, int64_t bytes);

/// Up to 16 bytes of a bulk copy, and those of them that exist in the tensor.
struct Chunk {
  int64_t shared = 0;    ///< Offset.
  char *other = nullptr; ///< In global memory, or the shared memory it is from.
  int32_t bytes = 16, first = 0, last = 16;
};

/// To shared memory.
struct BulkCopy {
  std::vector<Chunk> chunks;
  int64_t barrier = 0, bytes = 0; ///< What it tells whom.
  bool fillsNaN = false;          ///< What lies outside; else with zeros.
  int32_t op = 0;
  int64_t source = -1;           ///< Where it reads shared memory; -1: global.
  Reduction reduction = nullptr; ///< Null: replaces what is there.
};

/// From shared memory.
struct BulkStore {
  std::vector<Chunk> chunks;
  std::vector<char> bytes; ///< Once it was read.
  int member = 0;
  int32_t op = 0;
  Reduction reduction = nullptr;
};

/// Arrives at an mbarrier when the copies by cp.async that a thread has issued
/// so far have come.
struct AsyncArrival {
  int64_t barrier = 0;
  int warp = 0, lane = 0; ///< Whose copies: the warp's number in the cluster.
  uint64_t last = 0;      ///< Number of the last of them.
  Times known;            ///< By the thread when it asked for it.
  uint32_t time = 0;      ///< Of the warp then.
  int32_t op = 0;
};

/// Those of a warp, in groups, oldest first.
struct BulkStores {
  std::vector<BulkStore> open;
  std::vector<std::vector<BulkStore>> groups;
};

/// One product of a warp: its 16 rows of those of its warpgroup.
struct WarpProduct {
  const Op *op = nullptr;
  int32_t at = 0;
  uint64_t a = 0, b = 0; ///< Descriptors.
  std::array<std::array<uint32_t, warpSize>, 4> ofRegisters;
  bool adds = true; ///< To what the accumulators hold.
};

using Row = std::array<uint32_t, warpSize>;

/// The products of a warp that are under way.
struct Products {
  std::vector<WarpProduct> open;
  std::vector<std::vector<WarpProduct>> groups;
  std::map<uint32_t, Row> accumulators; ///< By row; they come with the wait.
  std::map<uint32_t, Row> fenced; ///< Rows as they were at the last fence.
  bool hasFence = false;

  void reset() { *this = Products(); }
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ASYNCSTATE_H
