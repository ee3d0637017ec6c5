//===- AccessRecorder.cpp - Accesses of global memory in a launch ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges the ranges that blocks accessed, and finds two that race.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/AccessRecorder.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace heddle::emulator {

/// The properties that decide with which ranges a range can race. Two ranges
/// with equal properties may be merged if they overlap or touch.
static auto keyOf(const RangeAccess &range) {
  return std::tie(range.by.op, range.by.arrivals, range.by.waits,
                  range.seesCluster);
}

/// Sorts a block's ranges, and merges adjacent ones of the same instruction.
static void merge(std::vector<RangeAccess> &ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto &a, const auto &b) {
    return std::tuple_cat(keyOf(a), std::tie(a.first)) <
           std::tuple_cat(keyOf(b), std::tie(b.first));
  });
  size_t kept = 0;
  for (const RangeAccess &range : ranges) {
    if (kept > 0 && keyOf(range) == keyOf(ranges[kept - 1]) &&
        range.first <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

void AccessRecorder::flush(RangeAccess &run) {
  if (run.end == 0)
    return;
  constexpr uint64_t line = 128, factor = 0x9e3779b97f4a7c15;
  uint64_t hash = (run.first / line + uint64_t(run.by.op) * 8191) * factor;
  RangeAccess &known = recent[hash >> 54];
  if (known.end && keyOf(known) == keyOf(run) && run.first <= known.end &&
      run.end >= known.first) {
    known.first = std::min(known.first, run.first);
    known.end = std::max(known.end, run.end);
  } else {
    keep(known);
    known = run;
  }
  run = {};
}

void AccessRecorder::flushAll() {
  for (RangeAccess &run : last)
    flush(run);
  for (RangeAccess &run : recent)
    keep(run);
}

void AccessRecorder::keep(RangeAccess &run) {
  if (run.end == 0)
    return;
  ofBlock.push_back(run);
  run = {};
  if (ofBlock.size() < most)
    return;
  merge(ofBlock);
  most = std::max(most, 2 * ofBlock.size());
}

void AccessRecorder::endBlock() {
  flushAll();
  merge(ofBlock);
  std::vector<RangeAccess> &to = seesRaces ? raceable : ordered;
  to.insert(to.end(), ofBlock.begin(), ofBlock.end());
  ofBlock.clear();
}

void AccessRecorder::endRaces() {
  if (!seesRaces)
    return;
  endBlock();
  seesRaces = false;
}

void AccessRecorder::endClusterRaces() {
  if (!seesCluster)
    return;
  flushAll();
  seesCluster = false;
}

void AccessRecorder::finish(std::vector<RangeAccess> &intoRaceable,
                            std::vector<RangeAccess> &others) {
  endBlock();
  intoRaceable.insert(intoRaceable.end(), raceable.begin(), raceable.end());
  others.insert(others.end(), ordered.begin(), ordered.end());
}

using RacePair = std::pair<RangeAccess, RangeAccess>;

/// Returns `a` and `b` as a pair, first the range of the block with the larger
/// index.
static RacePair inOrder(const RangeAccess &a, const RangeAccess &b) {
  return a.block < b.block ? RacePair(b, a) : RacePair(a, b);
}

/// Whether it is no race if one block accesses bytes in the way `a`, and
/// another block accesses the same bytes in the way `b`.
static bool areCompatible(AccessKind a, AccessKind b) {
  if (!writes(a) && !writes(b))
    return true;
  auto isAtomic = [](AccessKind kind) {
    return kind == AccessKind::Atomic || kind == AccessKind::AtomicRead;
  };
  return isAtomic(a) && isAtomic(b);
}

namespace {
/// Remembers two of the ranges that were added so far. Ranges are added in the
/// order of their addresses. `best` is the range that ends last. `second` is
/// the range that ends last among the ranges of other clusters than that of
/// `best`. If a later range overlaps any added range of another cluster, it
/// overlaps `best` or `second`.
struct Furthest {
  const RangeAccess *best = nullptr, *second = nullptr;

  void add(const RangeAccess &range) {
    if (!best || range.end > best->end) {
      if (best && best->cluster != range.cluster)
        second = best;
      best = &range;
    } else if (range.cluster != best->cluster &&
               (!second || range.end > second->end)) {
      second = &range;
    }
  }
  /// Returns an added range of another cluster that overlaps `range`, or null.
  /// No added range may begin after the beginning of `range`.
  const RangeAccess *meeting(const RangeAccess &range) const {
    const RangeAccess *other =
        best && best->cluster == range.cluster ? second : best;
    return other && other->end > range.first ? other : nullptr;
  }
};
} // namespace

/// Finds a race between blocks of different clusters. `ranges` must be sorted
/// by address.
static std::optional<RacePair>
raceOfClusters(const std::vector<RangeAccess> &ranges) {
  constexpr AccessKind kinds[] = {AccessKind::Read, AccessKind::AtomicRead,
                                  AccessKind::Write, AccessKind::Atomic};
  Furthest furthest[std::size(kinds)];
  for (const RangeAccess &range : ranges) {
    for (AccessKind kind : kinds)
      if (!areCompatible(kind, range.by.kind))
        if (const auto *other = furthest[int(kind)].meeting(range))
          return inOrder(range, *other);
    furthest[int(range.by.kind)].add(range);
  }
  return std::nullopt;
}

/// Finds a race between blocks of the same cluster.
static std::optional<RacePair>
raceInCluster(const std::vector<const RangeAccess *> &ranges) {
  auto isBefore = [](const RangeAccess &a, const RangeAccess &b) {
    return a.by.arrivals < b.by.waits;
  };
  std::vector<const RangeAccess *> open;
  for (const RangeAccess *range : ranges) {
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const RangeAccess *other) {
                                return other->end <= range->first;
                              }),
               open.end());
    for (const RangeAccess *other : open)
      if (other->block != range->block &&
          !areCompatible(other->by.kind, range->by.kind) &&
          !isBefore(*other, *range) && !isBefore(*range, *other))
        return inOrder(*range, *other);
    open.push_back(range);
  }
  return std::nullopt;
}

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

