//===- Dtype.cpp - Element types and their conversion -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Safetensors.h"
#include <cstring>

using namespace heddle;
using namespace heddle::io;

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float io::bf16ToFloat(uint16_t value) { return floatOf(uint32_t(value) << 16); }

uint16_t io::floatToBF16(float value) {
  uint32_t bits = bitsOf(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) // NaN stays NaN, made quiet.
    return static_cast<uint16_t>(bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float io::f16ToFloat(uint16_t value) {
  uint32_t sign = uint32_t(value & 0x8000) << 16;
  uint32_t exponent = (value >> 10) & 0x1F;
  uint32_t fraction = value & 0x3FF;
  if (exponent == 0x1F)
    return floatOf(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0)
    return floatOf(sign | (exponent + 112) << 23 | fraction << 13);
  // Zero or subnormal: fraction * 2^-24, exact in fp32.
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return floatOf(sign | bitsOf(magnitude));
}

uint16_t io::floatToF16(float value) {
  uint32_t bits = bitsOf(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) // NaN
    return sign | 0x7E00 | ((magnitude >> 13) & 0x3FF);
  if (magnitude >= 0x477FF000) // Rounds to 65536 or more: infinity.
    return sign | 0x7C00;
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result counts units of 2^-24. Adding 0.5 puts such a
    // unit into the last place of the sum, so the addition does the rounding.
    float sum = floatOf(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(bitsOf(sum) - bitsOf(0.5f));
  }
  uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

namespace {
struct F32 {
  using Storage = float;
  static float load(float value) { return value; }
  static float store(float value) { return value; }
};
struct F64 {
  using Storage = double;
  static float load(double value) { return static_cast<float>(value); }
  static double store(float value) { return value; }
};
struct BF16 {
  using Storage = uint16_t;
  static float load(uint16_t value) { return bf16ToFloat(value); }
  static uint16_t store(float value) { return floatToBF16(value); }
};
struct F16 {
  using Storage = uint16_t;
  static float load(uint16_t value) { return f16ToFloat(value); }
  static uint16_t store(float value) { return floatToF16(value); }
};
} // namespace

template <typename From, typename To>
static void convertLoop(const uint8_t *source, uint8_t *destination,
                        int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    typename From::Storage in;
    std::memcpy(&in, source + i * sizeof in, sizeof in);
    typename To::Storage out = To::store(From::load(in));
    std::memcpy(destination + i * sizeof out, &out, sizeof out);
  }
}

template <typename From>
static bool convertFrom(const uint8_t *source, uint8_t *destination,
                        const std::string &type, int64_t count) {
  if (type == "F32")
    convertLoop<From, F32>(source, destination, count);
  else if (type == "F64")
    convertLoop<From, F64>(source, destination, count);
  else if (type == "BF16")
    convertLoop<From, BF16>(source, destination, count);
  else if (type == "F16")
    convertLoop<From, F16>(source, destination, count);
  else
    return false;
  return true;
}

bool io::convertElements(const void *source, const std::string &sourceType,
                         void *destination, const std::string &destinationType,
                         int64_t count) {
  const uint8_t *in = static_cast<const uint8_t *>(source);
  uint8_t *out = static_cast<uint8_t *>(destination);
  if (sourceType == destinationType) {
    int64_t bits = dtypeBits(sourceType);
    if (bits == 0)
      return false;
    if (count > 0)
      std::memcpy(out, in, (count * bits + 7) / 8);
    return true;
  }
  if (sourceType == "F32")
    return convertFrom<F32>(in, out, destinationType, count);
  if (sourceType == "F64")
    return convertFrom<F64>(in, out, destinationType, count);
  if (sourceType == "BF16")
    return convertFrom<BF16>(in, out, destinationType, count);
  if (sourceType == "F16")
    return convertFrom<F16>(in, out, destinationType, count);
  return false;
}
