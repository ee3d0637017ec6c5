//===- Access.h - Memory addresses of a warp's lanes ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions for all instructions that access memory. They compute and check the
// lanes' addresses, find them on the host, and record the accesses for races
// and counters.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ACCESS_H
#define HEDDLE_EMULATOR_PTX_ACCESS_H

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Warp.h"

namespace heddle::emulator {

/// State spaces of PTX. `Shared` is the shared memory of the block itself,
/// `ClusterShared` that of any block of the cluster. A generic address may be
/// in any space.
enum class Space { Generic, Global, Shared, Local, ClusterShared };

/// Bits of Op::flags with the same meaning in all instructions that access
/// memory. Flags that only one instruction has start at bit 8.
enum AccessFlags { SpaceMask = 7, IsNarrowAddress = 8 };

/// The addresses that a warp's lanes access, after they were checked, and where
/// these addresses are on the host.
struct Access {
  uint64_t addresses[warpSize];
  /// The addresses on the host. If `isDense` is set and the access is in global
  /// memory, only the address of lane 0 is valid: the bytes of the other lanes
  /// follow those of lane 0.
  char *host[warpSize];
  /// Whether all lanes take part and access consecutive memory.
  bool isDense = false;

  /// Computes each lane's address: the lane's value of the register
  /// `op.rows[row]`, plus the constant offset `op.imm`.
  Access(const Warp &warp, const Op &op, int row);
  /// Checks that each lane of the warp's mask may access `bytes` bytes at its
  /// address, and finds these bytes on the host. Does not record the access for
  /// the detection of races. The functions whose names begin with `note` do.
  void resolve(Warp &warp, Space space, int64_t bytes);
  /// Does the same as `resolve`, but always fills `host` for all lanes.
  void resolveAll(Warp &warp, Space space, int64_t bytes);
  /// Record an access of shared memory for the detection of races, with `bytes`
  /// bytes for each lane. noteRead: all lanes read. noteAtomic: one lane
  /// accesses the bytes atomically. noteWrite: one lane writes `values`.
  void noteRead(Warp &warp, int64_t bytes) const;
  void noteAtomic(Warp &warp, int lane, int64_t bytes) const;
  void noteWrite(Warp &warp, int lane, int64_t bytes, const char *values) const;
  /// Returns the offset of the lane's bytes in the cluster's shared memory.
  /// Valid after `resolve` if the lanes access shared memory.
  int64_t offset(const Warp &warp, int lane) const {
    return host[lane] - warp.cluster->shared.data();
  }

  /// Set by `resolve`: whether all lanes access shared memory, and whether all
  /// lanes access global memory.
  bool isShared = false, isGlobal = false;

private:
  void resolveGlobal(Warp &warp, int64_t bytes);
  void resolveWindow(Warp &warp, int64_t bytes, char *base, uint64_t first,
                     uint64_t size, const char *what);
  void resolveLocal(Warp &warp, int64_t bytes);
  void resolveShared(Warp &warp, int64_t bytes, bool ofCluster);
};

/// Returns the offset of `address` in the cluster's shared memory. The bytes
/// must be in the warp's own block. If `ofCluster` is true, they may be in any
/// running block of the cluster. For any other address the function fails.
int64_t sharedOffset(Warp &warp, uint64_t address, int64_t bytes,
                     bool ofCluster, int lane);

/// Returns the reason why a lane may not access the shared memory of `block`.
/// The text is empty if it may.
std::string whyNoAccess(Warp &warp, const Block &block, int lane);
/// Returns the mbarrier at an offset in the cluster's shared memory. Fails if
/// the lane may not use this mbarrier, for example because it is not
/// initialized.
Mbarrier &useMbarrier(Warp &warp, int64_t offset, int lane);
/// Adds one pending arrival to the mbarrier's current phase.
void expectArrival(Warp &warp, Mbarrier &barrier, int lane);

/// Consumes the modifiers for state space and address of an instruction.
/// Returns the space.
Space takeSpace(Decode &d);
/// Returns the bits of Op::flags that say where an instruction accesses memory:
/// the state space, and whether the address has 32 bits rather than 64. `bits`
/// is the width of the address operand. Fails if the space does not allow it.
uint32_t addressFlags(Decode &d, Space space, int bits);

/// Returns how many distinct aligned blocks of `bytes` bytes the lanes of
/// `mask` access, for the counters of memory traffic. A lane's access is
/// aligned and has at most 16 bytes, so it lies in one sector of 32 bytes.
uint64_t countParts(const uint64_t *addresses, uint32_t mask, int64_t bytes);
/// How many times a request passes over the 32 banks of shared memory: the
/// actual number, and the number without bank conflicts.
struct Wavefronts {
  uint64_t actual = 0, ideal = 0;
};
Wavefronts countWavefronts(const uint64_t *addresses, uint32_t mask,
                           int64_t bytes);
/// Describes an access of global memory by the warp's current instruction, for
/// the detection of races.
AccessSite accessBy(const Warp &warp, AccessKind kind);
/// Checks a lane's bulk copy that reads or writes global memory. Fails if a
/// thread of the cluster has stored to the same bytes and no proxy fence
/// followed the store.
void checkStoresFenced(Warp &warp, uint64_t first, uint64_t end, int lane);
/// Records which bytes of global memory the lanes access, for the detection of
/// races, if the launch records accesses. Fails if they change the bytes before
/// griddepcontrol.wait of a programmatic launch.
void noteAccess(Warp &warp, const Access &access, int64_t bytes,
                AccessKind kind);
/// Does the same for one range of bytes that `lanes` access.
void noteAccess(Warp &warp, AccessKind kind, uint64_t first, uint64_t end,
                uint32_t lanes);
/// Called when the block reads bytes that other blocks may have written as a
/// signal. After that the order of this block's accesses and those of the other
/// blocks is unknown, so the block's later accesses take no part in race
/// detection.
void learnOfBlocks(Warp &warp);
/// Counts a request of `bytes` bytes for each lane, if the launch asks for
/// counters.
void countRequest(Warp &warp, const Access &access, int64_t bytes);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ACCESS_H
