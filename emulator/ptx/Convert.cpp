//===- Convert.cpp - Conversions between types ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements cvt: conversions between integers and floats of all widths, with
// PTX's rounding modes and saturation.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

#include <algorithm>
#include <limits>

namespace heddle::emulator {

namespace {
enum Modes {
  RoundingMask = 7,
  Ftz = 8,
  Sat = 16,
  Relu = 32,
  ToInteger = 64 ///< For rni, rzi and so on: round to an integer.
};

Rounding roundingOf(uint32_t flags) {
  return static_cast<Rounding>(flags & RoundingMask);
}

/// Float types of PTX. `Bits` is the integer type that holds the bits of a
/// value.
struct F32 {
  using Bits = float;
  static double get(float value) { return value; }
};
struct F64 {
  using Bits = double;
  static double get(double value) { return value; }
};
template <class Format> struct F16 {
  using Bits = uint16_t;
  static double get(uint16_t value) { return widenNarrow<Format>(value); }
};

/// Rounds an f64 to f32.
float toSingle(double value, Rounding mode) {
  if (value != value)
    return floatOf(canonicalNan);
  auto nearest = static_cast<float>(value);
  if (mode == Rounding::Nearest || mode == Rounding::Away ||
      double(nearest) == value)
    return nearest;
  bool above = double(nearest) > value;
  bool wantsBelow =
      mode == Rounding::Down || (mode == Rounding::Zero && value > 0);
  if (above == wantsBelow)
    return std::nextafter(nearest, wantsBelow ? -INFINITY : INFINITY);
  return nearest;
}

/// Converts f32 to tf32. Depending on the mode, rounds the fraction to 10 bits
/// or cuts off its low 13 bits.
float toTf32(float value, Rounding mode) {
  if (!std::isfinite(value))
    return canonical(value);
  uint32_t bits = bitsOf(value);
  if (mode == Rounding::Away)
    bits += 0x1000;
  else if (mode == Rounding::Nearest)
    bits += 0xfff + (bits >> 13 & 1);
  return floatOf(bits & 0xffffe000u);
}

/// Converts the value of a float to another type.
template <class To> typename To::Bits fromDouble(double value, uint32_t flags);
template <> float fromDouble<F32>(double value, uint32_t flags) {
  return toSingle(value, roundingOf(flags));
}
template <> double fromDouble<F64>(double value, uint32_t) { return value; }
template <> uint16_t fromDouble<F16<Half>>(double value, uint32_t flags) {
  return roundToNarrow<Half>(value, roundingOf(flags));
}
template <> uint16_t fromDouble<F16<BFloat16>>(double value, uint32_t flags) {
  return roundToNarrow<BFloat16>(value, roundingOf(flags));
}

double adjust(double value, uint32_t flags) {
  if (flags & ToInteger)
    value = roundInteger(value, roundingOf(flags));
  if (flags & Sat)
    value = value > 0 ? std::min(value, 1.0) : 0;
  if (flags & Relu)
    value = value != value || value > 0 ? value : 0;
  return value;
}

template <class To, class From> void floatToFloat(Warp &warp, const Op &op) {
  const auto *a = warp.row<typename From::Bits>(op, 1);
  constexpr bool fromSingle = std::is_same_v<From, F32>;
  constexpr bool toSingle = std::is_same_v<To, F32>;
  eachLane(warp, warp.row<typename To::Bits>(op, 0), [&](int i) {
    double value = From::get(a[i]);
    if (fromSingle && (op.flags & Ftz))
      value = flush(static_cast<float>(value));
    auto result = fromDouble<To>(adjust(value, op.flags), op.flags);
    if constexpr (toSingle)
      if (op.flags & Ftz)
        result = flush(result);
    return result;
  });
}

/// Frequent conversions, written so that the compiler can vectorize them.
struct SingleToBFloat16 {
  uint16_t operator()(float value) const { return nearestBFloat16(value); }
};
template <class Format> struct NarrowToSingle {
  float operator()(uint16_t value) const {
    return canonical(widenNarrow<Format>(value));
  }
};

template <class I, class From> void floatToInteger(Warp &warp, const Op &op) {
  const auto *a = warp.row<typename From::Bits>(op, 1);
  // `end` is one more than the largest value of the integer type, and `least`
  // is the smallest value. Both are exact as doubles for every type.
  const double end = std::ldexp(1.0, std::numeric_limits<I>::digits);
  const double least = static_cast<double>(std::numeric_limits<I>::min());
  eachLane(warp, warp.row<I>(op, 0), [&](int i) -> I {
    double value = From::get(a[i]);
    if (std::is_same_v<From, F32> && (op.flags & Ftz))
      value = flush(static_cast<float>(value));
    if (value != value)
      return 0;
    value = roundInteger(value, roundingOf(op.flags));
    if (value >= end)
      return std::numeric_limits<I>::max();
    return value <= least ? std::numeric_limits<I>::min()
                          : static_cast<I>(value);
  });
}

/// Converts an integer to a double, rounded to odd. If the double is then
/// rounded to a shorter type, the result is correctly rounded.
template <class I> double toOdd(I value) {
  auto nearest = static_cast<double>(value);
  __int128 error = __int128(value) - static_cast<__int128>(nearest);
  if (error == 0)
    return nearest;
  uint64_t bits = bitsOf(nearest);
  if (bits & 1)
    return nearest;
  bool grows = (error > 0) == (nearest > 0);
  return doubleOf(grows ? bits + 1 : bits - 1);
}

template <class To, class I> void integerToFloat(Warp &warp, const Op &op) {
  const I *a = warp.row<I>(op, 1);
  eachLane(warp, warp.row<typename To::Bits>(op, 0), [&](int i) {
    if constexpr (std::is_same_v<To, F64>) {
      auto nearest = static_cast<double>(a[i]);
      __int128 error = __int128(a[i]) - static_cast<__int128>(nearest);
      Rounding mode = roundingOf(op.flags);
      bool down =
          mode == Rounding::Down || (mode == Rounding::Zero && a[i] > 0);
      if (mode == Rounding::Nearest || error == 0 || (error < 0) != down)
        return nearest;
      return std::nextafter(nearest, down ? -INFINITY : INFINITY);
    } else {
      double value = toOdd(a[i]);
      return fromDouble<To>(op.flags & Sat ? adjust(value, Sat) : value,
                            op.flags);
    }
  });
}

template <class To, class From>
void integerToInteger(Warp &warp, const Op &op) {
  const From *a = warp.row<From>(op, 1);
  eachLane(warp, warp.row<To>(op, 0),
           [&](int i) { return static_cast<To>(a[i]); });
}

//===----------------------------------------------------------------------===//
// Conversions of integers in registers wider than their type
//===----------------------------------------------------------------------===//

/// The type of an operand, and the width of its register in bits. The register
/// may be wider than the type.
struct Field {
  Type type;
  int registerBits;
};

int64_t pack(const Field &to, const Field &from) {
  auto of = [](const Field &field) {
    return int64_t(field.type.kind) | int64_t(field.type.width) << 8 |
           int64_t(field.registerBits) << 16;
  };
  return of(to) | of(from) << 32;
}

Field unpack(int64_t packed) {
  Type type;
  type.kind = static_cast<Type::Kind>(packed & 0xff);
  type.width = static_cast<int>(packed >> 8 & 0xff);
  return {type, static_cast<int>(packed >> 16 & 0xff)};
}

__int128 loadInteger(const void *row, const Field &field, int lane) {
  uint64_t bits = 0;
  size_t stride = field.registerBits / 8;
  std::memcpy(&bits, static_cast<const char *>(row) + lane * stride,
              field.type.width / 8);
  int unused = 64 - field.type.width;
  if (field.type.kind == Type::Signed)
    return static_cast<int64_t>(bits << unused) >> unused;
  return bits;
}

/// Truncates or saturates `value` to the field's type, and extends it to the
/// width of the field's register.
uint64_t asInteger(__int128 value, const Field &field, bool saturates) {
  int width = field.type.width;
  bool isSigned = field.type.kind == Type::Signed;
  if (saturates) {
    __int128 one = 1;
    __int128 least = isSigned ? -(one << (width - 1)) : 0;
    __int128 most = (one << (isSigned ? width - 1 : width)) - 1;
    value = std::clamp(value, least, most);
  }
  auto bits = static_cast<uint64_t>(value) << (64 - width);
  return isSigned ? uint64_t(static_cast<int64_t>(bits) >> (64 - width))
                  : bits >> (64 - width);
}

/// Stores f(lane) for all lanes to the op's result register, which has `bits`
/// bits in each lane.
template <class F> void storeWide(Warp &warp, const Op &op, int bits, F f) {
  withBits(bits, [&](auto value) {
    eachLane(warp, warp.row<decltype(value)>(op, 0), f);
  });
}

void convertInteger(Warp &warp, const Op &op) {
  Field to = unpack(op.imm), from = unpack(op.imm >> 32);
  const void *a = warp.row<char>(op, 1);
  storeWide(warp, op, to.registerBits, [&](int i) {
    return asInteger(loadInteger(a, from, i), to, op.flags & Sat);
  });
}

template <class To> void convertFromInteger(Warp &warp, const Op &op) {
  Field from = unpack(op.imm >> 32);
  const void *a = warp.row<char>(op, 1);
  eachLane(warp, warp.row<typename To::Bits>(op, 0), [&](int i) {
    auto value = static_cast<double>(loadInteger(a, from, i));
    return fromDouble<To>(op.flags & Sat ? adjust(value, Sat) : value,
                          op.flags);
  });
}

template <class From> void convertToInteger(Warp &warp, const Op &op) {
  Field to = unpack(op.imm);
  const auto *a = warp.row<typename From::Bits>(op, 1);
  storeWide(warp, op, to.registerBits, [&](int i) {
    double value = roundInteger(From::get(a[i]), roundingOf(op.flags));
    double bounded = value != value ? 0 : std::clamp(value, -0x1p80, 0x1p80);
    return asInteger(static_cast<__int128>(bounded), to, /*saturates=*/true);
  });
}

//===----------------------------------------------------------------------===//
// cvt
//===----------------------------------------------------------------------===//

template <class F> bool withFloat(Type type, F f) {
  if (type.lanes != 1)
    return false;
  if (type == f32Type)
    f(F32());
  else if (type.kind == Type::BFloat)
    f(F16<BFloat16>());
  else if (type.kind == Type::Float && type.width == 16)
    f(F16<Half>());
  else if (type.kind == Type::Float)
    f(F64());
  else
    return false;
  return true;
}

/// Converts two f32 to a packed pair, the first operand in the upper half.
template <class Format> void convertPair(Warp &warp, const Op &op) {
  const float *high = warp.row<float>(op, 1), *low = warp.row<float>(op, 2);
  eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
    auto narrow = [&](float value) -> uint32_t {
      return roundToNarrow<Format>(adjust(value, op.flags),
                                   roundingOf(op.flags));
    };
    return narrow(high[i]) << 16 | narrow(low[i]);
  });
}

