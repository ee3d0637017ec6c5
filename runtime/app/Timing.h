//===- Timing.h - Helpers of measurements -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_TIMING_H
#define HEDDLE_RUNTIME_APP_TIMING_H

#include <algorithm>
#include <ctime>
#include <vector>

namespace heddle::rt {

/// Returns the processor time of all threads. Unlike wall time, it does not
/// grow while other processes use the cores.
inline double processorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Returns the median of `values`, of which there is at least one; sorts
/// `values`.
inline double medianOf(std::vector<double> &values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_TIMING_H
