//===- Float.h - Conversions of bf16 and fp16 -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between fp32 and the 16-bit floats bf16 and fp16, as bits. The
// runtime and the readers of weights use them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FLOAT_H
#define HEDDLE_RUNTIME_IO_FLOAT_H

#include <cstdint>
#include <cstring>

namespace heddle::io {

namespace detail {
inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
} // namespace detail

inline float bf16ToFloat(uint16_t value) {
  return detail::floatOf(uint32_t(value) << 16);
}

/// Rounds to the nearest bf16, ties to even.
inline uint16_t floatToBF16(float value) {
  uint32_t bits = detail::bitsOf(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) // NaN stays NaN, made quiet.
    return static_cast<uint16_t>(bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float f16ToFloat(uint16_t value) {
  uint32_t sign = uint32_t(value & 0x8000) << 16;
  uint32_t exponent = (value >> 10) & 0x1F;
  uint32_t fraction = value & 0x3FF;
  if (exponent == 0x1F)
    return detail::floatOf(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0)
    return detail::floatOf(sign | (exponent + 112) << 23 | fraction << 13);
  // The fp16 number is zero or subnormal. Its magnitude, fraction * 2^-24, is
  // exact in fp32.
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return detail::floatOf(sign | detail::bitsOf(magnitude));
}

/// Rounds to the nearest fp16, ties to even.
inline uint16_t floatToF16(float value) {
  uint32_t bits = detail::bitsOf(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) // NaN
    return sign | 0x7E00 | ((magnitude >> 13) & 0x3FF);
  if (magnitude >= 0x477FF000) // Rounds to 65536 or more: infinity.
    return sign | 0x7C00;
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result is a multiple of 2^-24. Adding 0.5 makes this unit
    // the last bit of the sum, so that the addition rounds.
    float sum = detail::floatOf(magnitude) + 0.5f;
    return sign |
           static_cast<uint16_t>(detail::bitsOf(sum) - detail::bitsOf(0.5f));
  }
  uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

/// Each struct describes a type: how elements are stored, and their conversion
/// from and to fp32.
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

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FLOAT_H