void decodePair(Decode &d, Type to) {
  if (!(d.type() == f32Type) || (d.op.flags & ~(RoundingMask | Relu)))
    d.failUnknown();
  d.expectOperands(3);
  d.result(0, to);
  d.use(1, f32Type);
  d.use(2, f32Type);
  d.op.run =
      to.kind == Type::BFloat ? convertPair<BFloat16> : convertPair<Half>;
}

void decodeTf32(Decode &d) {
  if (!(d.type() == f32Type) || (d.op.flags & ~(RoundingMask | Relu)))
    d.failUnknown();
  d.expectOperands(2);
  d.result(0, b32Type);
  d.use(1, f32Type);
  d.op.run = [](Warp &warp, const Op &op) {
    const float *a = warp.row<float>(op, 1);
    eachLane(warp, warp.row<float>(op, 0), [&](int i) {
      auto value = static_cast<float>(adjust(a[i], op.flags & Relu));
      return toTf32(value, roundingOf(op.flags));
    });
  };
}

/// Consumes the modifiers for rounding and saturation. Returns whether a
/// rounding mode was among them.
bool takeModes(Decode &d) {
  int mode = d.takeOneOf({"rn", "rz", "rm", "rp", "rna"});
  int whole = mode < 0 ? d.takeOneOf({"rni", "rzi", "rmi", "rpi"}) : -1;
  d.op.flags = static_cast<uint32_t>(std::max({mode, whole, 0}));
  if (whole >= 0)
    d.op.flags |= ToInteger;
  d.op.flags |= (d.take("ftz") ? Ftz : 0) | (d.take("sat") ? Sat : 0) |
                (d.take("relu") ? Relu : 0);
  return mode >= 0 || whole >= 0;
}

