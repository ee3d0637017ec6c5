//===- PeakRate.h - Measures this machine's peak FLOP rate ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the peak rate of multiplications of a CPU. Training and `heddle
// explain` compare the measured FLOP rates of a program with it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H

#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <string>

namespace heddle::rt {

/// Rates of multiply-adds on registers, summed over all threads: one rate for
/// each of several consecutive time intervals.
struct PeakSamples {
  /// The index of the first interval, counted since the start of the system's
  /// clock. All processes of a host count alike, so that the rates of ranks
  /// that share cores can be added interval by interval.
  int64_t first = 0;
  std::vector<double> flopsPerSecond;
  std::string unit; ///< The instructions that were measured: `amx-bf16`,
                    ///< `avx512f`, ...
};

/// Measures rates for a tenth of a second with the widest instructions of this
/// CPU that compute in `precision` (fp32 or bf16). The highest of the returned
/// rates is the peak, since other processes can only make an interval slower.
PeakSamples measurePeak(ThreadPool &pool, const std::string &precision);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_PEAKRATE_H
