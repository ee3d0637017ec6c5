//===- Gpu.cpp - The GPU of a rank ----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the GPU of a rank, and computes its peak FLOP rate.
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/cuda/Gpu.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

DeviceNumber cuda::chooseGpu(const Driver &driver, int64_t localRank) {
  int count = 0;
  check(driver.deviceCount(&count), "counting GPUs");
  int64_t ordinal = count == 1 ? 0 : localRank;
  if (ordinal >= count)
    fail("H0282",
         "rank " + std::to_string(ordinal) + " of this machine has no GPU: " +
             "there are " + std::to_string(count),
         "start at most as many ranks on a machine as it has GPUs");
  DeviceNumber number = 0;
  check(driver.device(&number, int(ordinal)), "the choice of a GPU");
  return number;
}

GpuModel cuda::modelOf(const Driver &driver, DeviceNumber number) {
  GpuModel gpu;
  char name[256] = {};
  check(driver.deviceName(name, sizeof name - 1, number), "its name");
  gpu.name = name;
  check(driver.deviceAttribute(&gpu.major, ComputeMajor, number), "its model");
  check(driver.deviceAttribute(&gpu.minor, ComputeMinor, number), "its model");
  return gpu;
}

/// Returns the peak FLOP rate. A multiply-add counts as two operations.
StatedPeak cuda::peakOf(const Driver &driver, DeviceNumber number,
                        const GpuModel &gpu, const std::string &precision) {
  bool isNarrow = precision != "fp32";
  // The number of operations of a multiprocessor in one clock cycle. Consumer
  // GPUs reach half of it in bf16 and fp16.
  int perClock = gpu.major > 9    ? isNarrow ? 8192 : 256
                 : gpu.major == 9 ? isNarrow ? 4096 : 256
                 : gpu.minor == 0 ? isNarrow ? 2048 : 128
                 : isNarrow       ? 1024
                                  : 256;
  int multiprocessors = 0, kilohertz = 0;
  check(driver.deviceAttribute(&multiprocessors, Multiprocessors, number),
        "its size");
  check(driver.deviceAttribute(&kilohertz, ClockRate, number), "its clock");
  return StatedPeak{1e3 * kilohertz * multiprocessors * perClock,
                    "sm_" + std::to_string(10 * gpu.major + gpu.minor) +
                        (isNarrow ? " tensor cores, " + precision : ", f32")};
}

GpuHere heddle::rt::requireGpu(int64_t localRank) {
  const Driver &driver = Driver::get();
  GpuModel gpu = modelOf(driver, chooseGpu(driver, localRank));
  return {gpu.name, 10 * gpu.major + gpu.minor, driver.version(),
          driver.path()};
}

std::optional<GpuHere> heddle::rt::findGpu(int64_t localRank) {
  try {
    return requireGpu(localRank);
  } catch (const UserError &) {
    return std::nullopt;
  }
}
