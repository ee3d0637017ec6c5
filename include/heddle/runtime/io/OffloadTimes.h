//===- OffloadTimes.h - When transfers were in flight -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records when transfers from and to files were in flight, for `bench` and for
// traces.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_OFFLOADTIMES_H
#define HEDDLE_RUNTIME_IO_OFFLOADTIMES_H

#include <chrono>
#include <cstdint>
#include <deque>

namespace heddle::io {

/// Returns nanoseconds of the steady clock.
inline int64_t steadyNow() {
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Begin and end of a transfer, in nanoseconds of `steadyNow`.
struct OffloadTime {
  int64_t begin = 0, end = 0;
};

/// Records the times of transfers while recording is on.
class OffloadTimes {
public:
  /// Turns recording on or off and discards what was recorded. No transfer may
  /// be in flight.
  void note(bool all) {
    notes = all;
    times.clear();
  }
  /// Returns the record into which the next transfer writes its times; null if
  /// recording is off.
  OffloadTime *next() { return notes ? &times.emplace_back() : nullptr; }
  /// The number of transfers that were started while recording was on.
  int64_t count() const { return int64_t(times.size()); }
  /// Returns the times of a completed transfer. Transfer 1 is the first one
  /// that was started while recording was on.
  const OffloadTime &of(int64_t number) const { return times[number - 1]; }

private:
  bool notes = false;
  /// A deque, so that entries keep their addresses.
  std::deque<OffloadTime> times;
};

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OFFLOADTIMES_H
