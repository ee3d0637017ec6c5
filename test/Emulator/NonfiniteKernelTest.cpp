//===- NonfiniteKernelTest.cpp - The search of overflows on a GPU ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the runtime's search of infinite and NaN numbers on the emulated driver.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/NonfiniteKernel.h"
#include "heddle/runtime/devices/cuda/CudaDevice.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using plan::DType;

namespace {

constexpr uint32_t infinityOf(DType type) {
  return type == DType::F16    ? 0x7c00
         : type == DType::BF16 ? 0x7f80
                               : 0x7f800000;
}

class NonfiniteKernelTest : public testing::Test {
protected:
  struct Numbers {
    DType type;
    int64_t count;
  };
  /// A range longer than one turn of all threads, and odd ones.
  static constexpr Numbers all[] = {{DType::F32, 70001},
                                    {DType::BF16, 3},
                                    {DType::F16, 1},
                                    {DType::BF16, 131},
                                    {DType::F16, 257}};

  NonfiniteKernelTest() {
    for (const Numbers &numbers : all) {
      // The largest finite number, with the sign bit set in every other one.
      auto bytes = int64_t(plan::byteSize(numbers.type));
      std::vector<char> values(numbers.count * bytes);
      for (int64_t i = 0; i < numbers.count; ++i) {
        uint32_t bits = infinityOf(numbers.type) - 1;
        bits |= i % 2 ? 1u << (8 * bytes - 1) : 0;
        std::memcpy(&values[i * bytes], &bits, bytes);
      }
      memory.emplace_back(*device, MemoryRequest{MemoryKind::Device,
                                                 int64_t(values.size()), "it"});
      Address begin = memory.back().address();
      device->copyIn(Stream::Compute, begin, values.data(),
                     int64_t(values.size()));
      device->synchronize();
      ranges.push_back({begin, numbers.type, numbers.count});
    }
    search = device->searchNonfinite(ranges);
  }

  /// Writes the bits of a number.
  void write(size_t range, int64_t index, uint32_t bits) {
    auto bytes = int64_t(plan::byteSize(ranges[range].type));
    device->copyIn(Stream::Compute, ranges[range].begin + index * bytes, &bits,
                   bytes);
    device->synchronize();
  }

  int32_t find(float condition) {
    DeviceMemory given(*device, {MemoryKind::Device, 4, "the condition"});
    device->copyIn(Stream::Compute, given.address(), &condition, 4);
    search->submit(given.address());
    int32_t found = -1;
    device->copyOut(Stream::Compute, &found, search->result(), 4);
    device->synchronize();
    return found;
  }

  std::unique_ptr<Device> device = makeCudaDevice();
  std::deque<DeviceMemory> memory;
  std::vector<NumberRange> ranges;
  std::unique_ptr<NonfiniteSearch> search;
};

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST_F(NonfiniteKernelTest, FindsTheLastRange) {
  EXPECT_EQ(find(infinity), 0);
  for (size_t range = 0; range < std::size(all); ++range) {
    auto [type, count] = all[range];
    uint32_t bits = infinityOf(type);
    uint32_t sign = 1u << (8 * plan::byteSize(type) - 1);
    for (int64_t index : {int64_t(0), count - 1})
      // Infinity, -infinity and NaN.
      for (uint32_t bad : {bits, bits | sign, bits | 1}) {
        write(range, index, bad);
        EXPECT_EQ(find(-infinity), int32_t(range) + 1) << range << " " << index;
        write(range, index, 0);
      }
    // Later ranges win.
    write(range, 0, bits);
    EXPECT_EQ(find(std::nanf("")), int32_t(range) + 1);
  }
}

TEST_F(NonfiniteKernelTest, LooksAtNothingWithoutAnOverflow) {
  write(0, 5, infinityOf(all[0].type));
  EXPECT_EQ(find(std::numeric_limits<float>::max()), 0);
  EXPECT_EQ(find(infinity), 1);
  EXPECT_EQ(find(0), 0);
}

/// If ptxas is installed, it must accept the kernel's PTX.
TEST_F(NonfiniteKernelTest, IsTakenByPtxas) {
  const char *ptxas = "/usr/local/cuda/bin/ptxas";
  FILE *found = std::fopen(ptxas, "r");
  if (!found)
    GTEST_SKIP() << "ptxas is not installed";
  std::fclose(found);
  std::string path = testing::TempDir() + "heddle-nonfinite.ptx";
  FILE *file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(cuda::NonfiniteKernel::text().c_str(), file);
  std::fclose(file);
  EXPECT_EQ(
      std::system(
          (std::string(ptxas) + " -arch=sm_80 -o /dev/null " + path).c_str()),
      0);
  std::remove(path.c_str());
}

} // namespace
