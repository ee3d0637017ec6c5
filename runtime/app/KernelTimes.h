//===- KernelTimes.h - Time of each kernel ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_KERNELTIMES_H
#define HEDDLE_RUNTIME_APP_KERNELTIMES_H

#include "heddle/runtime/core/CommandList.h"

#include <map>
#include <string>
#include <vector>

namespace heddle::rt {

/// Sums the time of each kernel, and of all copies, fills and other commands,
/// over runs of a program.
class KernelTimes {
public:
  explicit KernelTimes(const plan::Plan &plan) : plan(plan) {}

  /// Adds the times of one run of a program. `times` has one entry for each
  /// command of `commands`.
  void add(const CommandList &commands, const std::vector<LaunchTime> &times);
  /// Prints a table of means per run, longest first.
  void print() const;
  /// Returns a JSON array with an object for each line of the table that
  /// `print` prints: seconds, launches, FLOPs and bytes per run.
  std::string json() const;
  /// Returns the rate of the fastest kernel, in FLOPs per second.
  double bestRate() const;

private:
  struct Sum {
    std::string name;
    double seconds = 0;
    int64_t launches = 0;
    double flops = 0, bytes = 0;
  };
  std::vector<Sum> longestFirst() const;

  const plan::Plan &plan;
  std::map<std::string, Sum> sums;
  int64_t runs = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_KERNELTIMES_H
