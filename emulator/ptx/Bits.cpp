//===- Bits.cpp - Logic, shifts and bit fields ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements and, or, xor, lop3, shifts, popc, clz, bfe, bfi, prmt and dp4a.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
template <class T> constexpr uint32_t bitsIn = 8 * sizeof(T);

struct And {
  template <class T> T operator()(T a, T b) const { return a & b; }
};
struct Or {
  template <class T> T operator()(T a, T b) const { return a | b; }
};
struct Xor {
  template <class T> T operator()(T a, T b) const { return a ^ b; }
};
struct Not {
  template <class T> T operator()(T a) const { return static_cast<T>(~a); }
};
/// cnot: 1 for zero, otherwise 0.
struct LogicalNot {
  template <class T> T operator()(T a) const { return a == 0; }
};
/// If the shift is by the width of the type or more, the result is zeros, or
/// copies of the sign bit.
struct ShiftLeft {
  template <class T> T operator()(T a, uint32_t by) const {
    return by < bitsIn<T> ? static_cast<T>(a << by) : 0;
  }
};
struct ShiftRight {
  template <class T> T operator()(T a, uint32_t by) const {
    if (std::is_signed_v<T>)
      return static_cast<T>(a >> std::min(by, bitsIn<T> - 1));
    return by < bitsIn<T> ? static_cast<T>(a >> by) : 0;
  }
};

template <bool Left, bool Wraps> struct Funnel {
  uint32_t operator()(uint32_t low, uint32_t high, uint32_t by) const {
    uint32_t n = Wraps ? by & 31 : std::min<uint32_t>(by, 32);
    uint64_t both = uint64_t(high) << 32 | low;
    return static_cast<uint32_t>(Left ? (both << n) >> 32 : both >> n);
  }
};