void chooseFloatToFloat(Decode &d, Type to, Type from) {
  withFloat(to, [&](auto t) {
    withFloat(from, [&](auto f) {
      d.op.run = floatToFloat<decltype(t), decltype(f)>;
    });
  });
  bool isPlain = d.op.flags == 0;
  if (isPlain && from == f32Type && to.kind == Type::BFloat)
    d.op.run = unary<uint16_t, float, SingleToBFloat16>;
  else if (isPlain && to == f32Type && from.kind == Type::BFloat)
    d.op.run = unary<float, uint16_t, NarrowToSingle<BFloat16>>;
  else if (isPlain && to == f32Type && from.width == 16)
    d.op.run = unary<float, uint16_t, NarrowToSingle<Half>>;
}

/// Chooses the handler for a conversion from or to an integer. `areExact` says
/// whether both registers have exactly the width of their types.
void chooseWithInteger(Decode &d, Type to, Type from, bool areExact) {
  if (to.isFloat())
    withFloat(to, [&](auto t) {
      using To = decltype(t);
      d.op.run = convertFromInteger<To>;
      if (areExact)
        withInteger(
            from, [&](auto f) { d.op.run = integerToFloat<To, decltype(f)>; });
    });
  else if (from.isFloat())
    withFloat(from, [&](auto f) {
      using From = decltype(f);
      d.op.run = convertToInteger<From>;
      if (areExact)
        withInteger(
            to, [&](auto t) { d.op.run = floatToInteger<decltype(t), From>; });
    });
  else if (areExact && !(d.op.flags & Sat))
    withInteger(to, [&](auto t) {
      withInteger(from, [&](auto f) {
        d.op.run = integerToInteger<decltype(t), decltype(f)>;
      });
    });
  else
    d.op.run = convertInteger;
}

