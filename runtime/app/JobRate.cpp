//===- JobRate.cpp - Peak compute rate of a job ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/JobRate.h"

#include <algorithm>
#include <map>
#include <sstream>

using namespace heddle::rt;

std::string JobRate::describe() const {
  return std::string(kindOfPeak()) + " peak " +
         std::to_string(int64_t(peakFlopsPerSecond / 1e9)) + " GFLOP/s (" +
         unit + ")";
}

bool JobRate::see(double flopsPerSecond) {
  if (isStated || flopsPerSecond <= peakFlopsPerSecond)
    return false;
  peakFlopsPerSecond = flopsPerSecond;
  isSeen = true;
  return true;
}

void JobRate::keepBest(const JobRate &other) {
  if (other.peakFlopsPerSecond > peakFlopsPerSecond)
    *this = other;
}

double heddle::rt::peakOfRanks(const std::vector<RankPeak> &ranks) {
  std::map<std::string, std::map<int64_t, double>> hosts;
  for (const RankPeak &rank : ranks) {
    int64_t window = rank.windows.first;
    for (double flops : rank.windows.flopsPerSecond)
      hosts[rank.host][window++] += flops;
  }
  double peak = 0;
  for (const auto &[host, windows] : hosts) {
    double best = 0;
    for (const auto &[window, flops] : windows)
      best = std::max(best, flops);
    peak += best;
  }
  return peak;
}

JobRate heddle::rt::measureJobRate(Job &job, const LoadedProgram &program) {
  job.ranks().exchange(""); // A barrier: all ranks start together.
  const std::string &precision = job.plan().precision;
  std::optional<StatedPeak> stated = job.device().statedPeak(precision);
  PeakSamples own;
  if (stated)
    own = {0, {stated->flopsPerSecond}, stated->unit};
  else
    own = measurePeak(job.threadPool(), precision);
  std::ostringstream said;
  said << io::hostIdentity() << ' ' << program.program().flops << ' '
       << own.first;
  for (double flops : own.flopsPerSecond)
    said << ' ' << flops;

  JobRate rate;
  rate.unit = own.unit;
  rate.isStated = stated.has_value();
  std::vector<RankPeak> peaks;
  for (const std::string &text : job.ranks().exchange(said.str())) {
    std::istringstream words(text);
    RankPeak &peak = peaks.emplace_back();
    double flops = 0;
    words >> peak.host >> flops >> peak.windows.first;
    rate.stepFlops += flops;
    while (words >> flops)
      peak.windows.flopsPerSecond.push_back(flops);
  }
  rate.peakFlopsPerSecond = peakOfRanks(peaks);
  return rate;
}
