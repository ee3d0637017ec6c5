//===- TestDevice.h - The devices that tests run on -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_TESTDEVICE_H
#define HEDDLE_TEST_RUNTIME_TESTDEVICE_H

#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/separate/SeparateDevice.h"

#include <gtest/gtest.h>

namespace heddle::test {

/// A device with the threads that it runs on. Seed 0 is the CPU; any other that
/// of a SeparateDevice.
class TestDevice {
public:
  explicit TestDevice(int seed, int64_t threads = 2) : pool(threads) {
    if (seed == 0)
      device = std::make_unique<rt::CpuDevice>(pool);
    else
      device = std::make_unique<rt::SeparateDevice>(pool, seed);
  }
  rt::Device &operator*() const { return *device; }
  rt::Device *operator->() const { return device.get(); }

private:
  rt::ThreadPool pool;
  std::unique_ptr<rt::Device> device;
};

/// Tests that each device passes; GetParam() is the seed.
using OnEachDevice = testing::TestWithParam<int>;
inline auto eachDevice() { return testing::Range(0, 4); }
inline std::string deviceName(const testing::TestParamInfo<int> &info) {
  return info.param == 0 ? "cpu" : "separate" + std::to_string(info.param);
}

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_TESTDEVICE_H