void decodeConvert(Decode &d) {
  bool isRounded = takeModes(d);
  Type to = d.type();
  if (to.lanes == 2)
    return isRounded ? decodePair(d, to) : d.failUnknown();
  if (to.kind == Type::Tf32)
    return isRounded ? decodeTf32(d) : d.failUnknown();
  Type from = d.type();
  if (from.lanes != 1 || from.kind == Type::Tf32 || to.kind == Type::Pred ||
      from.kind == Type::Pred)
    d.failUnknown();
  d.expectOperands(2);
  int toBits = d.resultAnyWidth(d.operand(0), to);
  int fromBits = d.useAnyWidth(d.operand(1), from);
  if (toBits < to.width || fromBits < from.width)
    d.fail("a register of '" + d.name() + "' is too narrow");
  bool areExact = toBits == to.width && fromBits == from.width;
  bool floats = to.isFloat() && from.isFloat();
  bool loses = floats && (to.width < from.width ||
                          (to.width == 16 && !(to.kind == from.kind)));
  bool needsRounding = loses || to.isFloat() != from.isFloat();
  if (needsRounding != isRounded && !(floats && (d.op.flags & ToInteger)))
    d.failUnknown();
  if ((to.isFloat() && toBits != to.width) ||
      (from.isFloat() && fromBits != from.width))
    d.fail("a float in a register that is wider");
  d.op.imm = pack({to, toBits}, {from, fromBits});
  floats ? chooseFloatToFloat(d, to, from)
         : chooseWithInteger(d, to, from, areExact);
}
} // namespace

const Opcode convertOpcodes[] = {{"cvt", Class::Move, decodeConvert},
                                 {nullptr, Class::Move, nullptr}};

} // namespace heddle::emulator
