//===- SwapTimes.h - When bytes moved from and to files ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_SWAPTIMES_H
#define HEDDLE_RUNTIME_IO_SWAPTIMES_H

#include <chrono>
#include <cstdint>
#include <deque>

namespace heddle::io {

/// Nanoseconds of the steady clock.
inline int64_t steadyNow() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// When a transfer was under way, by `steadyNow`.
struct SwapTime {
  int64_t begin = 0, end = 0;
};

/// When copies were under way, as long as somebody asks for it.
class SwapTimes {
public:
  /// Notes those that begin from now on, or none. Nothing is under way, and
  /// what was noted is forgotten.
  void note(bool all) {
    notes = all;
    times.clear();
  }
  /// Where the times of the copy that begins go, or null.
  SwapTime *next() { return notes ? &times.emplace_back() : nullptr; }
  /// How many have begun.
  int64_t count() const { return int64_t(times.size()); }
  /// Of one that is done, by its number from 1 on.
  const SwapTime &of(int64_t number) const { return times[number - 1]; }

private:
  bool notes = false;
  std::deque<SwapTime> times; ///< Stay where they are while others come.
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_SWAPTIMES_H
