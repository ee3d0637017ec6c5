//===- PeakRate.h - How fast this machine multiplies ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H

#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <string>

namespace heddle::rt {

/// Rates of multiply-adds on registers, all threads at once, in consecutive
/// spans of time.
struct PeakSamples {
  /// The number of the first span since the host's clock began: processes of
  /// one host count alike, so that the sum over those that share cores is what
  /// the cores do.
  int64_t first = 0;
  std::vector<double> flopsPerSecond;
  std::string unit; ///< What was measured: `amx-bf16`, `avx512f`, ...
};

/// Measures for a tenth of a second the widest unit of this CPU that computes
/// in `precision` (fp32 or bf16). The best span is the peak: what slows the
/// others down is not the machine's.
PeakSamples measurePeak(ThreadPool &pool, const std::string &precision);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H
