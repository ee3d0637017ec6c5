//===- Approximate.cpp - Functions that GPUs approximate ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements functions such as ex2.approx and div.full, whose errors the PTX
// ISA only bounds. Here the error of a result is a number within the bound. The
// number depends on the operand and on Options::approximate. A test that passes
// with several values of Options::approximate does not depend on the errors of
// one GPU.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

namespace heddle::emulator {

namespace {
/// Returns a number in [-1, 1]: a hash of the operand's bits, the seed and the
/// number of the function.
double deviation(uint64_t bits, uint64_t seed, uint64_t function) {
  uint64_t x = bits + 0x9e3779b97f4a7c15u * (seed * 16 + function + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(static_cast<int64_t>(x)) * 0x1p-63;
}

/// Returns `exact` with an error that `by`, a number in [-1, 1], scales. The
/// error, with rounding, is at most `relative` times the magnitude of `exact`
/// plus `absolute`. Zeros, infinities and NaNs get no error.
float perturb(double exact, double relative, double absolute, double by) {
  if (exact == 0 || !std::isfinite(exact))
    return canonical(static_cast<float>(exact));
  auto nearest = static_cast<float>(exact);
  if (!std::isfinite(nearest))
    return nearest;
  double bound = relative * std::fabs(exact) + absolute;
  auto moved = static_cast<float>(exact + by * bound);
  // If rounding has made the error larger than the bound, return the f32
  // nearest to `exact` instead.
  return std::fabs(moved - exact) <= bound ? moved : nearest;
}

/// A relative error of 2^-23. It is at most two units in the last place (ulp)
/// of an f32.
constexpr double twoUlp = 0x1p-23;

// The approximate functions of PTX, such as ex2.approx, with the error bounds
// from the PTX ISA.
struct Exponential {
  static constexpr uint64_t number = 0;
  static float run(float x, double by) {
    return perturb(std::exp2(double(x)), 0x1p-22, 0, by);
  }
};
struct Logarithm {
  static constexpr uint64_t number = 1;
  static float run(float x, double by) {
    bool nearOne = x > 0.5f && x < 2;
    return perturb(std::log2(double(x)), nearOne ? 0 : 0x1p-22,
                   nearOne && x != 1 ? 0x1p-22 : 0, by);
  }
};
struct Reciprocal {
  static constexpr uint64_t number = 2;
  static float run(float x, double by) {
    return perturb(1 / double(x), 0x1p-23, 0, by);
  }
};
struct ReciprocalRoot {
  static constexpr uint64_t number = 3;
  static float run(float x, double by) {
    return perturb(1 / std::sqrt(double(x)), 0x1.125p-23, 0, by); // 2^-22.9
  }
};
struct Root {
  static constexpr uint64_t number = 4;
  static float run(float x, double by) {
    return perturb(std::sqrt(double(x)), 0x1p-23, 0, by);
  }
};
struct Sine {
  static constexpr uint64_t number = 5;
  static float run(float x, double by) {
    return perturb(std::sin(double(x)), 0, 0x1.6ap-21, by); // 2^-20.5
  }
};
struct Cosine {
  static constexpr uint64_t number = 6;
  static float run(float x, double by) {
    return perturb(std::cos(double(x)), 0, 0x1.6ap-21, by);
  }
};
struct HyperbolicTangent {
  static constexpr uint64_t number = 7;
  static float run(float x, double by) {
    float result = perturb(std::tanh(double(x)), 0x1p-11, 0, by);
    return std::fabs(result) > 1 ? std::copysign(1.0f, result) : result;
  }
};

template <class F, bool Flushes> float approximate(float x, uint64_t seed) {
  float a = Flushes ? flush(x) : x;
  float result = F::run(a, deviation(bitsOf(a), seed, F::number));
  return Flushes ? flush(result) : result;
}

template <class F, bool Flushes> void function(Warp &warp, const Op &op) {
  const float *a = warp.row<float>(op, 1);
  uint64_t seed = warp.worker->options->approximate;
  eachLane(warp, warp.row<float>(op, 0),
           [&](int i) { return approximate<F, Flushes>(a[i], seed); });
}

/// The approximate functions, such as ex2.approx, on 16-bit floats. No error is
/// added, because rounding to 16 bits would hide it.
template <class F, class Format, int lanes>
void narrowFunction(Warp &warp, const Op &op) {
  const uint16_t *a = warp.row<uint16_t>(op, 1);
  uint64_t seed = warp.worker->options->approximate;
  auto at = [&](int i) {
    float value = approximate<F, false>(widenNarrow<Format>(a[i]), seed);
    return roundToNarrow<Format>(value);
  };
  if constexpr (lanes == 1)
    eachLane(warp, warp.row<uint16_t>(op, 0), at);
  else
    eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
      return uint32_t(at(2 * i)) | uint32_t(at(2 * i + 1)) << 16;
    });
}

/// div.approx and div.full. If the divisor is so large that its reciprocal is
/// flushed to zero, div.approx returns zero.
template <bool Full, bool Flushes> void divide(Warp &warp, const Op &op) {
  const float *a = warp.row<float>(op, 1), *b = warp.row<float>(op, 2);
  uint64_t seed = warp.worker->options->approximate;
  eachLane(warp, warp.row<float>(op, 0), [&](int i) {
    float x = Flushes ? flush(a[i]) : a[i], y = Flushes ? flush(b[i]) : b[i];
    double exact = double(x) / y;
    if (!Full && std::fabs(y) > 0x1p126f && std::isfinite(y))
      exact = std::isinf(x) ? std::nan("") : 0 * exact;
    uint64_t bits = uint64_t(bitsOf(x)) << 32 | bitsOf(y);
    float result = perturb(exact, twoUlp, 0, deviation(bits, seed, 8));
    return Flushes ? flush(result) : result;
  });
}

template <class F> void decodeFunction(Decode &d) {
  if (!d.take("approx"))
    d.failUnknown();
  bool flushes = d.take("ftz");
  Type type = d.type();
  d.expectOperands(2);
  d.result(0, type);
  d.use(1, type);
  constexpr bool hasNarrow =
      std::is_same_v<F, Exponential> || std::is_same_v<F, HyperbolicTangent>;
  if (type == f32Type)
    d.op.run = flushes ? function<F, true> : function<F, false>;
  else if (hasNarrow && type.kind == Type::Float && type.width == 16)
    d.op.run = type.lanes == 1 ? narrowFunction<F, Half, 1>
                               : narrowFunction<F, Half, 2>;
  else if (hasNarrow && type.kind == Type::BFloat)
    d.op.run = type.lanes == 1 ? narrowFunction<F, BFloat16, 1>
                               : narrowFunction<F, BFloat16, 2>;
  else
    d.failUnknown();
}

void decodeDivide(Decode &d) {
  int kind = d.takeOneOf({"approx", "full"});
  bool flushes = d.take("ftz");
  Type type = d.type();
  if (kind < 0 || !(type == f32Type))
    d.failUnknown();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  d.op.run = kind == 0 ? flushes ? divide<false, true> : divide<false, false>
             : flushes ? divide<true, true>
                       : divide<true, false>;
}
} // namespace

void decodeApproximate(Decode &d) {
  const std::string &name = d.source.opcode;
  if (name == "div")
    decodeDivide(d);
  else if (name == "rcp")
    decodeFunction<Reciprocal>(d);
  else if (name == "sqrt")
    decodeFunction<Root>(d);
  else
    d.failUnknown();
}

const Opcode approximateOpcodes[] = {
    {"ex2", Class::Float, decodeFunction<Exponential>},
    {"lg2", Class::Float, decodeFunction<Logarithm>},
    {"rsqrt", Class::Float, decodeFunction<ReciprocalRoot>},
    {"sin", Class::Float, decodeFunction<Sine>},
    {"cos", Class::Float, decodeFunction<Cosine>},
    {"tanh", Class::Float, decodeFunction<HyperbolicTangent>},
    {nullptr, Class::Float, nullptr}};

} // namespace heddle::emulator
