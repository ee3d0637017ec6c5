//===- KernelTimes.h - How long each kernel takes ---------------*- C++ -*-===//
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

/// The time of each kernel, and of all copies, fills and so on, over runs of a
/// program.
class KernelTimes {
public:
  explicit KernelTimes(const plan::Plan &plan) : plan(plan) {}

  /// Adds a run. `times` are those of the list's entries.
  void add(const CommandList &commands, const std::vector<LaunchTime> &times);
  /// Prints a table, the longest first: of a run, the mean.
  void print() const;
  /// The same as an array of JSON: seconds, launches, flops and bytes of a run.
  std::string json() const;
  /// The highest rate of a kernel, in FLOPs per second.
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
