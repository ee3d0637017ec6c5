//===- Gpu.h - The GPU of a rank --------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_GPU_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_GPU_H

#include "heddle/runtime/devices/cuda/Driver.h"
#include "runtime/devices/cuda/Kernels.h"

namespace heddle::rt::cuda {

/// The GPU of a rank: a launcher may show each rank its own alone.
/// Throws H0282 when it has none.
DeviceNumber chooseGpu(const Driver &driver, int64_t localRank);
GpuModel modelOf(const Driver &driver, DeviceNumber number);
/// What it can do at most, as its maker says, in computations of that
/// precision.
StatedPeak peakOf(const Driver &driver, DeviceNumber number,
                  const GpuModel &gpu, const std::string &precision);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_GPU_H
