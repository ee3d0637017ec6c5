//===- Gpu.h - The GPU of a rank --------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the GPU of a rank, and tells its peak FLOP rate.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_GPU_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_GPU_H

#include "heddle/runtime/devices/cuda/Driver.h"
#include "runtime/devices/cuda/Kernels.h"

namespace heddle::rt::cuda {

/// Returns the GPU whose index is the rank's index on its machine. If only one
/// GPU is visible, returns that one, since a launcher may show each rank only
/// its own GPU. Throws H0282 if there is no GPU for the rank.
DeviceNumber chooseGpu(const Driver &driver, int64_t localRank);
GpuModel modelOf(const Driver &driver, DeviceNumber number);
/// Returns the peak FLOP rate of a GPU for computations in `precision`,
/// according to its specification.
StatedPeak peakOf(const Driver &driver, DeviceNumber number,
                  const GpuModel &gpu, const std::string &precision);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_GPU_H
