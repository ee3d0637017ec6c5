//===- KernelCheck.h - Compare kernels with simple ones ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies kernels for the verb `check`: runs each on random data and compares
// its results with those of a kernel that was compiled from the same body
// without optimizations.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_KERNELCHECK_H
#define HEDDLE_RUNTIME_APP_KERNELCHECK_H

#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/core/DrawOperand.h"

namespace heddle::rt {

/// The result of one kernel.
struct CheckedKernel {
  std::string name;
  /// The error of the kernel's worst result, as `compareResults` computes it.
  /// The worst result is the one whose error is largest relative to its
  /// tolerance.
  double error = 0;
  double tolerance = 0; ///< Largest error that is allowed.
  double seconds = 0, plainSeconds = 0;
  /// The number of elements of all results, and how many of them were compared.
  int64_t elements = 0, compared = 0;
  bool agrees() const { return error <= tolerance; }
};

/// Runs kernels of a plan on random data, together with reference kernels that
/// were compiled from the same bodies without optimizations ("simple kernels").
class KernelChecker {
public:
  /// Loads the plan's kernels `kernels` from `image`, and their reference
  /// kernels, which were compiled without optimizations. A reference kernel may
  /// be slow: if its launch would sum more than `mostTerms` terms, such as the
  /// products of a matrix product, it computes only the first and last elements
  /// of its result. 0 means no limit.
  KernelChecker(Device &device, const std::vector<char> &image,
                const std::vector<plan::Kernel> &kernels,
                int64_t mostTerms = 0);

  /// Runs a kernel and its unoptimized reference kernel on the same random
  /// data, and compares their results. Operands that are constants of the plan
  /// have their values. Throws errors of the device.
  CheckedKernel check(const plan::Kernel &kernel,
                      const KernelConstants &constants = {});

private:
  Device &device;
  bool hasParts;
  plan::PtxImage image;
  std::unique_ptr<KernelSet> fast, plain;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_KERNELCHECK_H
