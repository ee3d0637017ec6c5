//===- Atomic.cpp - Atomic operations on memory ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements atom and red. The lanes of a warp execute an atomic operation one
// after the other, in order.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Bulk.h"
#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

#include <algorithm>
#include <cmath>

namespace heddle::emulator {

namespace {
struct Add {
  template <class T> static T run(T old, T value, T) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::make_unsigned_t<T>(old) +
                            std::make_unsigned_t<T>(value));
    else
      return old + value;
  }
};
struct Minimum {
  template <class T> static T run(T old, T value, T) {
    return std::min(old, value);
  }
};
struct Maximum {
  template <class T> static T run(T old, T value, T) {
    return std::max(old, value);
  }
};
struct And {
  template <class T> static T run(T old, T value, T) { return old & value; }
};
struct Or {
  template <class T> static T run(T old, T value, T) { return old | value; }
};
struct Xor {
  template <class T> static T run(T old, T value, T) { return old ^ value; }
};
struct Exchange {
  template <class T> static T run(T, T value, T) { return value; }
};
struct CompareExchange {
  template <class T> static T run(T old, T expected, T value) {
    return old == expected ? value : old;
  }
};
struct Increment {
  template <class T> static T run(T old, T limit, T) {
    return old >= limit ? 0 : old + 1;
  }
};
struct Decrement {
  template <class T> static T run(T old, T limit, T) {
    return old == 0 || old > limit ? limit : old - 1;
  }
};
/// Adds pairs of 16-bit floats. The two sums do not affect each other.
template <class Format> struct AddPair {
  static uint32_t run(uint32_t old, uint32_t value, uint32_t) {
    auto half = [&](int shift) -> uint32_t {
      double a = widenNarrow<Format>(static_cast<uint16_t>(old >> shift));
      double b = widenNarrow<Format>(static_cast<uint16_t>(value >> shift));
      return uint32_t(roundToNarrow<Format>(addToOdd(a, b))) << shift;
    };
    return half(0) | half(16);
  }
};

/// Adds two 16-bit floats.
template <class Format> struct AddNarrow {
  static uint16_t run(uint16_t old, uint16_t value, uint16_t) {
    return roundToNarrow<Format>(
        addToOdd(widenNarrow<Format>(old), widenNarrow<Format>(value)));
  }
};
/// Returns the smaller or larger of two floats. If one is a NaN, returns the
/// other one. +0 counts as larger than -0.
template <class Format, bool IsLeast> struct ExtremeNarrow {
  static uint16_t run(uint16_t old, uint16_t value, uint16_t) {
    double a = widenNarrow<Format>(old), b = widenNarrow<Format>(value);
    if (a != a || b != b)
      return a != a ? value : old;
    bool isLess = a != b ? a < b : std::signbit(a);
    return isLess == IsLeast ? old : value;
  }
};

template <size_t Bytes> struct BitsOfSize;
template <> struct BitsOfSize<2> { using Type = uint16_t; };
template <> struct BitsOfSize<4> { using Type = uint32_t; };
template <> struct BitsOfSize<8> { using Type = uint64_t; };

/// Atomically replaces *address by the result of F on the old value, and
/// returns the old value.
template <class T, class F> T update(char *address, T a, T b) {
  using Bits = typename BitsOfSize<sizeof(T)>::Type;
  auto *bits = reinterpret_cast<Bits *>(address);
  Bits before = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (true) {
    T old;
    std::memcpy(&old, &before, sizeof(T));
    T result = F::run(old, a, b);
    Bits after;
    std::memcpy(&after, &result, sizeof(T));
    if (__atomic_compare_exchange_n(bits, &before, after, /*weak=*/false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return old;
  }
}

/// Implements a reduction of a bulk copy: combines each element at `to` with
/// the element at `from` by the operation F.
template <class T, class F>
void reduceAll(char *to, const char *from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, from + at, sizeof(T));
    update<T, F>(to + at, value, value);
  }
}

/// Executes an atomic operation. The registers of `op` are, in order, the
/// result (not for red), the address, the operand a, and for cas the operand b.
template <class T, class F> void atomic(Warp &warp, const Op &op) {
  Access access(warp, op, op.results);
  access.resolveAll(warp, static_cast<Space>(op.flags & SpaceMask), sizeof(T));
  noteAccess(warp, access, sizeof(T), AccessKind::Atomic);
  if (op.results && access.isGlobal)
    learnOfBlocks(warp);
  countRequest(warp, access, sizeof(T));
  const T *a = warp.row<T>(op, op.results + 1);
  const T *b = op.operands > 2 ? warp.row<T>(op, op.results + 2) : a;
  T values[warpSize];
  forLanes(warp.mask, [&](int lane) {
    access.noteAtomic(warp, lane, sizeof(T));
    values[lane] = update<T, F>(access.host[lane], a[lane], b[lane]);
  });
  if (op.results)
    store(warp.row<T>(op, 0), values, warp.mask);
}

