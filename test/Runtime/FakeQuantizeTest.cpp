//===- FakeQuantizeTest.cpp - Weights quantized as DeepSpeed does ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/FakeQuantize.h"
#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle;

/// The weight that test/EndToEnd/moq.py draws for an index.
static std::vector<float> drawn(uint32_t index, int64_t count) {
  uint32_t state = index * 7919 + 1;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    float value = float(int32_t(state >> 8) - (1 << 23)) / float(1 << 23);
    values.push_back(value + (index % 5 == 4 ? 3.0f : 0.0f));
  }
  return values;
}

static float fromHex(const std::string &text, int64_t index) {
  uint32_t bits = 0;
  for (int byte = 0; byte < 4; ++byte)
    bits |=
        uint32_t(std::stoul(text.substr(index * 8 + byte * 2, 2), nullptr, 16))
        << (8 * byte);
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Values of 3 bits and more are DeepSpeed's bit by bit. Its means for 1 and 2
// bits are summed in fp32.
TEST(FakeQuantize, Recorded) {
  std::ifstream file(HEDDLE_TEST_ORACLES "/moq.json");
  nlohmann::json record = nlohmann::json::parse(file);
  ASSERT_EQ(record["weights"].size(), 500u);
  uint32_t index = 0;
  for (const nlohmann::json &one : record["weights"]) {
    SCOPED_TRACE("weight " + std::to_string(index));
    int64_t outputs = one["shape"][0], inputs = one["shape"][1];
    std::vector<float> weight = drawn(index++, outputs * inputs);
    std::vector<float> turned(weight.size());
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i)
        turned[i * outputs + o] = weight[o * inputs + i];
    int bits = one["bits"];
    plan::Quantizer quantizer{"", one["groups"], false,
                              one["type"] == "asymmetric"};
    rt::fakeQuantize(weight.data(), {outputs, inputs}, quantizer, bits, 0);
    quantizer.outputsLast = true;
    rt::fakeQuantize(turned.data(), {inputs, outputs}, quantizer, bits, 0);
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) {
        float expected = fromHex(one["values"], o * inputs + i);
        float found = weight[o * inputs + i];
        EXPECT_NEAR(found, expected, bits < 3 ? 1e-6 : 0);
        EXPECT_EQ(found, turned[i * outputs + o]);
      }
  }
}

// A group whose elements are equal, or zero, stays as it is where DeepSpeed
// divides by zero.
TEST(FakeQuantize, EqualElements) {
  for (int bits = 1; bits <= 16; ++bits)
    for (bool isAsymmetric : {false, true}) {
      if (isAsymmetric && bits < 3)
        continue;
      std::vector<float> zeros(6, 0), equal(6, -0.75f);
      plan::Quantizer quantizer{"", 1, false, isAsymmetric};
      rt::fakeQuantize(zeros.data(), {2, 3}, quantizer, bits, 0);
      EXPECT_EQ(zeros, std::vector<float>(6, 0)) << bits;
      rt::fakeQuantize(equal.data(), {2, 3}, quantizer, bits, 0);
      EXPECT_EQ(equal, std::vector<float>(6, -0.75f)) << bits;
    }
}

// A ratio of 1 leaves the weight as it is, and one of a half takes the mean.
TEST(FakeQuantize, Ratio) {
  std::vector<float> weight = drawn(3, 12), whole = weight, half = weight,
                     rounded = weight;
  plan::Quantizer quantizer{"", 2, true, false};
  rt::fakeQuantize(whole.data(), {3, 4}, quantizer, 4, 1);
  EXPECT_EQ(whole, weight);
  rt::fakeQuantize(rounded.data(), {3, 4}, quantizer, 4, 0);
  EXPECT_NE(rounded, weight);
  rt::fakeQuantize(half.data(), {3, 4}, quantizer, 4, 0.5f);
  for (size_t i = 0; i < weight.size(); ++i)
    EXPECT_EQ(half[i], 0.5f * weight[i] + 0.5f * rounded[i]);
}
