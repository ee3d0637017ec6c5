//===- HalfPrecision.cpp - Arithmetic on f16, bf16 and their pairs --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements arithmetic such as add, mul and fma on f16, bf16, f16x2 and
// bf16x2.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
enum Modes { Ftz = 1, Sat = 2, Relu = 4 };

template <class Format> uint16_t flushNarrow(uint16_t bits) {
  return bits & Format::infinity ? bits : bits & 0x8000;
}
template <class Format> bool isNan(uint16_t bits) {
  return (bits & 0x7fff) > Format::infinity;
}

/// Rounds a result from double to the format in one step.
template <class Format> uint16_t round(double value, int modes) {
  if (modes & Sat) // A NaN becomes zero.
    value = value > 0 ? std::min(value, 1.0) : 0;
  if (modes & Relu)
    value = value != value || value > 0 ? value : 0;
  uint16_t bits = roundToNarrow<Format>(value);
  return modes & Ftz ? flushNarrow<Format>(bits) : bits;
}

struct Add {
  static double run(double a, double b) { return addToOdd(a, b); }
};
struct Subtract {
  static double run(double a, double b) { return addToOdd(a, -b); }
};
struct Multiply {
  static double run(double a, double b) { return a * b; }
};
struct MultiplyAdd {
  // The product of two 16-bit floats is exact in a double, so only the sum must
  // be rounded to odd.
  static double run(double a, double b, double c) { return addToOdd(a * b, c); }
};

template <class Format, class F> struct Rounded {
  template <class... T> static uint16_t run(int modes, T... bits) {
    auto widen = [&](uint16_t value) -> double {
      return widenNarrow<Format>(modes & Ftz ? flushNarrow<Format>(value)
                                             : value);
    };
    return round<Format>(F::run(widen(bits)...), modes);
  }
};

/// Adds two bf16 in f32, which is faster than in double. The result is correct
/// although it is rounded twice, first to f32 and then to bf16, because f32 has
/// enough bits (24).
template <class F> struct QuickSum {
  static uint16_t run(int, uint16_t a, uint16_t b) {
    float x = widenNarrow<BFloat16>(a), y = widenNarrow<BFloat16>(b);
    return nearestBFloat16(std::is_same_v<F, Add> ? x + y : x - y);
  }
};

template <class Format, bool Max, bool PropagatesNan> struct Extreme {
  static uint16_t run(int modes, uint16_t a, uint16_t b) {
    if (modes & Ftz) {
      a = flushNarrow<Format>(a);
      b = flushNarrow<Format>(b);
    }
    if (isNan<Format>(a) || isNan<Format>(b)) {
      bool both = isNan<Format>(a) && isNan<Format>(b);
      return PropagatesNan || both ? Format::nan : isNan<Format>(a) ? b : a;
    }
    float x = widenNarrow<Format>(a), y = widenNarrow<Format>(b);
    bool less = x < y || (x == y && std::signbit(x));
    return Max == less ? b : a;
  }
};
template <class Format, bool Negates> struct Sign {
  static uint16_t run(int modes, uint16_t a) {
    if (modes & Ftz)
      a = flushNarrow<Format>(a);
    return Negates ? a ^ 0x8000 : a & 0x7fff;
  }
};

/// Applies F to each 16-bit float of an operand's register, which holds `lanes`
/// of them (2 for f16x2).
template <int lanes, int operands, class F>
void narrow(Warp &warp, const Op &op) {
  const uint16_t *a = warp.row<uint16_t>(op, 1);
  const uint16_t *b = operands > 1 ? warp.row<uint16_t>(op, 2) : a;
  const uint16_t *c = operands > 2 ? warp.row<uint16_t>(op, 3) : a;
  int modes = static_cast<int>(op.flags);
  auto at = [&](int i) {
    if constexpr (operands == 1)
      return F::run(modes, a[i]);
    else if constexpr (operands == 2)
      return F::run(modes, a[i], b[i]);
    else
      return F::run(modes, a[i], b[i], c[i]);
  };
  if constexpr (lanes == 1)
    eachLane(warp, warp.row<uint16_t>(op, 0), at);
  else
    eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
      return uint32_t(at(2 * i)) | uint32_t(at(2 * i + 1)) << 16;
    });
}

/// Decodes operands of type `type`, and sets the handler of the op that applies
/// F to them.
template <int operands, class F> void set(Decode &d, Type type, int modes) {
  d.expectOperands(operands + 1);
  d.result(0, type);
  for (int i = 1; i <= operands; ++i)
    d.use(i, type);
  d.op.flags = static_cast<uint32_t>(modes);
  d.op.run = type.lanes == 1 ? narrow<1, operands, F> : narrow<2, operands, F>;
}

template <class Format, class F, int operands>
void decodeArithmetic(Decode &d) {
  bool isHalf = std::is_same_v<Format, Half>;
  d.take("rn");
  int modes = (d.take("ftz") ? Ftz : 0) | (d.take("sat") ? Sat : 0);
  if (operands == 3 && d.take("relu"))
    modes |= Relu;
  if (!isHalf && (modes & (Ftz | Sat)))
    d.failUnknown();
  Type type = d.type();
  constexpr bool isSum = std::is_same_v<F, Add> || std::is_same_v<F, Subtract>;
  if constexpr (isSum && std::is_same_v<Format, BFloat16>)
    set<2, QuickSum<F>>(d, type, modes);
  else
    set<operands, Rounded<Format, F>>(d, type, modes);
}

template <class Format, bool Max> void decodeExtreme(Decode &d) {
  int modes = d.take("ftz") ? Ftz : 0;
  bool propagates = d.take("NaN");
  Type type = d.type();
  propagates ? set<2, Extreme<Format, Max, true>>(d, type, modes)
             : set<2, Extreme<Format, Max, false>>(d, type, modes);
}

template <class Format, bool Negates> void decodeSign(Decode &d) {
  int modes = d.take("ftz") ? Ftz : 0;
  set<1, Sign<Format, Negates>>(d, d.type(), modes);
}

template <class Format> void decodeFormat(Decode &d) {
  const std::string &name = d.source.opcode;
  if (name == "add")
    decodeArithmetic<Format, Add, 2>(d);
  else if (name == "sub")
    decodeArithmetic<Format, Subtract, 2>(d);
  else if (name == "mul")
    decodeArithmetic<Format, Multiply, 2>(d);
  else if (name == "fma")
    decodeArithmetic<Format, MultiplyAdd, 3>(d);
  else if (name == "min")
    decodeExtreme<Format, false>(d);
  else if (name == "max")
    decodeExtreme<Format, true>(d);
  else if (name == "neg")
    decodeSign<Format, true>(d);
  else if (name == "abs")
    decodeSign<Format, false>(d);
  else
    d.failUnknown();
}
} // namespace

void decodeNarrow(Decode &d) {
  bool isHalf = parseType(d.source.modifiers.back()).kind == Type::Float;
  isHalf ? decodeFormat<Half>(d) : decodeFormat<BFloat16>(d);
}

} // namespace heddle::emulator