struct PopulationCount {
  template <class T> uint32_t operator()(T a) const {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
struct LeadingZeros {
  template <class T> uint32_t operator()(T a) const {
    return a ? __builtin_clzll(a) - (64 - bitsIn<T>) : bitsIn<T>;
  }
};
/// The index of the highest bit that differs from the sign bit. If there is no
/// such bit, all bits of the result are ones.
template <bool ShiftAmount> struct FindBit {
  template <class T> uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    U value = std::is_signed_v<T> && a < 0 ? ~U(a) : U(a);
    if (!value)
      return ~uint32_t(0);
    uint32_t position = 63 - __builtin_clzll(value);
    return ShiftAmount ? bitsIn<T> - 1 - position : position;
  }
};
struct ReverseBits {
  template <class T> T operator()(T a) const {
    T result = 0;
    for (uint32_t i = 0; i < bitsIn<T>; ++i)
      result |= static_cast<T>(a >> i & 1) << (bitsIn<T> - 1 - i);
    return result;
  }
};
struct ExtractField {
  template <class T>
  T operator()(T a, uint32_t position, uint32_t length) const {
    using U = std::make_unsigned_t<T>;
    uint32_t pos = position & 255, len = length & 255, top = bitsIn<T> - 1;
    if (len == 0)
      return 0;
    bool isNegative =
        std::is_signed_v<T> && (U(a) >> std::min(pos + len - 1, top) & 1);
    U field = pos > top ? 0 : U(a) >> pos;
    U mask = len > top ? U(~U(0)) : U((U(1) << len) - 1);
    // A field may extend beyond the highest bit of the value. Result bits that
    // are outside of the field or have no bit in the value are copies of the
    // field's sign bit.
    uint32_t inside = pos > top ? 0 : std::min(len, bitsIn<T> - pos);
    U known = inside > top ? U(~U(0)) : U((U(1) << inside) - 1);
    U result = field & mask & known;
    return static_cast<T>(isNegative ? result | U(~known) : result);
  }
};
struct InsertField {
  template <class T>
  T operator()(T a, T b, uint32_t position, uint32_t length) const {
    uint32_t pos = position & 255, len = length & 255;
    if (pos >= bitsIn<T> || len == 0)
      return b;
    T mask = len >= bitsIn<T> ? ~T(0) : (T(1) << len) - 1;
    return (b & ~(mask << pos)) | ((a & mask) << pos);
  }
};
template <bool Wraps> struct FieldMask {
  uint32_t operator()(uint32_t position, uint32_t length) const {
    uint32_t pos = Wraps ? position & 31 : position;
    uint32_t len = Wraps ? length & 31 : length;
    if (pos > 31 || len == 0)
      return 0;
    uint64_t mask = (uint64_t(1) << std::min<uint32_t>(len, 32)) - 1;
    return static_cast<uint32_t>(mask << pos);
  }
};

//===----------------------------------------------------------------------===//
// Logic
//===----------------------------------------------------------------------===//

template <class F> void predicateBinary(Warp &warp, const Op &op) {
  uint32_t value = F()(warp.predicate(op, 1), warp.predicate(op, 2));
  storePredicate(warp, warp.predicate(op, 0), value);
}

template <class F> void decodeLogic(Decode &d) {
  Type type = d.type();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  if (type.kind == Type::Pred)
    d.op.run = predicateBinary<F>;
  else if (type.kind == Type::Bits && type.width >= 16)
    withBits(type.width, [&](auto value) {
      using T = decltype(value);
      d.op.run = binary<T, T, T, F>;
    });
  else
    d.failUnknown();
}

void decodeNot(Decode &d) {
  Type type = d.type();
  d.expectOperands(2);
  d.result(0, type);
  d.use(1, type);
  if (type.kind == Type::Pred)
    d.op.run = [](Warp &warp, const Op &op) {
      storePredicate(warp, warp.predicate(op, 0), ~warp.predicate(op, 1));
    };
  else if (type.kind != Type::Bits || !withBits(type.width, [&](auto value) {
             using T = decltype(value);
             d.op.run = unary<T, T, Not>;
           }))
    d.failUnknown();
}

/// lop3: a logic function of three operands, bit by bit. The function is given
/// as a table of its eight results.
void lop3(Warp &warp, const Op &op) {
  const uint32_t *a = warp.row<uint32_t>(op, 1), *b = warp.row<uint32_t>(op, 2),
                 *c = warp.row<uint32_t>(op, 3);
  uint32_t table[8];
  for (int i = 0; i < 8; ++i)
    table[i] = op.imm >> i & 1 ? ~uint32_t(0) : 0;
  eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
    uint32_t result = 0;
    for (int j = 0; j < 8; ++j)
      result |= table[j] & (j & 4 ? a[i] : ~a[i]) & (j & 2 ? b[i] : ~b[i]) &
                (j & 1 ? c[i] : ~c[i]);
    return result;
  });
}

void decodeLop3(Decode &d) {
  if (!d.take("b32"))
    d.failUnknown();
  d.expectOperands(5);
  d.result(0, b32Type);
  for (int i = 1; i < 4; ++i)
    d.use(i, b32Type);
  d.op.imm = d.number(4);
  d.op.run = lop3;
}

//===----------------------------------------------------------------------===//
// Shifts, counts, fields
//===----------------------------------------------------------------------===//

template <class F> void decodeShift(Decode &d) {
  Type type = d.type();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, u32Type);
  bool known = type.width >= 16 && withInteger(type, [&](auto value) {
                 using T = decltype(value);
                 d.op.run = binary<T, T, uint32_t, F>;
               });
  if (!known)
    d.failUnknown();
}

void decodeFunnel(Decode &d) {
  int side = d.takeOneOf({"l", "r"}), mode = d.takeOneOf({"clamp", "wrap"});
  if (side < 0 || mode < 0 || !d.take("b32"))
    d.failUnknown();
  d.expectOperands(4);
  d.result(0, b32Type);
  for (int i = 1; i < 4; ++i)
    d.use(i, b32Type);
  using U = uint32_t;
  d.op.run = side == 0   ? mode == 0 ? ternary<U, U, U, U, Funnel<true, false>>
                                     : ternary<U, U, U, U, Funnel<true, true>>
               : mode == 0 ? ternary<U, U, U, U, Funnel<false, false>>
                         : ternary<U, U, U, U, Funnel<false, true>>;
}

