//===- Exchange.cpp - Data exchange between the lanes of a warp -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements shfl, vote, match, redux and elect.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Lanes.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
/// Makes sure that the lanes in an instruction's mask operand execute the
/// instruction together. Returns false if some of these lanes are on another
/// divergent path; that path then runs first, and the instruction is executed
/// again. Fails if the mask is not exactly the set of lanes that execute the
/// instruction.
bool meet(Warp &warp, const uint32_t *masks) {
  uint32_t wanted = masks[__builtin_ctz(warp.mask)];
  forLanes(warp.mask, [&](int lane) {
    if (masks[lane] != wanted || !(wanted >> lane & 1))
      warp.fail(
          "incomplete operation of a warp: the mask of this lane does not "
          "name the lanes that are here",
          uint32_t(1) << lane);
  });
  if (!warp.converge(wanted))
    return false;
  if (uint32_t missing = wanted & warp.live & ~warp.mask)
    warp.fail("incomplete operation of a warp: " +
                  describeThreads(warp, missing) + " have not come",
              warp.mask);
  return true;
}

enum ShuffleMode { Up, Down, Butterfly, Index };

/// Executes shfl. The op's operands are: result, [predicate], value, source
/// lane, clamp and segment mask, member mask.
void shuffle(Warp &warp, const Op &op) {
  int first = op.results;
  if (!meet(warp, warp.row<uint32_t>(op, first + 3)))
    return;
  const uint32_t *value = warp.row<uint32_t>(op, first);
  const uint32_t *by = warp.row<uint32_t>(op, first + 1);
  const uint32_t *bounds = warp.row<uint32_t>(op, first + 2);
  uint32_t values[warpSize] = {}, valid = 0;
  forLanes(warp.mask, [&](int lane) {
    int b = by[lane] & 31, clamp = bounds[lane] & 31;
    int segment = bounds[lane] >> 8 & 31;
    int least = lane & segment, last = least | (clamp & ~segment);
    int from = op.imm == Up          ? lane - b
               : op.imm == Down      ? lane + b
               : op.imm == Butterfly ? lane ^ b
                                     : least | (b & ~segment);
    bool isInside = op.imm == Up ? from >= last : from <= last;
    valid |= uint32_t(isInside) << lane;
    if (!isInside)
      from = lane;
    // PTX leaves the value of an inactive source lane undefined, so return a
    // NaN.
    bool isHere = warp.mask >> from & 1;
    values[lane] = isHere ? value[from] : ~uint32_t(0);
  });
  store(warp.row<uint32_t>(op, 0), values, warp.mask);
  if (op.results > 1)
    storePredicate(warp, warp.predicate(op, 1), valid);
}

void decodeShuffle(Decode &d) {
  bool isSync = d.take("sync");
  d.op.imm = d.takeOneOf({"up", "down", "bfly", "idx"});
  if (!isSync || d.op.imm < 0 || !d.take("b32"))
    d.failUnknown();
  d.expectOperands(5);
  d.result(0, b32Type);
  if (d.hasSecond(0))
    d.result(d.second(0), predType);
  for (int i = 1; i < 5; ++i)
    d.use(i, b32Type);
  d.op.run = shuffle;
}

enum VoteMode { All, Any, Uniform, Ballot };

void vote(Warp &warp, const Op &op) {
  if (!meet(warp, warp.row<uint32_t>(op, 2)))
    return;
  uint32_t p = warp.predicate(op, 1);
  if (op.flags)
    p = ~p;
  p &= warp.mask;
  if (op.imm == Ballot)
    return eachLane(warp, warp.row<uint32_t>(op, 0), [&](int) { return p; });
  bool holds = op.imm == All   ? p == warp.mask
               : op.imm == Any ? p != 0
                               : p == 0 || p == warp.mask;
  storePredicate(warp, warp.predicate(op, 0), holds ? allLanes : 0);
}

void decodeVote(Decode &d) {
  bool isSync = d.take("sync");
  d.op.imm = d.takeOneOf({"all", "any", "uni", "ballot"});
  bool isBallot = d.op.imm == Ballot;
  if (!isSync || d.op.imm < 0 || !d.take(isBallot ? "b32" : "pred"))
    d.failUnknown();
  d.expectOperands(3);
  d.result(0, isBallot ? b32Type : predType);
  d.use(1, predType);
  d.use(2, b32Type);
  d.op.flags = d.operand(1).negated;
  d.op.run = vote;
}

/// match.any: returns, for each lane, the mask of the lanes that have the same
/// value.
template <class T> void matchAny(Warp &warp, const Op &op) {
  if (!meet(warp, warp.row<uint32_t>(op, 2)))
    return;
  const T *a = warp.row<T>(op, 1);
  uint32_t result[warpSize] = {};
  forLanes(warp.mask, [&](int lane) {
    forLanes(warp.mask, [&](int other) {
      result[lane] |= uint32_t(a[lane] == a[other]) << other;
    });
  });
  store(warp.row<uint32_t>(op, 0), result, warp.mask);
}

