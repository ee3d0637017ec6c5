//===- GlobalWrites.h - The last stores of a cluster's warps ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records which warp last stored to each byte of global memory, to find bulk
// copies that miss a proxy fence after a store.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_GLOBALWRITES_H
#define HEDDLE_EMULATOR_PTX_GLOBALWRITES_H

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace heddle::emulator {

/// The bytes of global memory that warps of a cluster wrote by stores and
/// atomic operations, each with the last writer and that warp's time. A bulk
/// copy may access such bytes only after a proxy fence.
class GlobalWrites {
public:
  struct Write {
    uint64_t end = 0;
    int warp = 0; ///< The warp's number in the cluster.
    uint32_t time = 0;
  };

  void clear() { writes.clear(); }

  /// Records that `made` wrote the bytes from `first` to `made.end`.
  void add(uint64_t first, Write made);

  /// The first byte of the range whose last write `isAllowed` refuses, and that
  /// write; none if all are allowed.
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
  /// By first byte; the ranges do not overlap.
  std::map<uint64_t, Write> writes;
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_GLOBALWRITES_H