/// Decodes popc and clz, which have operands of 32 or 64 bits and a 32-bit
/// result.
template <class F> void decodeCount(Decode &d) {
  Type type = d.type();
  d.expectOperands(2);
  d.result(0, u32Type);
  d.use(1, type);
  bool known = type.width >= 32 && withInteger(type, [&](auto value) {
                 using T = decltype(value);
                 if constexpr (sizeof(T) >= 4)
                   d.op.run = unary<uint32_t, T, F>;
               });
  if (!known)
    d.failUnknown();
}

void decodeFindBit(Decode &d) {
  d.take("shiftamt") ? decodeCount<FindBit<true>>(d)
                     : decodeCount<FindBit<false>>(d);
}

template <class F> void decodeUnaryBits(Decode &d) {
  Type type = d.type();
  d.expectOperands(2);
  d.result(0, type);
  d.use(1, type);
  if (type.kind != Type::Bits || !withBits(type.width, [&](auto value) {
        using T = decltype(value);
        d.op.run = unary<T, T, F>;
      }))
    d.failUnknown();
}

void decodeExtractField(Decode &d) {
  Type type = d.type();
  d.expectOperands(4);
  d.result(0, type);
  d.use(1, type);
  d.use(2, u32Type);
  d.use(3, u32Type);
  bool known = type.width >= 32 && withInteger(type, [&](auto value) {
                 using T = decltype(value);
                 d.op.run = ternary<T, T, uint32_t, uint32_t, ExtractField>;
               });
  if (!known)
    d.failUnknown();
}

template <class T> void insertField(Warp &warp, const Op &op) {
  const T *a = warp.row<T>(op, 1), *b = warp.row<T>(op, 2);
  const uint32_t *position = warp.row<uint32_t>(op, 3),
                 *length = warp.row<uint32_t>(op, 4);
  eachLane(warp, warp.row<T>(op, 0), [&](int i) {
    return InsertField()(a[i], b[i], position[i], length[i]);
  });
}

void decodeInsertField(Decode &d) {
  Type type = d.type();
  d.expectOperands(5);
  d.result(0, type);
  d.use(1, type);
  d.use(2, type);
  d.use(3, u32Type);
  d.use(4, u32Type);
  if (type == b32Type)
    d.op.run = insertField<uint32_t>;
  else if (type == b64Type)
    d.op.run = insertField<uint64_t>;
  else
    d.failUnknown();
}

