//===- KernelCheck.h - Kernels beside plain ones ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_KERNELCHECK_H
#define HEDDLE_RUNTIME_APP_KERNELCHECK_H

#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/runtime/core/Device.h"

namespace heddle::rt {

/// What came of one kernel.
struct CheckedKernel {
  std::string name;
  /// That of `compareResults`, of the result that is furthest from what it may
  /// be.
  double error = 0;
  double tolerance = 0; ///< What that may be.
  double seconds = 0, plainSeconds = 0;
  int64_t elements = 0, compared = 0; ///< Of the results.
  bool agrees() const { return error <= tolerance; }
};

/// Runs kernels of a plan, each on numbers of its own, beside those that were
/// made of the same bodies as plainly as possible.
class KernelChecker {
public:
  /// Loads both. `kernels` are those of the plan, in `image`. A launch of a
  /// plain one that would sum more terms than `mostTerms` computes the first
  /// and the last elements of its tensor alone; 0: none does.
  KernelChecker(Device &device, const std::vector<char> &image,
                const std::vector<plan::Kernel> &kernels,
                int64_t mostTerms = 0);

  /// Runs one of the kernels and its plain one. Throws what the device throws.
  CheckedKernel check(const plan::Kernel &kernel);

private:
  Device &device;
  bool hasParts;
  plan::PtxImage image;
  std::unique_ptr<KernelSet> fast, plain;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_KERNELCHECK_H
