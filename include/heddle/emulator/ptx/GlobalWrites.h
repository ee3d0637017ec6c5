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
/// atomic operations. Each range has the warp that wrote it last, and the time
/// in that warp's vector clock at the write. A bulk copy may access such bytes
/// only after a proxy fence.
class GlobalWrites {
public:
  struct Write {
    uint64_t end = 0;
    int warp = 0; ///< The warp's number in the cluster.
    uint32_t time = 0;
  };

  void clear() { writes.clear(); }

  /// Records that the warp `made.warp` wrote the bytes from `first` to
  /// `made.end` at the time `made.time`.
  void add(uint64_t first, Write made);

  /// Returns the first range of written bytes in [first, end) for whose last
  /// write `isAllowed` returns false. Returns null if there is none.
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
  /// The last writes. The key is the first byte of a range; ranges do not
  /// overlap.
  std::map<uint64_t, Write> writes;
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_GLOBALWRITES_H
