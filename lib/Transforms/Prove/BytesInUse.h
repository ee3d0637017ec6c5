//===- BytesInUse.h - Bytes that running operations use ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bytes of operations that may still be running, for the check of races.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_PROVE_BYTESINUSE_H
#define HEDDLE_LIB_TRANSFORMS_PROVE_BYTESINUSE_H

#include "heddle/Transforms/Prove/Traces.h"
#include <algorithm>
#include <map>

namespace heddle::prove {

/// The bytes that one execution of an access touches.
struct Use {
  Range range;
  bool writes = false;
  int32_t rankTerm = 0;
  int64_t spread = 0;

  Use(const Access &access, const BodyRun &run)
      : range(Trace::rangeOf(access, run)), writes(access.writes),
        rankTerm(access.rankTerm), spread(access.spread) {}

  /// All bytes that the access touches on any rank.
  Range everywhere() const { return {range.begin, range.end + spread}; }

  bool conflicts(const Use &other) const {
    if (!writes && !other.writes)
      return false;
    return rankTerm == other.rankTerm
               ? range.overlaps(other.range)
               : everywhere().overlaps(other.everywhere());
  }
};

/// The bytes that are used by operations which may still be running.
class BytesInUse {
public:
  struct Entry {
    Use use;
    int64_t operation;
  };
  /// Sorted by their first byte.
  using Entries = std::multimap<int64_t, Entry>;
  using Handle = std::pair<Space, Entries::iterator>;

  Handle insert(Space space, const Use &use, int64_t operation) {
    Range range = use.everywhere();
    int64_t &most = longest[int(space)];
    most = std::max(most, range.end - range.begin);
    return {space,
            entries[int(space)].insert({range.begin, Entry{use, operation}})};
  }
  void erase(const Handle &handle) {
    entries[int(handle.first)].erase(handle.second);
  }
  bool empty(Space space) const { return entries[int(space)].empty(); }

  /// Returns a range that covers all bytes of `space` that are used by
  /// operations which may still be running.
  Range hull(Space space) const {
    const Entries &list = entries[int(space)];
    return {list.begin()->first, list.rbegin()->first + longest[int(space)]};
  }

  /// Returns an operation that may still be running and conflicts with `use`;
  /// -1 if there is none. `isBefore` returns true for operations that are known
  /// to be done, or that never happen in the same step.
  template <typename IsBefore>
  int64_t find(Space space, const Use &use, IsBefore isBefore) const {
    const Entries &list = entries[int(space)];
    Range range = use.everywhere();
    for (auto entry = list.lower_bound(range.begin - longest[int(space)]);
         entry != list.end() && entry->first < range.end; ++entry)
      if (entry->second.use.conflicts(use) &&
          !isBefore(entry->second.operation))
        return entry->second.operation;
    return -1;
  }
  int64_t find(Space space, const Use &use) const {
    return find(space, use, [](int64_t) { return false; });
  }

private:
  Entries entries[2];
  int64_t longest[2] = {0, 0};
};

} // namespace heddle::prove

#endif // HEDDLE_LIB_TRANSFORMS_PROVE_BYTESINUSE_H
