//===- JobRate.h - Peak compute rate of a job -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the peak FLOP rate of all ranks, for the model FLOPs utilization
// (MFU) that `train` and `bench` print.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_JOBRATE_H
#define HEDDLE_RUNTIME_APP_JOBRATE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/devices/cpu/PeakRate.h"

namespace heddle::rt {

/// The FLOPs of a step and the peak FLOPs per second, both of all ranks
/// together. The MFU is computed from them.
struct JobRate {
  double stepFlops = 0; ///< FLOPs of the model in one step.
  double peakFlopsPerSecond = 0;
  bool isStated = false; ///< The peak is the vendor's figure, not measured.
  /// Whether `peakFlopsPerSecond` is not the measured peak, but the rate that
  /// the job reached in its own work, because this rate was higher.
  bool isSeen = false;
  std::string unit; ///< The instructions that have this peak, as `avx512f`.
  /// "stated", "measured" or "best seen".
  const char *kindOfPeak() const {
    return isStated ? "stated" : isSeen ? "best seen" : "measured";
  }
  /// Formats the peak as `measured peak 123 GFLOP/s (avx512f)`.
  std::string describe() const;
  /// Raises a measured peak to `flopsPerSecond`, a rate that the job itself has
  /// reached. Returns true if the peak was lower. It can be lower if other
  /// programs used the cores during the measurement.
  bool see(double flopsPerSecond);
  /// Takes over the peak of another measurement if it is higher.
  void keepBest(const JobRate &other);
};

/// The peak FLOP rates that one rank measured, while all other ranks measured
/// at the same time.
struct RankPeak {
  std::string host; ///< Identifies the host, whose ranks share a clock.
  PeakSamples windows;
};

/// Returns the peak of all ranks in FLOPs per second. On each host, the rates
/// of its ranks are added for each time interval, and the best interval counts.
/// The result is the sum over all hosts.
double peakOfRanks(const std::vector<RankPeak> &ranks);

/// Finds the peak FLOPs per second of all ranks. If the devices' vendor states
/// a peak (Device::statedPeak), the result is the sum of the stated peaks.
/// Otherwise all ranks measure their peaks at the same time. Collective.
JobRate measureJobRate(Job &job, const LoadedProgram &program);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_JOBRATE_H
