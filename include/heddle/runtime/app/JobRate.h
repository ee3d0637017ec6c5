//===- JobRate.h - What the cores of a job can do ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_JOBRATE_H
#define HEDDLE_RUNTIME_APP_JOBRATE_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/devices/cpu/PeakRate.h"

namespace heddle::rt {

/// Of all ranks together.
struct JobRate {
  double stepFlops = 0; ///< Of the model, in one step of a program.
  double peakFlopsPerSecond = 0;
  bool isStated = false; ///< The peak is the maker's figure, not measured.
  bool isSeen = false;   ///< It is the best rate of what the job computed.
  std::string unit;      ///< What has that peak, as `avx512f`.
  /// "stated", "measured" or "best seen".
  const char *kindOfPeak() const {
    return isStated ? "stated" : isSeen ? "best seen" : "measured";
  }
  /// Takes a rate of the job's own computation for a lower limit of a measured
  /// peak. Returns whether the peak was lower: other programs had the cores
  /// while it was measured.
  bool see(double flopsPerSecond);
  /// Takes the peak of another measurement where it is higher.
  void keepBest(const JobRate &other);
};

/// What one rank measured at the same time as the others.
struct RankPeak {
  std::string host; ///< Ranks of one host have one clock, and may share cores.
  PeakWindows windows;
};

/// What the cores of all ranks can do, in FLOPs per second: the best window of
/// each host, summed over its ranks.
double peakOfRanks(const std::vector<RankPeak> &ranks);

/// Measures, all ranks at once, what the cores of the job can do, or adds up
/// what is stated of its devices. Every rank calls it.
JobRate measureJobRate(Job &job, const LoadedProgram &program);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_JOBRATE_H
