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

namespace heddle::rt::emulator {

/// Collects ranges of global memory. Accesses of an instruction often continue
/// one another, so each instruction has a range that grows.
class TouchRecorder {
public:
  explicit TouchRecorder(size_t ops) : last(ops) {}

  void add(size_t op, uint64_t first, uint64_t end, bool isWrite) {
    Run &run = last[op];
    if (first <= run.end && end >= run.first) {
      run.first = run.first < first ? run.first : first;
      run.end = run.end > end ? run.end : end;
      return;
    }
    flush(run);
    run = {first, end, isWrite};
  }
  /// Adds all of it to `touched`.
  void finish(Touched &touched);

private:
  struct Run {
    uint64_t first = 0, end = 0;
    bool isWrite = false;
  };
  struct Kept {
    std::vector<ByteRange> ranges;
    size_t most = size_t(1) << 16; ///< Before they are merged.
  };
  void flush(const Run &run);

  std::vector<Run> last; ///< By op.
  Kept reads, writes;
};

/// Sorts ranges, and makes one of those that meet.
void mergeRanges(std::vector<ByteRange> &ranges);

} // namespace heddle::rt::emulator

#endif // HEDDLE_RUNTIME_DEVICES_EMULATOR_TOUCHRECORDER_H
