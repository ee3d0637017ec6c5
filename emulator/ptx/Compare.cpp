//===- Compare.cpp - Comparisons and selections ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements setp, set, selp, slct and testp.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

namespace heddle::emulator {

namespace {
/// `Plain`, `Flushed` and `Widened` read an operand: unchanged, with denormals
/// flushed to zero, or converted from 16 bits to f32.
template <class T> struct Plain {
  using Bits = T;
  static T get(T value) { return value; }
};
struct Flushed {
  using Bits = float;
  static float get(float value) { return flush(value); }
};
template <class Format> struct Widened {
  using Bits = uint16_t;
  static float get(uint16_t value) { return widenNarrow<Format>(value); }
};

enum Comparison {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan
};

template <Comparison comparison> struct Compare {
  template <class T> bool operator()(T a, T b) const {
    bool unordered = a != a || b != b;
    switch (comparison) {
    case Eq:
      return a == b;
    case Ne: // Ordered and not equal.
      return a < b || a > b;
    case Lt:
      return a < b;
    case Le:
      return a <= b;
    case Gt:
      return a > b;
    case Ge:
      return a >= b;
    case Equ:
      return !(a < b || a > b);
    case Neu:
      return !(a == b);
    case Ltu:
      return !(a >= b);
    case Leu:
      return !(a > b);
    case Gtu:
      return !(a <= b);
    case Geu:
      return !(a < b);
    case Num:
      return !unordered;
    case Nan:
      return unordered;
    }
  }
};

enum Combination { None, And, Or, Xor };
enum CompareFlags { CombinationMask = 3, NegatesThird = 4, HasSecond = 8 };

uint32_t combine(const Op &op, uint32_t value, uint32_t third) {
  if (op.flags & NegatesThird)
    third = ~third;
  switch (op.flags & CombinationMask) {
  case And:
    return value & third;
  case Or:
    return value | third;
  case Xor:
    return value ^ third;
  default:
    return value;
  }
}

template <class L, Comparison comparison>
uint32_t compareRows(Warp &warp, const Op &op) {
  const auto *a = warp.row<typename L::Bits>(op, op.results);
  const auto *b = warp.row<typename L::Bits>(op, op.results + 1);
  return lanesWhere(
      [&](int i) { return Compare<comparison>()(L::get(a[i]), L::get(b[i])); });
}

/// setp: p = (a cmp b) op c, q = !(a cmp b) op c.
template <class L, Comparison comparison>
void setPredicate(Warp &warp, const Op &op) {
  uint32_t value = compareRows<L, comparison>(warp, op);
  uint32_t third =
      op.flags & CombinationMask ? warp.predicate(op, op.results + 2) : 0;
  storePredicate(warp, warp.predicate(op, 0), combine(op, value, third));
  if (op.flags & HasSecond)
    storePredicate(warp, warp.predicate(op, 1), combine(op, ~value, third));
}

/// set: writes all ones, or 1.0, to a register if the comparison holds,
/// otherwise zero.
template <class L, Comparison comparison>
void setRegister(Warp &warp, const Op &op) {
  uint32_t value = compareRows<L, comparison>(warp, op);
  if (op.flags & CombinationMask)
    value = combine(op, value, warp.predicate(op, op.results + 2));
  eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
    return value >> i & 1 ? static_cast<uint32_t>(op.imm) : 0;
  });
}

using Handlers = std::pair<Handler, Handler>; ///< setp and set.

template <class L> Handlers handlersOf(int comparison) {
#define HEDDLE_CASE(which)                                                     \
  case which:                                                                  \
    return {setPredicate<L, which>, setRegister<L, which>};
  switch (comparison) {
    HEDDLE_CASE(Eq)
    HEDDLE_CASE(Ne)
    HEDDLE_CASE(Lt)
    HEDDLE_CASE(Le)
    HEDDLE_CASE(Gt)
    HEDDLE_CASE(Ge)
    HEDDLE_CASE(Equ)
    HEDDLE_CASE(Neu)
    HEDDLE_CASE(Ltu)
    HEDDLE_CASE(Leu)
    HEDDLE_CASE(Gtu)
    HEDDLE_CASE(Geu)
    HEDDLE_CASE(Num)
    HEDDLE_CASE(Nan)
  }
#undef HEDDLE_CASE
  return {};
}

/// Consumes the name of a comparison. The names lo, ls, hi and hs compare
/// operands as unsigned integers.
int takeComparison(Decode &d, bool &isUnsigned) {
  int comparison =
      d.takeOneOf({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu",
                   "leu", "gtu", "geu", "num", "nan"});
  isUnsigned = false;
  if (comparison >= 0)
    return comparison;
  int unsignedOne = d.takeOneOf({"lo", "ls", "hi", "hs"});
  if (unsignedOne < 0)
    d.failUnknown();
  isUnsigned = true;
  return Lt + unsignedOne;
}

Handlers compareHandlers(Decode &d, Type type, int comparison, bool flushes,
                         bool isUnsigned) {
  if (type.lanes != 1)
    d.failUnknown();
  if (type == f32Type)
    return flushes ? handlersOf<Flushed>(comparison)
                   : handlersOf<Plain<float>>(comparison);
  if (type.kind == Type::BFloat)
    return handlersOf<Widened<BFloat16>>(comparison);
  if (type.kind == Type::Float)
    return type.width == 64 ? handlersOf<Plain<double>>(comparison)
                            : handlersOf<Widened<Half>>(comparison);
  if (comparison > Ge || (isUnsigned && type.kind == Type::Signed) ||
      (type.kind == Type::Bits && comparison > Ne))
    d.failUnknown();
  Handlers result;
  bool known = type.width >= 16 && withInteger(type, [&](auto value) {
                 result = handlersOf<Plain<decltype(value)>>(comparison);
               });
  if (!known)
    d.failUnknown();
  return result;
}

