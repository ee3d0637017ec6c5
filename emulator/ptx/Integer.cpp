//===- Integer.cpp - Arithmetic on integers -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements add, sub, mul, mad, div, rem, min, max and their relatives on
// integers.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
template <class T> using Unsigned = std::make_unsigned_t<T>;

/// The integer type that is twice as wide as T, with the signedness of T.
template <class T> struct Twice;
template <> struct Twice<int16_t> { using Type = int32_t; };
template <> struct Twice<uint16_t> { using Type = uint32_t; };
template <> struct Twice<int32_t> { using Type = int64_t; };
template <> struct Twice<uint32_t> { using Type = uint64_t; };
template <> struct Twice<int64_t> { using Type = __int128; };
template <> struct Twice<uint64_t> { using Type = unsigned __int128; };
template <class T> using Wide = typename Twice<T>::Type;

template <class T> T multiplyLow(T a, T b) {
  // Multiply as 64-bit integers. 16-bit operands would be promoted to int,
  // whose product could overflow.
  return static_cast<T>(uint64_t(a) * uint64_t(b));
}
template <class T> T multiplyHigh(T a, T b) {
  return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
}
template <class T> T addWrapped(T a, T b) {
  return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
}

struct Add {
  template <class T> T operator()(T a, T b) const { return addWrapped(a, b); }
};
struct Subtract {
  template <class T> T operator()(T a, T b) const {
    return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  }
};
struct AddSaturated {
  int32_t operator()(int32_t a, int32_t b) const {
    int64_t sum = int64_t(a) + b;
    return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct SubtractSaturated {
  int32_t operator()(int32_t a, int32_t b) const {
    int64_t sum = int64_t(a) - b;
    return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
struct MultiplyLow {
  template <class T> T operator()(T a, T b) const { return multiplyLow(a, b); }
};
struct MultiplyHigh {
  template <class T> T operator()(T a, T b) const { return multiplyHigh(a, b); }
};
struct MultiplyWide {
  template <class T> Wide<T> operator()(T a, T b) const {
    return Wide<T>(a) * Wide<T>(b);
  }
};
struct MultiplyAddLow {
  template <class T> T operator()(T a, T b, T c) const {
    return addWrapped(multiplyLow(a, b), c);
  }
};
struct MultiplyAddHigh {
  template <class T> T operator()(T a, T b, T c) const {
    return addWrapped(multiplyHigh(a, b), c);
  }
};
struct MultiplyAddHighSaturated {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    return AddSaturated()(multiplyHigh(a, b), c);
  }
};
struct MultiplyAddWide {
  template <class T> Wide<T> operator()(T a, T b, Wide<T> c) const {
    return addWrapped(Wide<T>(a) * Wide<T>(b), c);
  }
};
/// mul24 and mad24 use the low 24 bits of their operands.
template <class T> T low24(T value) {
  return static_cast<T>(Unsigned<T>(value) << 8) >> 8;
}
struct Multiply24 {
  template <class T> T operator()(T a, T b) const {
    return multiplyLow(low24(a), low24(b));
  }
};
struct MultiplyAdd24 {
  template <class T> T operator()(T a, T b, T c) const {
    return addWrapped(multiplyLow(low24(a), low24(b)), c);
  }
};
/// Divides integers. PTX does not define the result of a division by zero; GPUs
/// return all ones.
struct Divide {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return static_cast<T>(~T(0));
    if (std::is_signed_v<T> && b == T(-1))
      return static_cast<T>(0 - Unsigned<T>(a));
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return a;
    if (std::is_signed_v<T> && b == T(-1))
      return 0;
    return static_cast<T>(a % b);
  }
};
struct Absolute {
  template <class T> T operator()(T a) const {
    return a < 0 ? static_cast<T>(0 - Unsigned<T>(a)) : a;
  }
};
struct Negate {
  template <class T> T operator()(T a) const {
    return static_cast<T>(0 - Unsigned<T>(a));
  }
};
struct Minimum {
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};
struct Maximum {
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};
struct SumOfDifference {
  template <class T> T operator()(T a, T b, T c) const {
    Unsigned<T> difference = a < b ? Unsigned<T>(b) - Unsigned<T>(a)
                                   : Unsigned<T>(a) - Unsigned<T>(b);
    return static_cast<T>(Unsigned<T>(c) + difference);
  }
};

/// Consumes the type of an integer instruction, which has 16, 32 or 64 bits.
Type integerType(Decode &d) {
  Type type = d.type();
  bool known = (type.kind == Type::Signed || type.kind == Type::Unsigned) &&
               type.width >= 16;
  if (!known)
    d.failUnknown();
  return type;
}

/// Calls `f` with a value of the C++ integer type that represents `type`, a PTX
/// type of at least 16 bits.
template <class F> void withWord(Type type, F f) {
  withInteger(type, [&](auto value) {
    if constexpr (sizeof(value) > 1)
      f(value);
  });
}

template <class F> void decodeBinary(Decode &d) {
  Type type = integerType(d);
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  withWord(type, [&](auto value) {
    using T = decltype(value);
    d.op.run = binary<T, T, T, F>;
  });
}

template <class F> void decodeUnary(Decode &d) {
  Type type = integerType(d);
  d.expectOperands(2);
  d.result(0, type);
  d.use(1, type);
  withWord(type, [&](auto value) {
    using T = decltype(value);
    d.op.run = unary<T, T, F>;
  });
}

template <class F> void decodeTernary(Decode &d) {
  Type type = integerType(d);
  d.expectOperands(4);
  d.result(0, type);
  for (int i = 1; i < 4; ++i)
    d.use(i, type);
  withWord(type, [&](auto value) {
    using T = decltype(value);
    d.op.run = ternary<T, T, T, T, F>;
  });
}

//===----------------------------------------------------------------------===//
// Extended precision: arithmetic with carries
//===----------------------------------------------------------------------===//

enum CarryFlags { CarryIn = 1, CarryOut = 2 };

/// Computes a + b + carry in, and the carry out. With `Subtracts`, computes a -
/// b, and the carries are borrows. The op's operands are: result, [carry out],
/// a, b, [carry in].
template <class T, bool Subtracts>
void addExtended(Warp &warp, const Op &op, const T *a, const T *b) {
  int last = op.results + op.operands - 1;
  uint32_t in = op.flags & CarryIn ? warp.predicate(op, last) : 0;
  T values[warpSize];
  uint32_t carries = 0;
  for (int i = 0; i < warpSize; ++i) {
    using W = unsigned __int128;
    W left = a[i], right = b[i], extra = in >> i & 1;
    W whole = Subtracts ? left - right - extra : left + right + extra;
    values[i] = static_cast<T>(whole);
    carries |= uint32_t(whole >> (8 * sizeof(T)) & 1) << i;
  }
  store(warp.row<T>(op, 0), values, warp.mask);
  if (op.flags & CarryOut)
    storePredicate(warp, warp.predicate(op, 1), carries);
}

template <class T, bool Subtracts> void addCarry(Warp &warp, const Op &op) {
  int first = op.results;
  addExtended<T, Subtracts>(warp, op, warp.row<T>(op, first),
                            warp.row<T>(op, first + 1));
}

template <class T, bool High> void multiplyAddCarry(Warp &warp, const Op &op) {
  int first = op.results;
  const T *a = warp.row<T>(op, first), *b = warp.row<T>(op, first + 1);
  T product[warpSize];
  for (int i = 0; i < warpSize; ++i)
    product[i] = High ? multiplyHigh(a[i], b[i]) : multiplyLow(a[i], b[i]);
  addExtended<T, false>(warp, op, product, warp.row<T>(op, first + 2));
}

/// Decodes the operands of an instruction that reads or writes the carry flag.
/// The PTX does not name the flag, so it is added after the operands that the
/// PTX names.
Type carryOperands(Decode &d, bool carriesIn, int count) {
  bool carriesOut = d.take("cc");
  Type type = integerType(d);
  if (type.width == 16)
    d.failUnknown();
  d.expectOperands(count + 1);
  d.result(0, type);
  if (carriesOut)
    d.resultCarry();
  for (int i = 1; i <= count; ++i)
    d.use(i, type);
  if (carriesIn)
    d.useCarry();
  d.op.flags = (carriesIn ? CarryIn : 0) | (carriesOut ? CarryOut : 0);
  return type;
}

template <bool Subtracts> void decodeAddCarry(Decode &d, bool carriesIn) {
  Type type = carryOperands(d, carriesIn, 2);
  d.op.run = type.width == 32 ? addCarry<uint32_t, Subtracts>
                              : addCarry<uint64_t, Subtracts>;
}

void decodeMultiplyAddCarry(Decode &d, bool carriesIn) {
  int part = d.takeOneOf({"lo", "hi"});
  if (part < 0)
    d.failUnknown();
  Type type = carryOperands(d, carriesIn, 3);
  bool isSigned = type.kind == Type::Signed;
  if (type.width == 32)
    d.op.run = part == 0  ? multiplyAddCarry<uint32_t, false>
               : isSigned ? nullptr
                          : multiplyAddCarry<uint32_t, true>;
  else
    d.op.run = part == 0  ? multiplyAddCarry<uint64_t, false>
               : isSigned ? nullptr
                          : multiplyAddCarry<uint64_t, true>;
  if (!d.op.run)
    d.failUnknown();
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

/// Whether the instruction works on floats: the last modifier of its opcode is
/// the type, such as the f32 of `add.rn.f32`.
bool isFloatForm(const Decode &d) {
  return !d.source.modifiers.empty() &&
         parseType(d.source.modifiers.back()).isFloat();
}

template <class F, class Saturated, bool Subtracts> void decodeSum(Decode &d) {
  if (isFloatForm(d))
    return decodeFloat(d);
  for (const std::string &modifier : d.source.modifiers)
    if (modifier == "cc")
      return decodeAddCarry<Subtracts>(d, /*carriesIn=*/false);
  bool saturates = d.take("sat");
  decodeBinary<F>(d);
  if (!saturates)
    return;
  if (d.source.modifiers.back() != "s32")
    d.failUnknown();
  d.op.run = binary<int32_t, int32_t, int32_t, Saturated>;
}

void decodeMultiply(Decode &d) {
  if (isFloatForm(d))
    return decodeFloat(d);
  switch (d.takeOneOf({"lo", "hi", "wide"})) {
  case 0:
    return decodeBinary<MultiplyLow>(d);
  case 1:
    return decodeBinary<MultiplyHigh>(d);
  case 2:
    break;
  default:
    d.failUnknown();
  }
  Type type = integerType(d), wide = {type.kind, type.width * 2};
  d.expectOperands(3);
  d.result(0, wide);
  d.use(1, type);
  d.use(2, type);
  withWord(type, [&](auto value) {
    using T = decltype(value);
    if constexpr (sizeof(T) == 2 || sizeof(T) == 4)
      d.op.run = binary<Wide<T>, T, T, MultiplyWide>;
  });
  if (!d.op.run)
    d.failUnknown();
}

void decodeMultiplyAdd(Decode &d) {
  if (isFloatForm(d))
    return decodeFloat(d);
  for (const std::string &modifier : d.source.modifiers)
    if (modifier == "cc")
      return decodeMultiplyAddCarry(d, /*carriesIn=*/false);
  bool saturates = d.take("sat");
  switch (d.takeOneOf({"lo", "hi", "wide"})) {
  case 0:
    decodeTernary<MultiplyAddLow>(d);
    break;
  case 1:
    decodeTernary<MultiplyAddHigh>(d);
    if (saturates && d.source.modifiers.back() == "s32") {
      d.op.run =
          ternary<int32_t, int32_t, int32_t, int32_t, MultiplyAddHighSaturated>;
      saturates = false;
    }
    break;
  case 2: {
    Type type = integerType(d), wide = {type.kind, type.width * 2};
    d.expectOperands(4);
    d.result(0, wide);
    d.use(1, type);
    d.use(2, type);
    d.use(3, wide);
    withWord(type, [&](auto value) {
      using T = decltype(value);
      if constexpr (sizeof(T) == 2 || sizeof(T) == 4)
        d.op.run = ternary<Wide<T>, T, T, Wide<T>, MultiplyAddWide>;
    });
    break;
  }
  default:
    d.failUnknown();
  }
  if (!d.op.run || saturates)
    d.failUnknown();
}

template <class F> void decode24(Decode &d) {
  if (!d.take("lo"))
    d.failUnknown();
  if constexpr (std::is_same_v<F, Multiply24>)
    decodeBinary<F>(d);
  else
    decodeTernary<F>(d);
  if (d.source.modifiers.back()[1] != '3')
    d.failUnknown();
}

template <class F> void decodeEither(Decode &d) {
  isFloatForm(d) ? decodeFloat(d) : decodeBinary<F>(d);
}
template <class F> void decodeEitherUnary(Decode &d) {
  if (isFloatForm(d))
    return decodeFloat(d);
  decodeUnary<F>(d);
  if (d.source.modifiers.back()[0] != 's')
    d.failUnknown();
}
} // namespace

const Opcode integerOpcodes[] = {
    {"add", Class::Integer, decodeSum<Add, AddSaturated, false>},
    {"sub", Class::Integer, decodeSum<Subtract, SubtractSaturated, true>},
    {"addc", Class::Integer,
     [](Decode &d) { decodeAddCarry<false>(d, /*carriesIn=*/true); }},
    {"subc", Class::Integer,
     [](Decode &d) { decodeAddCarry<true>(d, /*carriesIn=*/true); }},
    {"mul", Class::Integer, decodeMultiply},
    {"mad", Class::Integer, decodeMultiplyAdd},
    {"madc", Class::Integer,
     [](Decode &d) { decodeMultiplyAddCarry(d, /*carriesIn=*/true); }},
    {"mul24", Class::Integer, decode24<Multiply24>},
    {"mad24", Class::Integer, decode24<MultiplyAdd24>},
    {"div", Class::Integer, decodeEither<Divide>},
    {"rem", Class::Integer, decodeBinary<Remainder>},
    {"abs", Class::Integer, decodeEitherUnary<Absolute>},
    {"neg", Class::Integer, decodeEitherUnary<Negate>},
    {"min", Class::Integer, decodeEither<Minimum>},
    {"max", Class::Integer, decodeEither<Maximum>},
    {"sad", Class::Integer, decodeTernary<SumOfDifference>},
    {nullptr, Class::Integer, nullptr}};

} // namespace heddle::emulator
