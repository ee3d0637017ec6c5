//===- Access.h - Addresses of a warp's lanes -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ACCESS_H
#define HEDDLE_EMULATOR_PTX_ACCESS_H

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Warp.h"

namespace heddle::emulator {

/// ClusterShared is shared memory of any block of the cluster, Shared that of
/// the block itself. Generic addresses may be of any.
enum class Space { Generic, Global, Shared, Local, ClusterShared };

/// What an op of memory keeps in Op::flags, beside its own flags from bit 8.
enum AccessFlags { SpaceMask = 7, IsNarrowAddress = 8 };

/// Addresses of lanes, checked, and where they are on the host.
struct Access {
  uint64_t addresses[warpSize];
  char *host[warpSize]; ///< Of the first lane alone when dense in global.
  /// All lanes take part, and their memory is contiguous.
  bool isDense = false;

  /// The addresses of `op`, whose row is `row`.
  Access(const Warp &warp, const Op &op, int row);
  /// Checks that lanes of the mask may access `bytes` each, and resolves
  /// them. Does not note the access of shared memory.
  void resolve(Warp &warp, Space space, int64_t bytes);
  /// The same, and `host` holds all lanes.
  void resolveAll(Warp &warp, Space space, int64_t bytes);
  /// Notes in shared memory's shadow that lanes read, or write `values`.
  void noteRead(Warp &warp, int64_t bytes) const;
  void noteAtomic(Warp &warp, int lane, int64_t bytes) const;
  void noteWrite(Warp &warp, int lane, int64_t bytes, const char *values) const;
  /// After `resolve` in shared memory: the lane's offset in that of the
  /// cluster.
  int64_t offset(const Warp &warp, int lane) const {
    return host[lane] - warp.cluster->shared.data();
  }

  /// After `resolve`: all lanes are in that memory.
  bool isShared = false, isGlobal = false;

private:
  void resolveGlobal(Warp &warp, int64_t bytes);
  void resolveWindow(Warp &warp, int64_t bytes, char *base, uint64_t first,
                     uint64_t size, const char *what);
  void resolveLocal(Warp &warp, int64_t bytes);
  void resolveShared(Warp &warp, int64_t bytes, bool ofCluster);
};

/// The offset in the cluster's shared memory of what a warp calls `address`
/// there, below the window of generic addresses. It must not be of another
/// block unless it is `ofCluster`, nor of one that has ended or not started.
int64_t sharedOffset(Warp &warp, uint64_t address, int64_t bytes,
                     bool ofCluster, int lane);

/// Why a lane may not touch the shared memory of a block, or "".
std::string whyNoAccess(Warp &warp, const Block &block, int lane);
/// The mbarrier at an offset of the cluster's shared memory, which a lane uses.
Mbarrier &useMbarrier(Warp &warp, int64_t offset, int lane);
/// One arrival more in the phase that is under way.
void expectArrival(Warp &warp, Mbarrier &barrier, int lane);

/// Takes the modifiers of space and address of an instruction's operand.
/// Returns the space.
Space takeSpace(Decode &d);
/// The flags of an address row of `bits`.
uint32_t addressFlags(Decode &d, Space space, int bits);

/// Distinct parts of memory, each of so many bytes, that lanes of `mask` touch.
/// A lane's bytes are aligned and at most 16, so they lie in one sector of 32.
uint64_t countParts(const uint64_t *addresses, uint32_t mask, int64_t bytes);
/// Passes over the 32 banks of shared memory for one request: as it is, and if
/// no two lanes met in a bank.
struct Wavefronts {
  uint64_t actual = 0, ideal = 0;
};
Wavefronts countWavefronts(const uint64_t *addresses, uint32_t mask,
                           int64_t bytes);
/// How an instruction touches global memory.
TouchedBy touchBy(const Warp &warp, Touch kind);
/// A bulk copy of a lane reads or writes global memory: what stores of the
/// cluster wrote there has to have passed a proxy fence.
void checkStoresFenced(Warp &warp, uint64_t first, uint64_t end, int lane);
/// Notes which bytes of global memory lanes read or write, if somebody asks.
void noteTouched(Warp &warp, const Access &access, int64_t bytes, Touch kind);
/// The block has read what others may have written for it to see: how its
/// accesses stand to theirs, nobody follows from here on.
void learnOfBlocks(Warp &warp);
/// Counts a request of `bytes` a lane, if that is asked for.
void countRequest(Warp &warp, const Access &access, int64_t bytes);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ACCESS_H