void decodeFieldMask(Decode &d) {
  int mode = d.takeOneOf({"clamp", "wrap"});
  if (mode < 0 || !d.take("b32"))
    d.failUnknown();
  d.expectOperands(3);
  d.result(0, b32Type);
  d.use(1, b32Type);
  d.use(2, b32Type);
  using U = uint32_t;
  d.op.run = mode == 0 ? binary<U, U, U, FieldMask<false>>
                       : binary<U, U, U, FieldMask<true>>;
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

enum PermuteMode { Default, F4e, B4e, Rc8, Ecl, Ecr, Rc16 };

/// Returns the selector of bytes that has the same effect as a mode of prmt
/// with the operand `c`.
uint32_t permuteSelector(int64_t mode, uint32_t c) {
  uint32_t n = c & 3;
  auto bytes = [](uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3) {
    return b0 | b1 << 4 | b2 << 8 | b3 << 12;
  };
  switch (mode) {
  case F4e:
    return bytes(n, n + 1, n + 2, n + 3);
  case B4e:
    return bytes(n, (n + 7) & 7, (n + 6) & 7, (n + 5) & 7);
  case Rc8:
    return bytes(n, n, n, n);
  case Ecl:
    return bytes(n, std::max(n, 1u), std::max(n, 2u), 3);
  case Ecr:
    return bytes(0, std::min(n, 1u), std::min(n, 2u), n);
  case Rc16:
    return n & 1 ? bytes(2, 3, 2, 3) : bytes(0, 1, 0, 1);
  default:
    return c;
  }
}

void permute(Warp &warp, const Op &op) {
  const uint32_t *a = warp.row<uint32_t>(op, 1), *b = warp.row<uint32_t>(op, 2),
                 *c = warp.row<uint32_t>(op, 3);
  eachLane(warp, warp.row<uint32_t>(op, 0), [&](int i) {
    uint64_t both = uint64_t(b[i]) << 32 | a[i];
    uint32_t selector = permuteSelector(op.imm, c[i]), result = 0;
    for (int j = 0; j < 4; ++j) {
      uint32_t choice = selector >> (4 * j);
      uint32_t byte = both >> (8 * (choice & 7)) & 0xff;
      if (choice & 8) // Copy the byte's sign to all its bits.
        byte = byte & 0x80 ? 0xff : 0;
      result |= byte << (8 * j);
    }
    return result;
  });
}

void decodePermute(Decode &d) {
  if (!d.take("b32"))
    d.failUnknown();
  d.op.imm = 1 + d.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  d.expectOperands(4);
  d.result(0, b32Type);
  for (int i = 1; i < 4; ++i)
    d.use(i, b32Type);
  d.op.run = permute;
}

/// dp4a: adds to a sum the products of four pairs of bytes.
template <class A, class B> struct DotOfBytes {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += int32_t(A(a >> (8 * i))) * int32_t(B(b >> (8 * i)));
    return c + uint32_t(sum);
  }
};

void decodeDot(Decode &d) {
  Type a = d.type(), b = d.type();
  if (a.width != 32 || b.width != 32)
    d.failUnknown();
  d.expectOperands(4);
  d.result(0, b32Type);
  for (int i = 1; i < 4; ++i)
    d.use(i, b32Type);
  bool left = a.kind == Type::Signed, right = b.kind == Type::Signed;
  using U = uint32_t;
  d.op.run = left    ? right ? ternary<U, U, U, U, DotOfBytes<int8_t, int8_t>>
                             : ternary<U, U, U, U, DotOfBytes<int8_t, uint8_t>>
                : right ? ternary<U, U, U, U, DotOfBytes<uint8_t, int8_t>>
                     : ternary<U, U, U, U, DotOfBytes<uint8_t, uint8_t>>;
}
} // namespace

const Opcode bitOpcodes[] = {
    {"and", Class::Integer, decodeLogic<And>},
    {"or", Class::Integer, decodeLogic<Or>},
    {"xor", Class::Integer, decodeLogic<Xor>},
    {"not", Class::Integer, decodeNot},
    {"cnot", Class::Integer, decodeUnaryBits<LogicalNot>},
    {"lop3", Class::Integer, decodeLop3},
    {"shl", Class::Integer, decodeShift<ShiftLeft>},
    {"shr", Class::Integer, decodeShift<ShiftRight>},
    {"shf", Class::Integer, decodeFunnel},
    {"popc", Class::Integer, decodeCount<PopulationCount>},
    {"clz", Class::Integer, decodeCount<LeadingZeros>},
    {"bfind", Class::Integer, decodeFindBit},
    {"brev", Class::Integer, decodeUnaryBits<ReverseBits>},
    {"bfe", Class::Integer, decodeExtractField},
    {"bfi", Class::Integer, decodeInsertField},
    {"bmsk", Class::Integer, decodeFieldMask},
    {"prmt", Class::Integer, decodePermute},
    {"dp4a", Class::Integer, decodeDot},
    {nullptr, Class::Integer, nullptr}};

} // namespace heddle::emulator