/// match.all: returns the mask of all lanes if they have the same value,
/// otherwise 0.
template <class T> void matchAll(Warp &warp, const Op &op) {
  if (!meet(warp, warp.row<uint32_t>(op, op.results + 1)))
    return;
  const T *a = warp.row<T>(op, op.results);
  T some = a[__builtin_ctz(warp.mask)];
  bool same = true;
  forLanes(warp.mask, [&](int lane) { same &= a[lane] == some; });
  eachLane(warp, warp.row<uint32_t>(op, 0),
           [&](int) { return same ? warp.mask : 0; });
  if (op.results > 1)
    storePredicate(warp, warp.predicate(op, 1), same ? allLanes : 0);
}

void decodeMatch(Decode &d) {
  int mode = d.takeOneOf({"any", "all"});
  if (mode < 0 || !d.take("sync"))
    d.failUnknown();
  Type type = d.type();
  d.expectOperands(3);
  d.result(0, b32Type);
  if (mode == 1 && d.hasSecond(0))
    d.result(d.second(0), predType);
  d.use(1, type);
  d.use(2, b32Type);
  bool isWide = type.width == 64;
  if (type.kind != Type::Bits || type.width < 32)
    d.failUnknown();
  d.op.run = mode == 0 ? isWide ? matchAny<uint64_t> : matchAny<uint32_t>
             : isWide ? matchAll<uint64_t>
                       : matchAll<uint32_t>;
}

enum Reduction { Add, Min, Max, And, Or, Xor };

template <class T> void reduce(Warp &warp, const Op &op) {
  if (!meet(warp, warp.row<uint32_t>(op, 2)))
    return;
  const T *a = warp.row<T>(op, 1);
  int first = __builtin_ctz(warp.mask);
  T result = a[first];
  forLanes(warp.mask & (warp.mask - 1), [&](int lane) {
    T b = a[lane];
    result = op.imm == Add   ? T(uint32_t(result) + uint32_t(b))
             : op.imm == Min ? std::min(result, b)
             : op.imm == Max ? std::max(result, b)
             : op.imm == And ? result & b
             : op.imm == Or  ? result | b
                             : result ^ b;
  });
  eachLane(warp, warp.row<T>(op, 0), [&](int) { return result; });
}

void decodeReduce(Decode &d) {
  bool isSync = d.take("sync");
  d.op.imm = d.takeOneOf({"add", "min", "max", "and", "or", "xor"});
  Type type = d.type();
  bool isLogic = d.op.imm >= And;
  if (!isSync || d.op.imm < 0 || type.width != 32 ||
      isLogic != (type.kind == Type::Bits) || type.isFloat())
    d.failUnknown();
  d.expectOperands(3);
  d.result(0, type);
  d.use(1, type);
  d.use(2, b32Type);
  d.op.run = type.kind == Type::Signed ? reduce<int32_t> : reduce<uint32_t>;
}

void decodeActiveMask(Decode &d) {
  if (!d.take("b32"))
    d.failUnknown();
  d.expectOperands(1);
  d.result(0, b32Type);
  d.op.run = [](Warp &warp, const Op &op) {
    eachLane(warp, warp.row<uint32_t>(op, 0), [&](int) { return warp.active; });
  };
}

/// elect.sync d|p, mask: elects the lowest lane.
void elect(Warp &warp, const Op &op) {
  if (!meet(warp, warp.row<uint32_t>(op, op.results)))
    return;
  auto leader = static_cast<uint32_t>(__builtin_ctz(warp.mask));
  eachLane(warp, warp.row<uint32_t>(op, 0), [&](int) { return leader; });
  storePredicate(warp, warp.predicate(op, 1), uint32_t(1) << leader);
}

void decodeElect(Decode &d) {
  if (!d.take("sync") || !d.hasSecond(0))
    d.failUnknown();
  d.expectOperands(2);
  d.result(0, b32Type);
  d.result(d.second(0), predType);
  d.use(1, b32Type);
  d.op.run = elect;
}
} // namespace

const Opcode warpOpcodes[] = {{"shfl", Class::Warp, decodeShuffle},
                              {"vote", Class::Warp, decodeVote},
                              {"match", Class::Warp, decodeMatch},
                              {"redux", Class::Warp, decodeReduce},
                              {"activemask", Class::Warp, decodeActiveMask},
                              {"elect", Class::Warp, decodeElect},
                              {nullptr, Class::Warp, nullptr}};

} // namespace heddle::emulator
