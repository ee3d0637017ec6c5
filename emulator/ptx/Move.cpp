//===- Move.cpp - Moves between registers ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements mov, cvta, isspacep and reads of the clock.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"

namespace heddle::emulator {

namespace {
struct Identity {
  template <class T> T operator()(T value) const { return value; }
};

/// mov of a vector {a, b, ...} to one register. The first element gets the
/// lowest bits.
template <class Whole, class Part> void pack(Warp &warp, const Op &op) {
  constexpr int count = sizeof(Whole) / sizeof(Part);
  const Part *parts[count];
  for (int i = 0; i < count; ++i)
    parts[i] = warp.row<Part>(op, 1 + i);
  eachLane(warp, warp.row<Whole>(op, 0), [&](int lane) {
    Whole whole = 0;
    for (int i = 0; i < count; ++i)
      whole |=
          static_cast<Whole>(Whole(parts[i][lane]) << (8 * sizeof(Part) * i));
    return whole;
  });
}

template <class Whole, class Part> void unpack(Warp &warp, const Op &op) {
  constexpr int count = sizeof(Whole) / sizeof(Part);
  Whole values[warpSize];
  std::memcpy(values, warp.row<Whole>(op, count), sizeof(values));
  for (int i = 0; i < count; ++i)
    eachLane(warp, warp.row<Part>(op, i), [&](int lane) {
      return static_cast<Part>(values[lane] >> (8 * sizeof(Part) * i));
    });
}

/// Calls f with two zeros that only tell f their C++ types: that of a register
/// of `whole` bits, and that of one of the `count` elements that the register
/// packs. Returns false if PTX has no such vector.
template <class F> bool withParts(int whole, size_t count, F f) {
  if (whole == 16 && count == 2)
    f(uint16_t(), uint8_t());
  else if (whole == 32 && count == 2)
    f(uint32_t(), uint16_t());
  else if (whole == 32 && count == 4)
    f(uint32_t(), uint8_t());
  else if (whole == 64 && count == 2)
    f(uint64_t(), uint32_t());
  else if (whole == 64 && count == 4)
    f(uint64_t(), uint16_t());
  else
    return false;
  return true;
}

void decodeVector(Decode &d, Type type) {
  bool packs = d.operand(1).kind == Operand::Vector;
  const Operand &vector = d.operand(packs ? 1 : 0);
  int count = static_cast<int>(vector.elements.size());
  Type part = {Type::Bits, type.bits() / std::max(count, 1)};
  if (packs)
    d.result(0, type);
  for (const Operand &element : vector.elements)
    packs ? d.use(element, part) : d.result(element, part);
  if (!packs)
    d.use(1, type);
  if (!withParts(type.bits(), vector.elements.size(), [&](auto w, auto p) {
        using Whole = decltype(w);
        using Part = decltype(p);
        d.op.run = packs ? pack<Whole, Part> : unpack<Whole, Part>;
      }))
    d.failUnknown();
}

/// Returns the width of a clock register in bits, or 0 if the operand is no
/// clock register.
int clockBits(const Operand &operand) {
  return operand.name == "%clock"                                       ? 32
         : operand.name == "%clock64" || operand.name == "%globaltimer" ? 64
                                                                        : 0;
}

/// Reads the clock. Each read advances it, so that its values are the same in
/// every run.
template <class T> void readClock(Warp &warp, const Op &op) {
  constexpr uint64_t between = 64;
  auto now = static_cast<T>(warp.cluster->clock += between);
  eachLane(warp, warp.row<T>(op, 0), [&](int) { return now; });
}

void decodeMove(Decode &d) {
  Type type = d.type();
  d.expectOperands(2);
  if (int bits = clockBits(d.operand(1)); bits && bits == type.bits()) {
    d.result(0, type);
    d.op.run = bits == 32 ? readClock<uint32_t> : readClock<uint64_t>;
    return;
  }
  if (d.operand(0).kind == Operand::Vector ||
      d.operand(1).kind == Operand::Vector)
    return decodeVector(d, type);
  d.result(0, type);
  d.use(1, type);
  if (type.kind == Type::Pred)
    d.op.run = [](Warp &warp, const Op &op) {
      storePredicate(warp, warp.predicate(op, 0), warp.predicate(op, 1));
    };
  else if (type.width < 16 || !withBits(type.bits(), [&](auto value) {
             using T = decltype(value);
             d.op.run = unary<T, T, Identity>;
           }))
    d.failUnknown();
}

//===----------------------------------------------------------------------===//
// Conversions between address spaces
//===----------------------------------------------------------------------===//

template <uint64_t offset, bool ToGeneric> struct Rebase {
  uint64_t operator()(uint64_t address) const {
    return ToGeneric ? address + offset : address - offset;
  }
};

void decodeAddressSpace(Decode &d) {
  bool toSpace = d.take("to");
  int space = d.takeOneOf({"global", "const", "shared", "local", "shared::cta",
                           "param", "shared::cluster"});
  if (space < 0 || (space == 5 && toSpace) || !d.take("u64"))
    d.failUnknown();
  d.expectOperands(2);
  d.result(0, b64Type);
  d.use(1, b64Type);
  using U = uint64_t;
  if (space < 2)
    d.op.run = unary<U, U, Identity>;
  else if (space == 5)
    d.op.run = unary<U, U, Rebase<parameterWindow, true>>;
  else if (space == 3)
    d.op.run = toSpace ? unary<U, U, Rebase<localWindow, false>>
                       : unary<U, U, Rebase<localWindow, true>>;
  else
    d.op.run = toSpace ? unary<U, U, Rebase<sharedWindow, false>>
                       : unary<U, U, Rebase<sharedWindow, true>>;
}

template <uint64_t window> void isInWindow(Warp &warp, const Op &op) {
  const uint64_t *a = warp.row<uint64_t>(op, 1);
  storePredicate(warp, warp.predicate(op, 0), lanesWhere([&](int i) {
                   return a[i] - window < windowBytes;
                 }));
}
void isGlobal(Warp &warp, const Op &op) {
  const uint64_t *a = warp.row<uint64_t>(op, 1);
  storePredicate(warp, warp.predicate(op, 0),
                 lanesWhere([&](int i) { return a[i] < sharedWindow; }));
}

/// isspacep.shared::cta: whether an address is in the shared memory of the
/// block itself.
void isOwnShared(Warp &warp, const Op &op) {
  const uint64_t *a = warp.row<uint64_t>(op, 1);
  uint64_t self = static_cast<uint64_t>(warp.block->rank) + 1;
  storePredicate(warp, warp.predicate(op, 0), lanesWhere([&](int i) {
                   uint64_t offset = a[i] - sharedWindow;
                   uint64_t rank = offset >> clusterRankShift;
                   return rank == 0 || rank == self;
                 }));
}

void decodeIsSpace(Decode &d) {
  int space = d.takeOneOf(
      {"global", "shared", "local", "shared::cta", "shared::cluster"});
  if (space < 0)
    d.failUnknown();
  d.expectOperands(2);
  d.result(0, predType);
  d.use(1, b64Type);
  d.op.run = space == 0   ? isGlobal
             : space == 2 ? isInWindow<localWindow>
             : space == 4 ? isInWindow<sharedWindow>
                          : isOwnShared;
}
} // namespace

const Opcode moveOpcodes[] = {{"mov", Class::Move, decodeMove},
                              {"cvta", Class::Move, decodeAddressSpace},
                              {"isspacep", Class::Move, decodeIsSpace},
                              {nullptr, Class::Move, nullptr}};

} // namespace heddle::emulator
