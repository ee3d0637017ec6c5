//===- GlobalWrites.h - What a cluster's stores wrote -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_GLOBALWRITES_H
#define HEDDLE_EMULATOR_PTX_GLOBALWRITES_H

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace heddle::emulator {

/// Bytes of global memory that warps of a cluster wrote by stores and atomic
/// operations: who did last, and at what time of its own. A bulk copy may meet
/// them after a proxy fence alone.
class GlobalWrites {
public:
  struct Write {
    uint64_t end = 0;
    int warp = 0; ///< Its number in the cluster.
    uint32_t time = 0;
  };

  void clear() { writes.clear(); }

  /// The bytes from `first` to `made.end` are written.
  void add(uint64_t first, Write made);

  /// The first of these bytes whose write `isAllowed` refuses, and that write;
  /// null if there is none.
  template <class F>
  const std::pair<const uint64_t, Write> *
  findRefused(uint64_t first, uint64_t end, F isAllowed) const {
    auto at = writes.upper_bound(first);
    if (at != writes.begin() && std::prev(at)->second.end > first)
      --at;
    for (; at != writes.end() && at->first < end; ++at)
      if (!isAllowed(at->second))
        return &*at;
    return nullptr;
  }

private:
  std::map<uint64_t, Write> writes; ///< By their first byte; none meet.
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_GLOBALWRITES_H
