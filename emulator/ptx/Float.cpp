//===- Float.cpp - Arithmetic on f32 and f64 ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements arithmetic on f32 and f64. ptxas may fuse an `add` or `sub` with a
// `mul` if neither states a rounding mode; the emulator does not.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
enum Modes { Ftz = 1, Sat = 2 };

/// Applies `.ftz` to an operand, and `.ftz` and `.sat` to a result.
template <int modes, class T> T input(T value) {
  return modes & Ftz ? flush(value) : value;
}
template <int modes, class T> T output(T value) {
  if (modes & Sat) // A NaN becomes zero.
    return value > 0 ? std::min(value, T(1)) : T(0);
  return canonical(modes & Ftz ? flush(value) : value);
}

struct Add {
  template <class T> static T run(T a, T b) { return a + b; }
};
struct Subtract {
  template <class T> static T run(T a, T b) { return a - b; }
};
struct Multiply {
  template <class T> static T run(T a, T b) { return a * b; }
};
struct Divide {
  template <class T> static T run(T a, T b) { return a / b; }
};
struct MultiplyAdd {
  static float run(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
  }
  static double run(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
};
struct Reciprocal {
  template <class T> static T run(T a) { return 1 / a; }
};
struct SquareRoot {
  static float run(float a) { return __builtin_sqrtf(a); }
  static double run(double a) { return __builtin_sqrt(a); }
};

/// Function object that applies the operation F to values. The bits of `modes`
/// say whether `.ftz` flushes its operands and result, and whether `.sat`
/// clamps the result.
template <class F, int modes> struct With {
  template <class T, class... Rest> T operator()(T a, Rest... rest) const {
    return output<modes>(F::run(input<modes>(a), input<modes>(rest)...));
  }
};

/// Calls a handler, which executes one instruction, while the host uses another
/// rounding mode. The compiler must not move arithmetic out of the call, so the
/// call is opaque.
template <Handler handler, unsigned control>
void inRounding(Warp &warp, const Op &op) {
  Handler volatile opaque = handler;
  unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~unsigned(_MM_ROUND_MASK)) | control);
  opaque(warp, op);
  _mm_setcsr(before);
}

template <Handler handler> Handler rounded(int mode) {
  switch (mode) {
  case 1:
    return inRounding<handler, _MM_ROUND_TOWARD_ZERO>;
  case 2:
    return inRounding<handler, _MM_ROUND_DOWN>;
  case 3:
    return inRounding<handler, _MM_ROUND_UP>;
  default:
    return handler;
  }
}

template <class T, class F, int modes, int operands>
Handler handlerOf(int rounding) {
  if constexpr (operands == 1)
    return rounded<unary<T, T, With<F, modes>>>(rounding);
  else if constexpr (operands == 2)
    return rounded<binary<T, T, T, With<F, modes>>>(rounding);
  else
    return rounded<ternary<T, T, T, T, With<F, modes>>>(rounding);
}

/// name{.rounding}{.ftz}{.sat}.f32 or .f64
template <class F, int operands> void decodeArithmetic(Decode &d) {
  int rounding = d.takeOneOf({"rn", "rz", "rm", "rp"});
  int modes = (d.take("ftz") ? Ftz : 0) | (d.take("sat") ? Sat : 0);
  Type type = d.type();
  d.expectOperands(operands + 1);
  d.result(0, type);
  for (int i = 1; i <= operands; ++i)
    d.use(i, type);
  if (type == f32Type) {
    switch (modes) {
    case 0:
      d.op.run = handlerOf<float, F, 0, operands>(rounding);
      break;
    case Ftz:
      d.op.run = handlerOf<float, F, Ftz, operands>(rounding);
      break;
    case Sat:
      d.op.run = handlerOf<float, F, Sat, operands>(rounding);
      break;
    default:
      d.op.run = handlerOf<float, F, Ftz | Sat, operands>(rounding);
    }
  } else if (type.width == 64 && modes == 0) {
    d.op.run = handlerOf<double, F, 0, operands>(rounding);
  } else {
    d.failUnknown();
  }
}

/// Decodes an instruction whose modifiers must state either a rounding mode or
/// that the result is approximate.
template <class F, int operands> void decodeExact(Decode &d) {
  for (const std::string &modifier : d.source.modifiers)
    if (modifier == "approx" || modifier == "full")
      return decodeApproximate(d);
  for (const std::string &modifier : d.source.modifiers)
    if (modifier == "rn" || modifier == "rz" || modifier == "rm" ||
        modifier == "rp")
      return decodeArithmetic<F, operands>(d);
  d.failUnknown();
}

