//===- Packing.cpp - Packs buffers by their lifetimes ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Memory/Packing.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace heddle::memory;

static bool liveTogether(const Interval &a, const Interval &b) {
  auto finds = [](const Interval &later, const Interval &left) {
    return later.first <= left.settled && !later.followsCarried;
  };
  return (a.first <= b.last && b.first <= a.last) || finds(a, b) || finds(b, a);
}

int64_t heddle::memory::pack(llvm::MutableArrayRef<Interval> intervals,
                             int64_t alignment) {
  llvm::SmallVector<Interval *> order;
  for (Interval &interval : intervals)
    order.push_back(&interval);
  // The sort must be stable, so that the same program always gets the same
  // plan.
  llvm::stable_sort(order, [](const Interval *a, const Interval *b) {
    return a->bytes > b->bytes;
  });
  int64_t size = 0;
  llvm::SmallVector<Interval *> placed;
  for (Interval *interval : order) {
    int64_t bytes = alignTo(interval->bytes, alignment);
    int64_t offset = 0;
    for (const Interval *other : placed) {
      if (!liveTogether(*interval, *other))
        continue;
      if (offset + bytes <= other->offset)
        break;
      int64_t end = other->offset + alignTo(other->bytes, alignment);
      offset = std::max(offset, alignTo(end, interval->alignment));
    }
    interval->offset = offset;
    size = std::max(size, offset + bytes);
    auto place = llvm::upper_bound(placed, interval,
                                   [](const Interval *a, const Interval *b) {
                                     return a->offset < b->offset;
                                   });
    placed.insert(place, interval);
  }
  return size;
}

int64_t heddle::memory::lowerBound(llvm::ArrayRef<Interval> intervals,
                                   int64_t alignment) {
  std::map<int64_t, int64_t> changes;
  for (const Interval &interval : intervals) {
    int64_t bytes = alignTo(interval.bytes, alignment);
    changes[interval.first] += bytes;
    changes[interval.last + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (auto [command, change] : changes)
    most = std::max(most, live += change);
  return most;
}
