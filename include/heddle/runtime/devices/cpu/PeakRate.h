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

/// A measured rate of multiply-adds on registers, all threads at once.
struct PeakRate {
  double flopsPerSecond = 0;
  std::string unit; ///< What was measured: `amx-bf16`, `avx512f`, ...
};

/// Measures for some hundredths of a second the widest unit of this CPU that
/// computes in `precision` (fp32 or bf16).
PeakRate measurePeak(ThreadPool &pool, const std::string &precision);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H
