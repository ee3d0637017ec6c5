//===- GpuTime.cpp - Predicts the time of kernels on a GPU ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sources of the constants:
// - Multiprocessors and clocks (boost): NVIDIA's data sheets and architecture
//   papers of the A100 and the H100 SXM.
// - Copies: 3.02 TB/s were measured on an H100 80GB HBM3, 90 % of its 3.35
//   TB/s. For the A100 80GB, 87 % of its 2.04 TB/s are assumed.
// - mma.sync: 63 % of the H100's 989 TFLOP/s, the share that Luo et al. found
//   on Hopper (arXiv 2402.13499); 87 % of the A100's 312 TFLOP/s, which its
//   fastest products reach.
// - The gap between launches: 1.3 us, measured on an H100 with CUDA graphs
//   (Hazy Research, "Look Ma, No Bubbles!", 2025).
//   With programmatic dependent launch there is none: others have measured 4 to
//   10 % more tokens per second with it (pull request 22522 of
//   ggml-org/llama.cpp), and 6.5 % less time of a layer (pull request 550 of
//   ai-dynamo/aiconfigurator).
// - The ramp is fitted to published tokens per second of models whose kernels
//   are launched one by one; test/Unit/Cost/GpuTimeTest.cpp has the rows.
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/GpuTime.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::cost;

const GpuSpeed *cost::findGpuSpeed(const std::string &target) {
  static const GpuSpeed a100 = {"A100 80GB SXM", 1.77e12, 108, 1.41e9,
                                0.87 * 312e12};
  static const GpuSpeed h100 = {
      "H100 80GB SXM",          3.02e12, 132, 1.98e9, 0.63 * 989e12,
      /*overlapsLaunches=*/true};
  if (target == "sm_80")
    return &a100;
  return target == "sm_90" || target == "sm_90a" ? &h100 : nullptr;
}

void GpuTime::add(const GpuSpeed &gpu, const LaunchWork &work, int64_t count,
                  const LaunchCost &cost) {
  double moving = work.bytes / gpu.copyBytesPerSecond;
  double issuing = work.instructions / gpu.issuePerSecond();
  double multiplying = work.tensorOperations / gpu.tensorOperationsPerSecond;
  double longest = std::max({moving, issuing, multiplying});
  (longest == moving    ? memory
   : longest == issuing ? issue
                        : tensor) += double(count) * longest;
  launches += double(count) * cost.seconds();
  bytes += double(count) * work.bytes;
}

const char *GpuTime::bound() const {
  double longest = std::max({memory, issue, tensor, launches});
  return longest == memory   ? "memory"
         : longest == issue  ? "issue slots"
         : longest == tensor ? "tensor cores"
                             : "launches";
}