/// Decodes the operands of setp or set, which follow the results, and returns
/// the handlers for setp and set.
Handlers decodeComparison(Decode &d, Type type, int comparison, bool flushes,
                          bool isUnsigned, int combination) {
  d.expectOperands(combination ? 4 : 3);
  d.use(1, type);
  d.use(2, type);
  if (combination) {
    d.use(3, predType);
    d.op.flags |= static_cast<uint32_t>(combination);
    if (d.operand(3).negated)
      d.op.flags |= NegatesThird;
  }
  return compareHandlers(d, type, comparison, flushes, isUnsigned);
}

void decodeSetp(Decode &d) {
  bool isUnsigned;
  int comparison = takeComparison(d, isUnsigned);
  bool flushes = d.take("ftz");
  int combination = 1 + d.takeOneOf({"and", "or", "xor"});
  Type type = d.type();
  d.result(0, predType);
  if (d.hasSecond(0)) {
    d.result(d.second(0), predType);
    d.op.flags |= HasSecond;
  }
  d.op.run =
      decodeComparison(d, type, comparison, flushes, isUnsigned, combination)
          .first;
}

void decodeSet(Decode &d) {
  bool isUnsigned;
  int comparison = takeComparison(d, isUnsigned);
  bool flushes = d.take("ftz");
  int combination = 1 + d.takeOneOf({"and", "or", "xor"});
  Type to = d.type(), type = d.type();
  if (to.bits() != 32)
    d.failUnknown();
  d.result(0, to);
  d.op.imm = to == f32Type ? bitsOf(1.0f) : ~uint32_t(0);
  d.op.run =
      decodeComparison(d, type, comparison, flushes, isUnsigned, combination)
          .second;
}

template <class T> void select(Warp &warp, const Op &op) {
  const T *a = warp.row<T>(op, 1), *b = warp.row<T>(op, 2);
  uint32_t p = warp.predicate(op, 3);
  eachLane(warp, warp.row<T>(op, 0),
           [&](int i) { return p >> i & 1 ? a[i] : b[i]; });
}

void decodeSelect(Decode &d) {
  Type type = d.type();
  d.expectOperands(4);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  d.use(3, predType);
  if (type.width < 16 || !withBits(type.bits(), [&](auto value) {
        d.op.run = select<decltype(value)>;
      }))
    d.failUnknown();
}

/// slct: selects a if c >= 0, otherwise b. If c is a NaN, selects b.
template <class T, class C, bool Flushes>
void selectBySign(Warp &warp, const Op &op) {
  const T *a = warp.row<T>(op, 1), *b = warp.row<T>(op, 2);
  const C *c = warp.row<C>(op, 3);
  eachLane(warp, warp.row<T>(op, 0), [&](int i) {
    C by = c[i];
    if constexpr (Flushes)
      by = flush(by);
    return by >= 0 ? a[i] : b[i];
  });
}

void decodeSelectBySign(Decode &d) {
  bool flushes = d.take("ftz");
  Type type = d.type(), by = d.type();
  d.expectOperands(4);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  d.use(3, by);
  bool isFloat = by == f32Type;
  if (type.width < 16 || (!isFloat && !(by == Type{Type::Signed, 32})) ||
      !withBits(type.bits(), [&](auto value) {
        using T = decltype(value);
        d.op.run = !isFloat  ? selectBySign<T, int32_t, false>
                   : flushes ? selectBySign<T, float, true>
                             : selectBySign<T, float, false>;
      }))
    d.failUnknown();
}

enum Test { Finite, Infinite, Number, NotANumber, Normal, Subnormal };

template <class T> void testProperty(Warp &warp, const Op &op) {
  const T *a = warp.row<T>(op, 1);
  uint32_t value = lanesWhere([&](int i) {
    switch (op.imm) {
    case Finite:
      return std::isfinite(a[i]);
    case Infinite:
      return std::isinf(a[i]);
    case Number:
      return !std::isnan(a[i]);
    case NotANumber:
      return std::isnan(a[i]);
    case Normal:
      return std::isnormal(a[i]);
    default:
      return std::fpclassify(a[i]) == FP_SUBNORMAL;
    }
  });
  storePredicate(warp, warp.predicate(op, 0), value);
}

void decodeTest(Decode &d) {
  d.op.imm = d.takeOneOf(
      {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  Type type = d.type();
  if (d.op.imm < 0 || type.kind != Type::Float || type.width < 32)
    d.failUnknown();
  d.expectOperands(2);
  d.result(0, predType);
  d.use(1, type);
  d.op.run = type.width == 32 ? testProperty<float> : testProperty<double>;
}
} // namespace

const Opcode compareOpcodes[] = {{"setp", Class::Integer, decodeSetp},
                                 {"set", Class::Integer, decodeSet},
                                 {"selp", Class::Integer, decodeSelect},
                                 {"slct", Class::Integer, decodeSelectBySign},
                                 {"testp", Class::Float, decodeTest},
                                 {nullptr, Class::Integer, nullptr}};

} // namespace heddle::emulator