/// Erases reads that overlap no write, because they cannot race. Most of what a
/// launch reads is erased.
static void dropUnwritten(std::vector<RangeAccess> &ranges) {
  std::vector<ByteRange> written;
  for (const RangeAccess &range : ranges)
    if (writes(range.by.kind))
      written.push_back({range.first, range.end});
  mergeRanges(written);
  auto isUnwritten = [&](const RangeAccess &range) {
    auto after = std::lower_bound(
        written.begin(), written.end(), range.end,
        [](const ByteRange &one, uint64_t end) { return one.first < end; });
    return after == written.begin() || std::prev(after)->end <= range.first;
  };
  ranges.erase(std::remove_if(ranges.begin(), ranges.end(), isUnwritten),
               ranges.end());
}

static void sortByAddress(std::vector<RangeAccess> &ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto &a, const auto &b) {
    return std::tie(a.first, a.end, a.block, a.by.op) <
           std::tie(b.first, b.end, b.block, b.by.op);
  });
}

std::optional<RacePair> findChangedConstant(std::vector<RangeAccess> &ranges,
                                            const std::vector<Op> &ops) {
  sortByAddress(ranges);
  // Among the ranges that the loop has visited: the range that was read by an
  // ld.global.nc and ends last, and the range that was written and ends last.
  const RangeAccess *read = nullptr, *written = nullptr;
  auto meets = [](const RangeAccess *one, const RangeAccess &range) {
    return one && one->end > range.first;
  };
  auto take = [](const RangeAccess *&furthest, const RangeAccess &range) {
    if (!furthest || range.end > furthest->end)
      furthest = &range;
  };
  for (const RangeAccess &range : ranges) {
    if (writes(range.by.kind)) {
      if (meets(read, range))
        return RacePair(*read, range);
      take(written, range);
    } else if (ops[range.by.op].readsConstants) {
      if (meets(written, range))
        return RacePair(range, *written);
      take(read, range);
    }
  }
  return std::nullopt;
}

std::optional<RacePair> findRace(std::vector<RangeAccess> &ranges) {
  dropUnwritten(ranges);
  sortByAddress(ranges);
  if (auto race = raceOfClusters(ranges))
    return race;
  std::map<int64_t, std::vector<const RangeAccess *>> ofCluster;
  for (const RangeAccess &range : ranges)
    if (range.seesCluster)
      ofCluster[range.cluster].push_back(&range);
  for (const auto &[cluster, inOrder] : ofCluster)
    if (auto race = raceInCluster(inOrder))
      return race;
  return std::nullopt;
}

void addAccesses(const std::vector<RangeAccess> &ranges,
                 AccessedRanges &touched) {
  for (const RangeAccess &range : ranges)
    (writes(range.by.kind) ? touched.writes : touched.reads)
        .push_back({range.first, range.end});
  mergeRanges(touched.reads);
  mergeRanges(touched.writes);
}

} // namespace heddle::emulator
