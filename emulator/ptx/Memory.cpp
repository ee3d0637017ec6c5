//===- Memory.cpp - Loads and stores --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements ld, st and prefetch for all state spaces.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Access.h"
#include "emulator/ptx/Lanes.h"

namespace heddle::emulator {

namespace {
enum MemoryFlags { IsStrong = 256 };

template <class T> T read(const char *from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Executes a load of N values of type T for each lane. The registers have type
/// R, which may be wider than T.
template <class T, class R, int N> void load(Warp &warp, const Op &op) {
  Access access(warp, op, N);
  constexpr int64_t bytes = sizeof(T) * N;
  access.resolve(warp, static_cast<Space>(op.flags & SpaceMask), bytes);
  access.noteRead(warp, bytes);
  bool isStrong = op.flags & IsStrong;
  noteAccess(warp, access, bytes,
             isStrong ? AccessKind::AtomicRead : AccessKind::Read);
  if (isStrong && access.isGlobal)
    learnOfBlocks(warp);
  countRequest(warp, access, bytes);
  if (access.isDense) {
    const auto *from = reinterpret_cast<const T *>(access.host[0]);
    R *rows[N];
    for (int k = 0; k < N; ++k)
      rows[k] = warp.row<R>(op, k);
    HEDDLE_LANES
    for (int i = 0; i < warpSize; ++i)
      for (int k = 0; k < N; ++k)
        rows[k][i] = static_cast<R>(from[i * N + k]);
    return;
  }
  // Read all values before any register is written, because one of the
  // registers may hold the address.
  R values[N][warpSize];
  for (int i = 0; i < warpSize; ++i)
    for (int k = 0; k < N; ++k)
      values[k][i] = static_cast<R>(read<T>(access.host[i] + k * sizeof(T)));
  for (int k = 0; k < N; ++k)
    store(warp.row<R>(op, k), values[k], warp.mask);
}

template <class T, class R, int N> void storeTo(Warp &warp, const Op &op) {
  Access access(warp, op, 0);
  constexpr int64_t bytes = sizeof(T) * N;
  access.resolve(warp, static_cast<Space>(op.flags & SpaceMask), bytes);
  noteAccess(warp, access, bytes,
             op.flags & IsStrong ? AccessKind::Atomic : AccessKind::Write);
  countRequest(warp, access, bytes);
  const R *rows[N];
  for (int k = 0; k < N; ++k)
    rows[k] = warp.row<R>(op, 1 + k);
  if (access.isDense && !access.isShared) {
    auto *to = reinterpret_cast<T *>(access.host[0]);
    HEDDLE_LANES
    for (int i = 0; i < warpSize; ++i)
      for (int k = 0; k < N; ++k)
        to[i * N + k] = static_cast<T>(rows[k][i]);
    return;
  }
  forLanes(warp.mask, [&](int i) {
    T values[N];
    for (int k = 0; k < N; ++k)
      values[k] = static_cast<T>(rows[k][i]);
    access.noteWrite(warp, i, bytes, reinterpret_cast<char *>(values));
    std::memcpy(access.host[i], values, sizeof(values));
  });
}

/// Executes ld.param of a parameter of the kernel, which has the same value for
/// all lanes.
template <class T, class R, int N>
void loadParameter(Warp &warp, const Op &op) {
  const char *from = warp.worker->parameters + op.imm;
  for (int k = 0; k < N; ++k) {
    auto value = static_cast<R>(read<T>(from + k * sizeof(T)));
    eachLane(warp, warp.row<R>(op, k), [&](int) { return value; });
  }
}

//===----------------------------------------------------------------------===//
// Opcodes
//===----------------------------------------------------------------------===//

/// Consumes modifiers for caching and ordering. Returns whether the
/// instruction, such as `ld.volatile` or `ld.acquire`, synchronizes with other
/// threads. Accesses by such instructions do not race with each other.
bool takeHints(Decode &d) {
  int order =
      d.takeOneOf({"weak", "volatile", "relaxed", "acquire", "release"});
  d.takeOneOf({"gpu", "cta", "sys", "cluster"});
  d.takeOneOf({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  d.op.readsConstants = d.take("nc");
  while (!d.takePrefix("L1::").empty() || !d.takePrefix("L2::").empty()) {
  }
  return order > 0;
}

int takeVector(Decode &d) {
  int index = d.takeOneOf({"v2", "v4"});
  return index < 0 ? 1 : index == 0 ? 2 : 4;
}

enum Kind { Load, Store, LoadParameter };

template <class T, class R, int N> Handler handlerOf(Kind kind) {
  return kind == Load    ? load<T, R, N>
         : kind == Store ? storeTo<T, R, N>
                         : loadParameter<T, R, N>;
}
template <class T, class R> Handler handlerOf(Kind kind, int count) {
  return count == 1       ? handlerOf<T, R, 1>(kind)
         : count == 2     ? handlerOf<T, R, 2>(kind)
         : sizeof(T) == 8 ? nullptr
                          : handlerOf<T, R, 4>(kind);
}

/// Returns the handler for a load or store of a type in memory and a register
/// of `bits` bits.
Handler chooseHandler(Kind kind, Type type, int bits, int count) {
  // Signedness matters only for an integer in a wider register, because it is
  // extended. All other values are copied as bits.
  Type stored = type;
  if (type.isFloat() || bits == type.bits())
    stored = {Type::Bits, type.bits()};
  Handler result = nullptr;
  withInteger(stored, [&](auto t) {
    using T = decltype(t);
    withBits(bits, [&](auto r) {
      using R = decltype(r);
      if constexpr (sizeof(R) >= sizeof(T))
        result = handlerOf<T, R>(kind, count);
    });
  });
  return result;
}

/// Consumes the registers of a vector, which must all have the same width.
/// Returns this width in bits.
int registers(Decode &d, size_t index, Type type, int count, bool areResults) {
  std::vector<Operand> elements = Decode::elements(d.operand(index));
  if (elements.size() != static_cast<size_t>(count))
    d.fail("'" + d.name() + "' takes " + std::to_string(count) + " registers");
  int bits = 0;
  for (const Operand &element : elements) {
    int of = areResults ? d.resultAnyWidth(element, type)
                        : d.useAnyWidth(element, type);
    if (bits && of != bits)
      d.fail("registers of a vector differ in width");
    bits = of;
  }
  return bits;
}

void decodeLoad(Decode &d) {
  bool isParameter = d.take("param"), isOfCall = false;
  if (isParameter && !d.isParameter(1)) {
    isOfCall = true;
    isParameter = false;
  }
  Space space = isOfCall      ? Space::Local
                : isParameter ? Space::Global
                              : takeSpace(d);
  bool isStrong = takeHints(d);
  int count = takeVector(d);
  Type type = d.type();
  d.expectOperands(2);
  int bits = registers(d, 0, type, count, /*areResults=*/true);
  if (isParameter)
    d.op.imm = d.parameter(1);
  else
    d.op.flags = addressFlags(d, space, d.address(1)) |
                 (isStrong ? uint32_t(IsStrong) : 0);
  d.op.run =
      chooseHandler(isParameter ? LoadParameter : Load, type, bits, count);
  if (!d.op.run)
    d.failUnknown();
}

void decodeStore(Decode &d) {
  bool isOfCall = d.take("param");
  if (isOfCall && d.isParameter(0))
    d.fail("'" + d.name() + "' writes a parameter of the kernel");
  Space space = isOfCall ? Space::Local : takeSpace(d);
  bool isStrong = takeHints(d);
  int count = takeVector(d);
  Type type = d.type();
  d.expectOperands(2);
  uint32_t flags = addressFlags(d, space, d.address(0)) |
                   (isStrong ? uint32_t(IsStrong) : 0);
  int bits = registers(d, 1, type, count, /*areResults=*/false);
  d.op.flags = flags;
  d.op.run = chooseHandler(Store, type, bits, count);
  if (!d.op.run)
    d.failUnknown();
}

/// prefetch and similar instructions do nothing, because they have no visible
/// effect.
void decodePrefetch(Decode &d) {
  takeSpace(d);
  d.takeOneOf({"L1", "L2"});
  takeHints(d);
  d.address(0);
  d.op.run = [](Warp &, const Op &) {};
}
} // namespace

const Opcode memoryOpcodes[] = {{"ld", Class::Memory, decodeLoad},
                                {"ldu", Class::Memory, decodeLoad},
                                {"st", Class::Memory, decodeStore},
                                {"prefetch", Class::Memory, decodePrefetch},
                                {nullptr, Class::Memory, nullptr}};

} // namespace heddle::emulator
