//===- TouchRecorder.h - Which bytes a launch touched -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_EMULATOR_TOUCHRECORDER_H
#define HEDDLE_RUNTIME_DEVICES_EMULATOR_TOUCHRECORDER_H

#include "heddle/runtime/devices/emulator/Machine.h"

#include <utility>

namespace heddle::rt::emulator {

/// How bytes are touched. Atomic accesses are no races among themselves.
enum class Touch : uint8_t { Read, Write, Atomic };

/// Bytes that a block touched by one instruction.
struct TouchedRange {
  uint64_t first = 0, end = 0;
  int64_t block = 0;
  int32_t op = 0;
  Touch kind = Touch::Read;
};

/// Collects ranges of global memory. Accesses of an instruction often continue
/// one another, so each instruction has a range that grows.
class TouchRecorder {
public:
  explicit TouchRecorder(size_t ops) : last(ops) {}

  void startBlock(int64_t index) {
    endBlock();
    block = index;
    seesRaces = true;
  }
  void add(int32_t op, uint64_t first, uint64_t end, Touch kind) {
    TouchedRange &run = last[op];
    if (first <= run.end && end >= run.first) {
      run.first = run.first < first ? run.first : first;
      run.end = run.end > end ? run.end : end;
      return;
    }
    flush(run);
    run = {first, end, block, op, kind};
  }
  /// What the block touches from here on is in no race.
  void endRaces();
  /// Gives all that was touched: `raceable` if others may race with it.
  void finish(std::vector<TouchedRange> &raceable,
              std::vector<TouchedRange> &others);

private:
  void flush(TouchedRange &run);
  void endBlock();

  std::vector<TouchedRange> last; ///< By op.
  std::vector<TouchedRange> ofBlock, raceable, ordered;
  size_t most = size_t(1) << 16; ///< Ranges of a block before they are merged.
  int64_t block = 0;
  bool seesRaces = true;
};

/// Two ranges of different blocks that meet, though one is written; the later
/// block first. Sorts `ranges`.
std::optional<std::pair<TouchedRange, TouchedRange>>
findRace(std::vector<TouchedRange> &ranges);

/// Adds ranges to what a launch touched.
void addTouched(const std::vector<TouchedRange> &ranges, Touched &touched);

} // namespace heddle::rt::emulator

#endif // HEDDLE_RUNTIME_DEVICES_EMULATOR_TOUCHRECORDER_H
