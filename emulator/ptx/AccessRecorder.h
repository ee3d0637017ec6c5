//===- AccessRecorder.h - Accesses of global memory in a launch -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds races between blocks. Each block records the ranges of global memory
// that it reads and writes. After the launch, ranges of different blocks are
// compared.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ACCESSRECORDER_H
#define HEDDLE_EMULATOR_PTX_ACCESSRECORDER_H

#include "emulator/ptx/Program.h"

#include <utility>

namespace heddle::emulator {

/// Kinds of access. Two atomic accesses are no race.
enum class AccessKind : uint8_t { Read, AtomicRead, Write, Atomic };
inline bool writes(AccessKind kind) {
  return kind == AccessKind::Write || kind == AccessKind::Atomic;
}

/// The instruction of an access, and how often the warp had arrived at the
/// cluster's barrier and waited at the barrier before the access. These counts
/// tell whether the barrier orders two accesses.
struct AccessSite {
  int32_t op = 0;
  AccessKind kind = AccessKind::Read;
  uint32_t arrivals = 0, waits = 0;
};

/// A range of bytes that a block accessed by one instruction.
struct RangeAccess {
  uint64_t first = 0, end = 0;
  int64_t block = 0, cluster = 0;
  AccessSite by;
  /// Whether the range is compared with ranges of other blocks of its cluster
  /// when races are detected.
  bool seesCluster = true;
};

/// Collects the ranges of global memory that blocks access. The accesses of one
/// instruction are often adjacent, so an access usually extends the last range
/// of its instruction.
class AccessRecorder {
public:
  explicit AccessRecorder(size_t ops) : last(ops), recent(numRecent) {}

  void startBlock(int64_t index, int64_t ofCluster) {
    endBlock();
    block = index;
    cluster = ofCluster;
    seesRaces = seesCluster = true;
  }
  void add(const AccessSite &by, uint64_t first, uint64_t end) {
    RangeAccess &run = last[by.op];
    if (first <= run.end && end >= run.first &&
        run.by.arrivals == by.arrivals && run.by.waits == by.waits) {
      run.first = run.first < first ? run.first : first;
      run.end = run.end > end ? run.end : end;
      return;
    }
    flush(run);
    run = {first, end, block, cluster, by, seesCluster};
  }
  /// Ends race detection for this block: its later accesses are not compared
  /// with those of other blocks, because their order is no longer known.
  void endRaces();
  /// Ends race detection within the cluster for this block: its later accesses
  /// are not compared with those of blocks of the same cluster.
  void endClusterRaces();
  /// Returns all ranges: in `raceable` those that must be checked for races
  /// with other blocks, and in `others` those that a block accessed after
  /// `endRaces`, which are not checked.
  void finish(std::vector<RangeAccess> &raceable,
              std::vector<RangeAccess> &others);

private:
  static constexpr size_t numRecent = 1024;

  void flush(RangeAccess &run);
  void keep(RangeAccess &run);
  void flushAll();
  void endBlock();

  /// For each instruction, the last range that it accessed.
  std::vector<RangeAccess> last;
  /// Ranges that were in `last` before, hashed by instruction and address. An
  /// access may extend one of these too, because lanes often access several
  /// separate rows in turn, or read the same bytes again.
  std::vector<RangeAccess> recent;
  std::vector<RangeAccess> ofBlock, raceable, ordered;
  /// If a block has more ranges than this, adjacent ranges are merged.
  size_t most = size_t(1) << 16;
  int64_t block = 0, cluster = 0;
  bool seesRaces = true, seesCluster = true;
};

/// Finds a race: two overlapping ranges of different blocks, at least one of
/// which is written. Two blocks of the same cluster race only if no barrier of
/// the cluster comes between their accesses. In the returned pair the block
/// with the larger index is first. Sorts `ranges`, and erases those that cannot
/// race.
std::optional<std::pair<RangeAccess, RangeAccess>>
findRace(std::vector<RangeAccess> &ranges);

/// Finds a range that is read by an instruction with `readsConstants`
/// (ld.global.nc, which promises that the launch does not change the bytes) and
/// overlaps a range that is written. Returns nullopt if there is none. Sorts
/// `ranges`.
std::optional<std::pair<RangeAccess, RangeAccess>>
findChangedConstant(std::vector<RangeAccess> &ranges,
                    const std::vector<Op> &ops);

/// Adds ranges to the accesses of a launch.
void addAccesses(const std::vector<RangeAccess> &ranges,
                 AccessedRanges &touched);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ACCESSRECORDER_H
