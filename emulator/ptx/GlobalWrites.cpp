//===- GlobalWrites.cpp - The last stores of a cluster's warps ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/GlobalWrites.h"

#include <algorithm>

namespace heddle::emulator {

void GlobalWrites::add(uint64_t first, Write made) {
  auto isAlike = [&](const Write &other) {
    return other.warp == made.warp && other.time == made.time;
  };
  auto at = writes.lower_bound(first);
  if (at != writes.begin()) {
    auto before = std::prev(at);
    Write &old = before->second;
    if (old.end >= first && isAlike(old)) {
      // A store is often adjacent to the previous store of the same warp. In
      // this case extend the range of the previous store.
      first = before->first;
      made.end = std::max(made.end, old.end);
      at = before;
    } else if (old.end > first) {
      if (old.end > made.end)
        at = writes.emplace_hint(at, made.end, old);
      old.end = first;
    }
  }
  while (at != writes.end() && at->first < made.end) {
    Write rest = at->second;
    at = writes.erase(at);
    if (rest.end > made.end)
      at = writes.emplace_hint(at, made.end, rest);
  }
  writes[first] = made;
}

} // namespace heddle::emulator
