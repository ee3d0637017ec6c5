//===- TestDevice.h - The devices that tests run on -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_TESTDEVICE_H
#define HEDDLE_TEST_RUNTIME_TESTDEVICE_H

#include "BigramPlan.h"
#include "Variable.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"
#include "heddle/runtime/devices/separate/SeparateDevice.h"

#include <gtest/gtest.h>
#include <optional>

namespace heddle::test {

/// Of a TestDevice: 0 is the CPU, then come three that are separate.
enum DeviceSeed { cudaLate = 1000, cudaEarly, cudaSeed };

/// A device with the threads that it runs on. Seed 0 is the CPU; a DeviceSeed
/// an emulated GPU that orders its work in that way, early without graphs; any
/// other that of a SeparateDevice.
class TestDevice {
public:
  explicit TestDevice(int seed, int64_t threads = 2)
      : isGpu(seed >= cudaLate), pool(threads) {
    if (isGpu) {
      Variable order("HEDDLE_EMULATE", seed == cudaLate    ? "late"
                                       : seed == cudaEarly ? "early"
                                                           : "seed:1");
      rt::CudaOptions options;
      options.graphs = seed != cudaEarly;
      device = rt::makeCudaDevice(options);
    } else if (seed == 0)
      device = std::make_unique<rt::CpuDevice>(pool);
    else
      device = std::make_unique<rt::SeparateDevice>(pool, seed);
  }
  rt::Device &operator*() const { return *device; }
  rt::Device *operator->() const { return device.get(); }

  /// The kernels of the bigram model, and where they stand.
  std::vector<char> bigramImage() const {
    return isGpu ? readBigramPtx() : readBigramKernels();
  }
  std::vector<plan::Kernel> bigramList() const {
    return isGpu ? listBigramPtx() : std::vector<plan::Kernel>();
  }
  std::unique_ptr<rt::KernelSet> bigramKernels() const {
    std::vector<char> image = bigramImage();
    return device->load(image.data(), image.size(), bigramList());
  }

private:
  bool isGpu;
  rt::ThreadPool pool;
  std::unique_ptr<rt::Device> device;
};

/// Tests that each device passes; GetParam() is the seed.
using OnEachDevice = testing::TestWithParam<int>;
inline auto eachDevice() {
  return testing::Values(0, 1, 2, 3, int(cudaLate), int(cudaEarly),
                         int(cudaSeed));
}
inline std::string deviceName(const testing::TestParamInfo<int> &info) {
  return info.param == 0           ? "cpu"
         : info.param == cudaLate  ? "cudaLate"
         : info.param == cudaEarly ? "cudaEarly"
         : info.param == cudaSeed  ? "cudaSeed"
                                   : "separate" + std::to_string(info.param);
}

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_TESTDEVICE_H
