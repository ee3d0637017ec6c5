//===- CastsTest.cpp - Casts of the CUDA device ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the runtime's PTX casts with the host's conversions, on the emulated
// driver.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/Casts.h"
#include "heddle/emulator/cuda/Calls.h"
#include "heddle/runtime/io/Float.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using plan::DType;

/// Writes a value in the element type.
static void write(char *to, DType type, float value) {
  auto put = [&](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  if (type == DType::F32)
    put(io::F32::store(value));
  else if (type == DType::BF16)
    put(io::BF16::store(value));
  else
    put(io::F16::store(value));
}
static float read(const char *from, DType type) {
  auto take = [&](auto stored) {
    std::memcpy(&stored, from, sizeof stored);
    return stored;
  };
  return type == DType::F32    ? io::F32::load(take(io::F32::Storage()))
         : type == DType::BF16 ? io::BF16::load(take(io::BF16::Storage()))
                               : io::F16::load(take(io::F16::Storage()));
}

/// Tests counts that are no multiples of a vector, at unaligned addresses.
TEST(Casts, RoundAsTheHostDoes) {
  Context context = nullptr;
  ASSERT_EQ(cuInit(0), Success);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
  ASSERT_EQ(cuCtxSetCurrent(context), Success);
  {
    Casts casts(Driver::get());
    constexpr int64_t most = 1037;
    std::mt19937 random(7);
    std::normal_distribution<float> values(0, 30);
    for (DType from : {DType::F32, DType::BF16, DType::F16})
      for (DType to : {DType::F32, DType::BF16, DType::F16})
        for (auto [skipped, count] :
             {std::pair<int64_t, int64_t>(0, most), {1, 3}, {4, 8}, {3, 259}}) {
          if (from == to)
            continue;
          int64_t fromBytes = plan::byteSize(from),
                  toBytes = plan::byteSize(to);
          std::vector<char> given(most * fromBytes), got(most * toBytes, 0x55);
          for (int64_t i = 0; i < most; ++i)
            write(&given[i * fromBytes], from, values(random));
          std::vector<char> expected = got;
          for (int64_t i = skipped; i < std::min(most, skipped + count); ++i)
            write(&expected[i * toBytes], to,
                  read(&given[i * fromBytes], from));
          DevicePointer source = 0, target = 0;
          ASSERT_EQ(cuMemAlloc_v2(&source, given.size()), Success);
          ASSERT_EQ(cuMemAlloc_v2(&target, got.size()), Success);
          cuMemcpyHtoDAsync_v2(source, given.data(), given.size(), nullptr);
          cuMemcpyHtoDAsync_v2(target, got.data(), got.size(), nullptr);
          casts.submit(nullptr, to, Address(target + skipped * toBytes), from,
                       Address(source + skipped * fromBytes),
                       std::min(count, most - skipped));
          cuMemcpyDtoHAsync_v2(got.data(), target, got.size(), nullptr);
          ASSERT_EQ(cuCtxSynchronize(), Success);
          EXPECT_EQ(got, expected)
              << plan::nameOf(from) << " to " << plan::nameOf(to) << " from "
              << skipped << " on";
          cuMemFree_v2(source);
          cuMemFree_v2(target);
        }
  }
  cuDevicePrimaryCtxRelease_v2(0);
}

/// If ptxas is installed, it must accept the PTX of the casts.
TEST(Casts, AreTakenByPtxas) {
  const char *ptxas = "/usr/local/cuda/bin/ptxas";
  std::string path = testing::TempDir() + "heddle-casts.ptx";
  FILE *file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(Casts::text().c_str(), file);
  std::fclose(file);
  std::string command =
      std::string(ptxas) + " -arch=sm_80 -o /dev/null " + path;
  FILE *found = std::fopen(ptxas, "r");
  if (!found)
    GTEST_SKIP() << "ptxas is not installed";
  std::fclose(found);
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::remove(path.c_str());
}
