//===- DtypeTest.cpp - Tests of element type conversion ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Safetensors.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle::io;

TEST(Dtype, BF16RoundsToNearestEven) {
  EXPECT_EQ(floatToBF16(1.0f), 0x3F80);
  EXPECT_EQ(floatToBF16(1.0f + 0x1p-8f), 0x3F80); // Halfway, down to even.
  EXPECT_EQ(floatToBF16(1.0f + 0x3p-8f), 0x3F82); // Halfway, up to even.
  EXPECT_EQ(floatToBF16(-0.0f), 0x8000);
  EXPECT_EQ(floatToBF16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(floatToBF16(std::numeric_limits<float>::infinity()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBF16(std::nanf("")))));
}

TEST(Dtype, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = f16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(value))));
      continue;
    }
    ASSERT_EQ(floatToF16(value), bits);
    ASSERT_EQ(std::signbit(value), bits >= 0x8000);
  }
}

TEST(Dtype, HalfRoundsToNearestEven) {
  // Between each pair of neighbours the middle goes to the even one, and its
  // neighbours in fp32 to the nearer one.
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    float low = f16ToFloat(static_cast<uint16_t>(bits));
    float high = f16ToFloat(static_cast<uint16_t>(bits + 1));
    float middle = low + (high - low) / 2;
    ASSERT_EQ(floatToF16(middle), bits + (bits & 1));
    ASSERT_EQ(floatToF16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(floatToF16(std::nextafter(middle, INFINITY)), bits + 1);
  }
  EXPECT_EQ(floatToF16(65504.0f), 0x7BFF);
  EXPECT_EQ(floatToF16(65519.9f), 0x7BFF);
  EXPECT_EQ(floatToF16(65520.0f), 0x7C00);
  EXPECT_EQ(floatToF16(-1e30f), 0xFC00);
}

TEST(Dtype, ConvertsBetweenAllFloats) {
  const float in[] = {0.0f, 1.5f, -2.0f, 0.15625f};
  for (const char *type : {"F32", "F64", "BF16", "F16"}) {
    uint8_t middle[4 * 8 + 1];
    float out[4];
    // An odd address: nothing may depend on alignment.
    ASSERT_TRUE(convertElements(in, "F32", middle + 1, type, 4));
    ASSERT_TRUE(convertElements(middle + 1, type, out, "F32", 4));
    EXPECT_EQ(std::memcmp(in, out, sizeof in), 0) << type;
  }
  int64_t integers[2] = {7, -1}, copy[2];
  EXPECT_TRUE(convertElements(integers, "I64", copy, "I64", 2));
  EXPECT_EQ(copy[1], -1);
  EXPECT_FALSE(convertElements(integers, "I64", copy, "F32", 2));
  EXPECT_FALSE(convertElements(integers, "NONE", copy, "NONE", 2));
}

TEST(Dtype, FindsTheFirstValueThatIsNotFinite) {
  constexpr int64_t count = 10001;
  const float bad[] = {INFINITY, -INFINITY, std::nanf("")};
  for (const char *type : {"F32", "F64", "BF16", "F16"}) {
    int64_t width = dtypeBits(type) / 8;
    std::vector<float> values(count, -65504.0f);
    // At an odd address.
    std::vector<uint8_t> bytes(count * width + 1);
    auto find = [&] {
      EXPECT_TRUE(
          convertElements(values.data(), "F32", &bytes[1], type, count));
      return firstNonFinite(&bytes[1], type, count);
    };
    EXPECT_EQ(find(), -1);
    for (int64_t place :
         {count - 1, int64_t(4096), int64_t(4095), int64_t(0)}) {
      values[place] = bad[place % 3];
      EXPECT_EQ(find(), place) << type;
    }
  }
  const int32_t minusOne[] = {-1};
  EXPECT_EQ(firstNonFinite(minusOne, "I32", 1), -1);
}
