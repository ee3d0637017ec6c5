//===- TouchRecorder.cpp - Which bytes a launch touched -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/TouchRecorder.h"

#include <algorithm>
#include <tuple>

namespace heddle::rt::emulator {

/// Sorts ranges of a block, and makes one of those of an instruction that meet.
static void merge(std::vector<TouchedRange> &ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto &a, const auto &b) {
    return std::tie(a.op, a.first) < std::tie(b.op, b.first);
  });
  size_t kept = 0;
  for (const TouchedRange &range : ranges) {
    if (kept > 0 && range.op == ranges[kept - 1].op &&
        range.first <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

void TouchRecorder::flush(TouchedRange &run) {
  if (run.end == 0)
    return;
  ofBlock.push_back(run);
  run = {};
  if (ofBlock.size() < most)
    return;
  merge(ofBlock);
  most = std::max(most, 2 * ofBlock.size());
}

void TouchRecorder::endBlock() {
  for (TouchedRange &run : last)
    flush(run);
  merge(ofBlock);
  std::vector<TouchedRange> &to = seesRaces ? raceable : ordered;
  to.insert(to.end(), ofBlock.begin(), ofBlock.end());
  ofBlock.clear();
}

void TouchRecorder::endRaces() {
  if (!seesRaces)
    return;
  endBlock();
  seesRaces = false;
}

void TouchRecorder::finish(std::vector<TouchedRange> &intoRaceable,
                           std::vector<TouchedRange> &others) {
  endBlock();
  intoRaceable.insert(intoRaceable.end(), raceable.begin(), raceable.end());
  others.insert(others.end(), ordered.begin(), ordered.end());
}

namespace {
/// Of the ranges of one kind so far, those of two blocks that reach furthest.
struct Furthest {
  const TouchedRange *best = nullptr, *second = nullptr;

  void add(const TouchedRange &range) {
    if (!best || range.end > best->end) {
      if (best && best->block != range.block)
        second = best;
      best = &range;
    } else if (range.block != best->block &&
               (!second || range.end > second->end)) {
      second = &range;
    }
  }
  /// One of another block that meets `range`, which begins no earlier.
  const TouchedRange *meeting(const TouchedRange &range) const {
    const TouchedRange *other =
        best && best->block == range.block ? second : best;
    return other && other->end > range.first ? other : nullptr;
  }
};
} // namespace

std::optional<std::pair<TouchedRange, TouchedRange>>
findRace(std::vector<TouchedRange> &ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto &a, const auto &b) {
    return std::tie(a.first, a.end, a.block, a.op) <
           std::tie(b.first, b.end, b.block, b.op);
  });
  Furthest furthest[3];
  for (const TouchedRange &range : ranges) {
    for (Touch kind : {Touch::Read, Touch::Write, Touch::Atomic}) {
      if (kind == range.kind && kind != Touch::Write)
        continue;
      if (const auto *other = furthest[int(kind)].meeting(range))
        return range.block < other->block ? std::pair(*other, range)
                                          : std::pair(range, *other);
    }
    furthest[int(range.kind)].add(range);
  }
  return std::nullopt;
}

/// Sorts ranges, and makes one of those that meet.
static void mergeRanges(std::vector<ByteRange> &ranges) {
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

void addTouched(const std::vector<TouchedRange> &ranges, Touched &touched) {
  for (const TouchedRange &range : ranges)
    (range.kind == Touch::Read ? touched.reads : touched.writes)
        .push_back({range.first, range.end});
  mergeRanges(touched.reads);
  mergeRanges(touched.writes);
}

} // namespace heddle::rt::emulator