template <class T> Handler arithmetic(const std::string &name) {
  if (name == "add")
    return atomic<T, Add>;
  if constexpr (std::is_integral_v<T>) {
    if (name == "min")
      return atomic<T, Minimum>;
    if (name == "max")
      return atomic<T, Maximum>;
  }
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (name == "inc")
      return atomic<T, Increment>;
    if (name == "dec")
      return atomic<T, Decrement>;
  }
  return nullptr;
}

template <class T> Handler logic(const std::string &name) {
  return name == "and"    ? atomic<T, And>
         : name == "or"   ? atomic<T, Or>
         : name == "xor"  ? atomic<T, Xor>
         : name == "exch" ? atomic<T, Exchange>
         : name == "cas"  ? atomic<T, CompareExchange>
                          : nullptr;
}

Handler chooseHandler(const std::string &name, Type type) {
  Handler result = nullptr;
  if (type.lanes == 2)
    return name != "add"               ? nullptr
           : type.kind == Type::BFloat ? atomic<uint32_t, AddPair<BFloat16>>
                                       : atomic<uint32_t, AddPair<Half>>;
  if (type == f32Type)
    return arithmetic<float>(name);
  if (type.kind == Type::Float && type.width == 64)
    return arithmetic<double>(name);
  withInteger(type, [&](auto value) {
    using T = decltype(value);
    if constexpr (sizeof(T) >= 4)
      result = type.kind == Type::Bits ? logic<T>(name) : arithmetic<T>(name);
  });
  return result;
}

/// Decodes an atomic operation:
/// atom{.order}{.scope}{.space}.operation{.noftz}.type d, [a], b{, c}
void decodeAtomic(Decode &d, bool hasResult) {
  d.takeOneOf({"relaxed", "acquire", "release", "acq_rel"});
  d.takeOneOf({"gpu", "cta", "sys", "cluster"});
  Space space = takeSpace(d);
  static constexpr const char *names[] = {"add", "min", "max", "inc",  "dec",
                                          "and", "or",  "xor", "exch", "cas"};
  int operation = d.takeOneOf(
      {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  if (operation < 0 || space == Space::Local)
    d.failUnknown();
  d.take("noftz");
  while (!d.takePrefix("L2::").empty()) {
  }
  Type type = d.type();
  std::string name = names[operation];
  size_t values = name == "cas" ? 2 : 1, first = hasResult ? 1 : 0;
  d.expectOperands(first + 1 + values);
  if (hasResult)
    d.result(0, type);
  d.op.flags = addressFlags(d, space, d.address(first));
  for (size_t i = 1; i <= values; ++i)
    d.use(first + i, type);
  d.op.run = chooseHandler(name, type);
  if (!d.op.run)
    d.failUnknown();
}

template <class T> Reduction wholeReduction(int operation) {
  switch (operation) {
  case ReduceAdd:
    return std::is_same_v<T, int64_t> ? nullptr : reduceAll<T, Add>;
  case ReduceMin:
    return reduceAll<T, Minimum>;
  case ReduceMax:
    return reduceAll<T, Maximum>;
  }
  if constexpr (std::is_unsigned_v<T>)
    switch (operation) {
    case ReduceAnd:
      return reduceAll<T, And>;
    case ReduceOr:
      return reduceAll<T, Or>;
    case ReduceXor:
      return reduceAll<T, Xor>;
    }
  if constexpr (std::is_same_v<T, uint32_t>)
    switch (operation) {
    case ReduceInc:
      return reduceAll<T, Increment>;
    case ReduceDec:
      return reduceAll<T, Decrement>;
    }
  return nullptr;
}

template <class Format> Reduction narrowReduction(int operation) {
  return operation == ReduceAdd ? reduceAll<uint16_t, AddNarrow<Format>>
         : operation == ReduceMin
             ? reduceAll<uint16_t, ExtremeNarrow<Format, true>>
         : operation == ReduceMax
             ? reduceAll<uint16_t, ExtremeNarrow<Format, false>>
             : nullptr;
}
} // namespace

Reduction reductionOf(int operation, int type) {
  switch (type) {
  case MapU32:
    return wholeReduction<uint32_t>(operation);
  case MapS32:
    return wholeReduction<int32_t>(operation);
  case MapU64:
    return wholeReduction<uint64_t>(operation);
  case MapS64:
    return wholeReduction<int64_t>(operation);
  case MapF16:
    return narrowReduction<Half>(operation);
  case MapBF16:
    return narrowReduction<BFloat16>(operation);
  case MapF32:
    return operation == ReduceAdd ? reduceAll<float, Add> : nullptr;
  case MapF64:
    return operation == ReduceAdd ? reduceAll<double, Add> : nullptr;
  default:
    return nullptr;
  }
}

const Opcode atomicOpcodes[] = {
    {"atom", Class::Memory, [](Decode &d) { decodeAtomic(d, true); }},
    {"red", Class::Memory, [](Decode &d) { decodeAtomic(d, false); }},
    {nullptr, Class::Memory, nullptr}};

} // namespace heddle::emulator
