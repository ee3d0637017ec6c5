//===- KernelTimes.cpp - How long each kernel takes -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTimes.h"
#include "Trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

void KernelTimes::add(const CommandList &commands,
                      const std::vector<LaunchTime> &times) {
  ++runs;
  for (size_t i = 0; i < commands.size(); ++i) {
    const LaunchInfo &info = commands.info(i);
    std::string name = launchName(plan, info);
    Sum &sum = sums[name];
    sum.name = name;
    sum.seconds += double(times[i].end - times[i].begin) * 1e-9;
    sum.launches += 1;
    if (info.kernel() >= 0) {
      sum.flops += plan.kernels[info.kernel()].flops;
      sum.bytes += plan.kernels[info.kernel()].bytes;
    }
  }
}

std::vector<KernelTimes::Sum> KernelTimes::longestFirst() const {
  std::vector<Sum> sorted;
  for (const auto &[kernel, sum] : sums)
    sorted.push_back(sum);
  std::sort(sorted.begin(), sorted.end(),
            [](const Sum &a, const Sum &b) { return a.seconds > b.seconds; });
  return sorted;
}

double KernelTimes::bestRate() const {
  double best = 0;
  for (const auto &[kernel, sum] : sums)
    if (sum.seconds > 0)
      best = std::max(best, sum.flops / sum.seconds);
  return best;
}

std::string KernelTimes::json() const {
  auto list = nlohmann::ordered_json::array();
  for (const Sum &sum : longestFirst())
    list.push_back({{"name", sum.name},
                    {"seconds", sum.seconds / double(runs)},
                    {"launches", sum.launches / runs},
                    {"flops", sum.flops / double(runs)},
                    {"bytes", sum.bytes / double(runs)}});
  return list.dump();
}

void KernelTimes::print() const {
  std::vector<Sum> sorted = longestFirst();
  double total = 0;
  for (const Sum &sum : sorted)
    total += sum.seconds;
  printf("%10s %6s %8s %9s %8s  %s\n", "ms/step", "share", "launches",
         "GFLOP/s", "GB/s", "kernel");
  for (const Sum &sum : sorted)
    printf("%10.3f %5.1f%% %8lld %9.1f %8.2f  %s\n",
           1e3 * sum.seconds / double(runs), 100 * sum.seconds / total,
           static_cast<long long>(sum.launches / runs),
           sum.flops / sum.seconds / 1e9, sum.bytes / sum.seconds / 1e9,
           sum.name.c_str());
}
