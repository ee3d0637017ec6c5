//===- TouchRecorder.cpp - Which bytes a launch touched -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/TouchRecorder.h"

#include <algorithm>

namespace heddle::rt::emulator {

void mergeRanges(std::vector<ByteRange> &ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ByteRange &a, const ByteRange &b) { return a.first < b.first; });
  size_t kept = 0;
  for (const ByteRange &range : ranges) {
    if (kept > 0 && range.first <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

void TouchRecorder::flush(const Run &run) {
  if (run.end == 0)
    return;
  Kept &kept = run.isWrite ? writes : reads;
  kept.ranges.push_back({run.first, run.end});
  if (kept.ranges.size() < kept.most)
    return;
  mergeRanges(kept.ranges);
  kept.most = std::max(kept.most, 2 * kept.ranges.size());
}

void TouchRecorder::finish(Touched &touched) {
  for (Run &run : last) {
    flush(run);
    run = {};
  }
  auto append = [](std::vector<ByteRange> &to, const Kept &from) {
    to.insert(to.end(), from.ranges.begin(), from.ranges.end());
    mergeRanges(to);
  };
  append(touched.reads, reads);
  append(touched.writes, writes);
}

} // namespace heddle::rt::emulator
