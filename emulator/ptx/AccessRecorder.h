//===- AccessRecorder.h - Which bytes a launch touched ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ACCESSRECORDER_H
#define HEDDLE_EMULATOR_PTX_ACCESSRECORDER_H

#include "emulator/ptx/Program.h"

#include <utility>

namespace heddle::emulator {

/// How bytes are touched. Atomic accesses are no races among themselves.
enum class Touch : uint8_t { Read, AtomicRead, Write, Atomic };
inline bool writes(Touch kind) {
  return kind == Touch::Write || kind == Touch::Atomic;
}

/// By what bytes are touched: when a warp had arrived so often at the cluster's
/// barrier, and waited there.
struct TouchedBy {
  int32_t op = 0;
  Touch kind = Touch::Read;
  uint32_t arrivals = 0, waits = 0;
};

/// Bytes that a block touched by one instruction.
struct TouchedRange {
  uint64_t first = 0, end = 0;
  int64_t block = 0, cluster = 0;
  TouchedBy by;
  bool seesCluster = true; ///< Its races with blocks of its cluster count.
};

/// Collects ranges of global memory. Accesses of an instruction often continue
/// one another, so each instruction has a range that grows.
class AccessRecorder {
public:
  explicit AccessRecorder(size_t ops) : last(ops), recent(numRecent) {}

  void startBlock(int64_t index, int64_t ofCluster) {
    endBlock();
    block = index;
    cluster = ofCluster;
    seesRaces = seesCluster = true;
  }
  void add(const TouchedBy &by, uint64_t first, uint64_t end) {
    TouchedRange &run = last[by.op];
    if (first <= run.end && end >= run.first &&
        run.by.arrivals == by.arrivals && run.by.waits == by.waits) {
      run.first = run.first < first ? run.first : first;
      run.end = run.end > end ? run.end : end;
      return;
    }
    flush(run);
    run = {first, end, block, cluster, by, seesCluster};
  }
  /// What the block touches from here on is in no race.
  void endRaces();
  /// The same for races with blocks of its cluster.
  void endClusterRaces();
  /// Gives all that was touched: `raceable` if others may race with it.
  void finish(std::vector<TouchedRange> &raceable,
              std::vector<TouchedRange> &others);

private:
  static constexpr size_t numRecent = 1024;

  void flush(TouchedRange &run);
  void keep(TouchedRange &run);
  void flushAll();
  void endBlock();

  std::vector<TouchedRange> last; ///< By op.
  /// What was in `last`, by op and address: lanes often walk along rows of
  /// their own, and threads read the same again.
  std::vector<TouchedRange> recent;
  std::vector<TouchedRange> ofBlock, raceable, ordered;
  size_t most = size_t(1) << 16; ///< Ranges of a block before they are merged.
  int64_t block = 0, cluster = 0;
  bool seesRaces = true, seesCluster = true;
};

/// Two ranges of different blocks that meet, though one is written and no
/// barrier of their cluster is between them; the later block first. Sorts
/// `ranges`, and leaves out what cannot race.
std::optional<std::pair<TouchedRange, TouchedRange>>
findRace(std::vector<TouchedRange> &ranges);

/// Two ranges that meet, one read by an op that `readsConstants` has, the other
/// one written; null if there are none. Sorts `ranges`.
std::optional<std::pair<TouchedRange, TouchedRange>>
findChangedConstant(std::vector<TouchedRange> &ranges,
                    const std::vector<Op> &ops);

/// Adds ranges to what a launch touched.
void addTouched(const std::vector<TouchedRange> &ranges,
                AccessedRanges &touched);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ACCESSRECORDER_H
