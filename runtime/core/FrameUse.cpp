//===- FrameUse.cpp - Which bytes of a frame are in use -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/FrameUse.h"
#include <algorithm>
#include <iterator>

using namespace heddle;

std::map<std::string, int64_t>
plan::ownersAt(int64_t command, const std::vector<FrameRange> &ranges) {
  std::map<std::string, int64_t> owners;
  // The ranges of memory that have been counted, each as its begin and end.
  // They are disjoint, so that no byte is counted twice.
  std::map<int64_t, int64_t> taken;
  auto take = [&](const std::string &owner, int64_t begin, int64_t end) {
    while (begin < end) {
      auto next = taken.upper_bound(begin);
      if (next != taken.begin() && std::prev(next)->second > begin) {
        begin = std::prev(next)->second;
        continue;
      }
      int64_t stop = next == taken.end() ? end : std::min(end, next->first);
      owners[owner] += stop - begin;
      taken[begin] = stop;
      begin = stop;
    }
  };
  for (bool isLeft : {false, true})
    for (const FrameRange &range : ranges)
      if (isLeft ? !range.isLive(command) && command <= range.settled
                 : range.isLive(command))
        take(range.owner, range.offset, range.offset + range.bytes);
  return owners;
}

int64_t plan::peakCommand(const std::vector<FrameRange> &ranges) {
  // For each command at which the number of bytes in use changes: the
  // difference to the number before this command.
  std::map<int64_t, int64_t> inUse;
  auto add = [&](int64_t first, int64_t last, int64_t bytes) {
    if (first > last)
      return;
    inUse[first] += bytes;
    inUse[last + 1] -= bytes;
  };
  for (const FrameRange &range : ranges) {
    add(0, range.settled, range.bytes);
    add(std::max(range.first, range.settled + 1), range.last, range.bytes);
  }
  int64_t sum = 0;
  for (auto &entry : inUse)
    entry.second = sum += entry.second;
  int64_t most = -1, peak = 0;
  for (const FrameRange &range : ranges) {
    auto after = inUse.upper_bound(range.first);
    int64_t total = after == inUse.begin() ? 0 : std::prev(after)->second;
    if (total > most) {
      most = total;
      peak = range.first;
    }
  }
  return peak;
}
