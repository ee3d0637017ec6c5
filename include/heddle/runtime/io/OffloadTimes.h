//===- OffloadTimes.h - When bytes moved from and to files ---------*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_OFFLOADTIMES_H
#define HEDDLE_RUNTIME_IO_OFFLOADTIMES_H

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
struct OffloadTime {
  int64_t begin = 0, end = 0;
};

/// When copies were under way, as long as somebody asks for it.
class OffloadTimes {
public:
  /// Notes those that begin from now on, or none. Nothing is under way, and
  /// what was noted is forgotten.
  void note(bool all) {
    notes = all;
    times.clear();
  }
  /// Where the times of the copy that begins go, or null.
  OffloadTime *next() { return notes ? &times.emplace_back() : nullptr; }
  /// How many have begun.
  int64_t count() const { return int64_t(times.size()); }
  /// Of one that is done, by its number from 1 on.
  const OffloadTime &of(int64_t number) const { return times[number - 1]; }

private:
  bool notes = false;
  std::deque<OffloadTime> times; ///< Stay where they are while others come.
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADTIMES_H