//===----------------------------------------------------------------------===//
// Minimum, sign
//===----------------------------------------------------------------------===//

/// min and max. -0 counts as smaller than +0. If an operand is a NaN, the
/// result is the other operand, or a NaN with `.NaN`.
template <bool Max, int modes, bool PropagatesNan> struct Extreme {
  template <class T> T operator()(T x, T y) const {
    T a = input<modes>(x), b = input<modes>(y);
    bool less = a < b || (a == b && std::signbit(a));
    T result = Max ? (less ? b : a) : (less ? a : b);
    if (a != a || b != b)
      result = PropagatesNan || (a != a && b != b) ? a + b : a != a ? b : a;
    return canonical(result);
  }
};

template <bool Max> void decodeExtreme(Decode &d) {
  bool flushes = d.take("ftz"), propagates = d.take("NaN");
  Type type = d.type();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  using F = float;
  if (type == f32Type)
    d.op.run = flushes ? propagates ? binary<F, F, F, Extreme<Max, Ftz, true>>
                                    : binary<F, F, F, Extreme<Max, Ftz, false>>
               : propagates ? binary<F, F, F, Extreme<Max, 0, true>>
                            : binary<F, F, F, Extreme<Max, 0, false>>;
  else if (type.width == 64 && !flushes && !propagates)
    d.op.run = binary<double, double, double, Extreme<Max, 0, false>>;
  else
    d.failUnknown();
}

/// neg and abs, which change only the sign bit, also that of NaNs.
template <bool Negates, bool Flushes> struct Sign {
  float operator()(float value) const {
    uint32_t bits = bitsOf(Flushes ? flush(value) : value);
    return floatOf(Negates ? bits ^ 0x80000000u : bits & 0x7fffffffu);
  }
};
template <bool Negates> struct WideSign {
  uint64_t operator()(uint64_t bits) const {
    uint64_t sign = uint64_t(1) << 63;
    return Negates ? bits ^ sign : bits & ~sign;
  }
};

template <bool Negates> void decodeSign(Decode &d) {
  bool flushes = d.take("ftz");
  Type type = d.type();
  d.expectOperands(2);
  d.result(0, type);
  d.use(1, type);
  if (type == f32Type)
    d.op.run = flushes ? unary<float, float, Sign<Negates, true>>
                       : unary<float, float, Sign<Negates, false>>;
  else if (type.width == 64 && !flushes)
    d.op.run = unary<uint64_t, uint64_t, WideSign<Negates>>;
  else
    d.failUnknown();
}

/// copysign: the first operand's sign and the second's magnitude.
template <class U> struct CopySign {
  U operator()(U a, U b) const {
    U sign = U(1) << (8 * sizeof(U) - 1);
    return (a & sign) | (b & ~sign);
  }
};

void decodeCopySign(Decode &d) {
  Type type = d.type();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  if (type == f32Type)
    d.op.run = binary<uint32_t, uint32_t, uint32_t, CopySign<uint32_t>>;
  else if (type.isFloat() && type.width == 64)
    d.op.run = binary<uint64_t, uint64_t, uint64_t, CopySign<uint64_t>>;
  else
    d.failUnknown();
}
} // namespace

void decodeFloat(Decode &d) {
  d.op.kind = Class::Float;
  Type type = parseType(d.source.modifiers.back());
  if (type.width == 16)
    return decodeNarrow(d);
  const std::string &name = d.source.opcode;
  if (name == "add")
    decodeArithmetic<Add, 2>(d);
  else if (name == "sub")
    decodeArithmetic<Subtract, 2>(d);
  else if (name == "mul")
    decodeArithmetic<Multiply, 2>(d);
  else if (name == "fma" || name == "mad")
    decodeExact<MultiplyAdd, 3>(d);
  else if (name == "div")
    decodeExact<Divide, 2>(d);
  else if (name == "min")
    decodeExtreme<false>(d);
  else if (name == "max")
    decodeExtreme<true>(d);
  else if (name == "neg")
    decodeSign<true>(d);
  else if (name == "abs")
    decodeSign<false>(d);
  else
    d.failUnknown();
}

const Opcode floatOpcodes[] = {
    {"fma", Class::Float, decodeFloat},
    {"rcp", Class::Float, decodeExact<Reciprocal, 1>},
    {"sqrt", Class::Float, decodeExact<SquareRoot, 1>},
    {"copysign", Class::Float, decodeCopySign},
    {nullptr, Class::Float, nullptr}};

} // namespace heddle::emulator
