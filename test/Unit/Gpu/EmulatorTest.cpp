//===- EmulatorTest.cpp - What the emulator refuses -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace heddle::test;
using testing::HasSubstr;

namespace {

/// A gpu.func of one block of 64 threads over f32 buffers of 64 elements, with
/// 64 elements of workgroup memory.
std::string function(const std::string &body) {
  return R"(
gpu.module @m {
  gpu.func @k(%in: memref<64xf32>, %out: memref<64xf32>)
      workgroup(%shared: memref<64xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>,
                  known_grid_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c63 = arith.constant 63 : index
    %t = gpu.thread_id x
    %last = arith.subi %c63, %t : index
    %value = memref.load %in[%t] : memref<64xf32>
)" + body +
         R"(
    gpu.return
  }
}
)";
}

const char *const sharedType = "memref<64xf32, #gpu.address_space<workgroup>>";

std::string writeShared(const std::string &index) {
  return "memref.store %value, %shared[" + index + "] : " + sharedType + "\n";
}

std::string readShared(const std::string &index) {
  return "%read = memref.load %shared[" + index + "] : " + sharedType +
         "\nmemref.store %read, %out[%t] : memref<64xf32>\n";
}

std::string run(const std::string &body, Buffer *result = nullptr) {
  Buffer in(64, false), out(64, false);
  in.fill(1);
  std::string fault = emulateFunction(function(body), {&in, &out});
  if (result)
    *result = out;
  return fault;
}

TEST(Emulator, BarrierOrdersAccesses) {
  Buffer in(64, false), out(64, false);
  in.fill(1);
  ASSERT_EQ(
      run(writeShared("%t") + "gpu.barrier\n" + readShared("%last"), &out), "");
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(out.at(i), in.at(63 - i));
}

TEST(Emulator, RaceWithoutBarrier) {
  EXPECT_THAT(run(writeShared("%t") + readShared("%last")),
              HasSubstr("races with a"));
}

TEST(Emulator, RaceOfTwoWrites) {
  EXPECT_THAT(run(writeShared("%c0")), HasSubstr("races with a write"));
}

/// Loads four elements from `first` on and stores them.
std::string vectorFrom(const std::string &first) {
  return "%first = arith.constant " + first + " : index\n%four = vector.load " +
         "%shared[%first] : " + sharedType +
         ", vector<4xf32>\nvector.store %four, %out[%c0] : memref<64xf32>, "
         "vector<4xf32>\n";
}

TEST(Emulator, AccessOutsideOfWorkgroupMemory) {
  EXPECT_EQ(run(vectorFrom("60")), "");
  EXPECT_THAT(run(vectorFrom("64")), HasSubstr("outside of workgroup memory"));
}

TEST(Emulator, MisalignedVector) {
  EXPECT_THAT(run(vectorFrom("3")), HasSubstr("not aligned to 16"));
}

TEST(Emulator, BarrierThatHalfTheBlockReaches) {
  std::string fault = run(R"(
    %c32 = arith.constant 32 : index
    %half = arith.cmpi ult, %t, %c32 : index
    scf.if %half {
      gpu.barrier
    }
)");
  EXPECT_THAT(fault, HasSubstr("divergent barrier"));
  EXPECT_THAT(fault, HasSubstr("32 of 64 threads"));
  EXPECT_THAT(fault, HasSubstr("has returned"));
}

TEST(Emulator, TwoBarriersInTwoBranches) {
  std::string fault = run(R"(
    %c32 = arith.constant 32 : index
    %half = arith.cmpi ult, %t, %c32 : index
    scf.if %half {
      gpu.barrier
    } else {
      gpu.barrier
    }
)");
  EXPECT_THAT(fault, HasSubstr("divergent barrier"));
}

TEST(Emulator, ShuffleThatOneLaneMisses) {
  std::string fault = run(R"(
    %isNotFirst = arith.cmpi ne, %t, %c0 : index
    scf.if %isNotFirst {
      %one = arith.constant 1 : i32
      %width = arith.constant 32 : i32
      %other, %valid = gpu.shuffle xor %value, %one, %width : f32
      memref.store %other, %out[%t] : memref<64xf32>
    }
)");
  EXPECT_THAT(fault, HasSubstr("incomplete operation of a warp"));
}

TEST(Emulator, ShuffleDownStopsAtTheEndOfTheWarp) {
  Buffer in(64, false), out(64, false);
  in.fill(1);
  ASSERT_EQ(run(R"(
    %offset = arith.constant 3 : i32
    %width = arith.constant 32 : i32
    %other, %valid = gpu.shuffle down %value, %offset, %width : f32
    %zero = arith.constant 0.0 : f32
    %result = arith.select %valid, %other, %zero : f32
    memref.store %result, %out[%t] : memref<64xf32>
)",
                &out),
            "");
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(out.at(i), i % 32 + 3 < 32 ? in.at(i + 3) : 0);
}

/// An asynchronous copy is seen after the wait, and only then.
TEST(Emulator, AsyncCopyNeedsItsWait) {
  std::string copy = R"(
    %c4 = arith.constant 4 : index
    %at = arith.muli %t, %c4 : index
    %c16 = arith.constant 16 : index
    %copies = arith.cmpi ult, %t, %c16 : index
    scf.if %copies {
      %token = nvgpu.device_async_copy %in[%at], %shared[%at], 4
        : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %token
      WAIT
    }
    gpu.barrier
)";
  auto with = [&](const std::string &wait) {
    std::string text = copy;
    text.replace(text.find("WAIT"), 4, wait);
    return text + readShared("%t");
  };
  Buffer in(64, false), out(64, false);
  in.fill(1);
  ASSERT_EQ(run(with("nvgpu.device_async_wait %group"), &out), "");
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(out.at(i), in.at(i));
  ASSERT_EQ(run(with(""), &out), "");
  EXPECT_NE(out.at(0), in.at(0));
}

} // namespace
