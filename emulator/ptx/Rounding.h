//===- Rounding.h - Rounding of floats of 16 and 32 bits --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between f32, f16, bf16 and tf32 with PTX's rounding modes, used
// by all arithmetic on floats.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_ROUNDING_H
#define HEDDLE_EMULATOR_PTX_ROUNDING_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace heddle::emulator {

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline uint64_t bitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}
inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline double doubleOf(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

/// PTX's rounding modes. Nearest rounds to nearest even. Zero, Down and Up
/// round to zero, down and up. Away rounds to nearest, with ties away from
/// zero.
enum class Rounding { Nearest, Zero, Down, Up, Away };

/// The NaN that PTX's operations on f32 return.
constexpr uint32_t canonicalNan = 0x7fffffff;

inline float canonical(float value) {
  return value == value ? value : floatOf(canonicalNan);
}
inline double canonical(double value) { return value; }

/// Replaces a denormal by a zero of its sign, for `.ftz`.
inline float flush(float value) {
  uint32_t bits = bitsOf(value);
  return (bits & 0x7f800000u) ? value : floatOf(bits & 0x80000000u);
}
inline double flush(double value) { return value; }

/// A 16-bit float format whose mantissa has `Mantissa` stored bits.
template <int Mantissa> struct Narrow {
  static constexpr int mantissa = Mantissa;
  static constexpr int exponentBits = 15 - Mantissa;
  static constexpr int bias = (1 << (exponentBits - 1)) - 1;
  static constexpr uint16_t infinity = ((1 << exponentBits) - 1) << Mantissa;
  static constexpr uint16_t nan = 0x7fff;
};
using Half = Narrow<10>;
using BFloat16 = Narrow<7>;

inline double roundInteger(double value, Rounding mode) {
  switch (mode) {
  case Rounding::Nearest:
    return std::nearbyint(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  case Rounding::Away:
    return std::round(value);
  }
  return value;
}

/// Rounds a number to `Format`; returns its bits.
template <class Format>
uint16_t roundToNarrow(double value, Rounding mode = Rounding::Nearest) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value != value)
    return Format::nan;
  double size = std::fabs(value);
  if (std::isinf(value))
    return sign | Format::infinity;
  if (size == 0)
    return sign;
  int exponent = std::ilogb(size);
  int least = 1 - Format::bias;
  int unit = (exponent < least ? least : exponent) - Format::mantissa;
  // The code below rounds the number's magnitude. For a negative number,
  // rounding down rounds the magnitude up, and rounding up rounds it down.
  Rounding of = mode;
  if (sign && mode == Rounding::Down)
    of = Rounding::Up;
  else if (sign && mode == Rounding::Up)
    of = Rounding::Down;
  double steps = roundInteger(std::ldexp(size, -unit), of);
  double rounded = std::ldexp(steps, unit);
  constexpr int largestExponent = Format::bias;
  double largest =
      std::ldexp(2 - std::ldexp(1, -Format::mantissa), largestExponent);
  if (rounded > largest)
    return sign |
           (of == Rounding::Zero || of == Rounding::Down ? Format::infinity - 1
                                                         : Format::infinity);
  if (steps == 0)
    return sign;
  int top = std::ilogb(rounded);
  if (top < least)
    return sign | static_cast<uint16_t>(steps);
  auto fraction =
      static_cast<uint16_t>(std::ldexp(rounded, Format::mantissa - top)) &
      ((1 << Format::mantissa) - 1);
  return sign |
         static_cast<uint16_t>((top + Format::bias) << Format::mantissa) |
         fraction;
}

/// The exact value of a 16-bit float.
template <class Format> float widenNarrow(uint16_t bits);

template <> inline float widenNarrow<BFloat16>(uint16_t bits) {
  return floatOf(uint32_t(bits) << 16);
}

template <> inline float widenNarrow<Half>(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
  // An f16's exponent has a smaller bias than an f32's. So if the f16's bits
  // are shifted to the positions of the f32's exponent and mantissa, the value
  // is too small by the factor 2^112. Infinities and NaNs also need all bits of
  // the exponent set.
  float scaled = floatOf(size << 13) * 0x1p112f;
  uint32_t wide = size >= 0x7c00 ? (size << 13) | 0x7f800000u : bitsOf(scaled);
  return floatOf(wide | sign);
}

/// Rounds f32 to bf16, to nearest even. The function has no branch, so that the
/// compiler can vectorize loops that call it.
inline uint16_t nearestBFloat16(float value) {
  uint32_t bits = bitsOf(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? BFloat16::nan
                                            : static_cast<uint16_t>(rounded);
}

/// Returns a + b, rounded to odd if the sum is inexact. If the result is then
/// rounded to fewer bits, it is as if the exact sum had been rounded once.
inline double addToOdd(double a, double b) {
  double sum = a + b;
  double other = sum - a;
  double error = (a - (sum - other)) + (b - other);
  if (!(error != 0) || !std::isfinite(sum))
    return sum;
  uint64_t bits = bitsOf(sum);
  if (bits & 1)
    return sum;
  bool grows = (error > 0) == (sum > 0);
  return doubleOf(grows ? bits + 1 : bits - 1);
}

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_ROUNDING_H
