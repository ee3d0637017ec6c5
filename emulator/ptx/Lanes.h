//===- Lanes.h - Loops over the lanes of a warp -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over the lanes of a warp. The loops compute results for all lanes and
// store only those of the active lanes, so that the compiler can vectorize
// them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_LANES_H
#define HEDDLE_EMULATOR_PTX_LANES_H

#include "emulator/ptx/Warp.h"

#include <cstring>
#include <immintrin.h>
#include <type_traits>

namespace heddle::emulator {

/// Copies the values of those lanes that are in `mask`.
template <class T> void store(T *to, const T *values, uint32_t mask) {
  if (mask == allLanes) {
    std::memcpy(to, values, sizeof(T) * warpSize);
    return;
  }
  for (int lane = 0; lane < warpSize; ++lane)
    if (mask >> lane & 1)
      to[lane] = values[lane];
}

/// Marks a loop over lanes as vectorizable. The compiler cannot prove that the
/// iterations are independent, because an instruction's result may be the same
/// register as an operand. This is safe, because an iteration accesses only its
/// own lane, and different registers do not overlap.
#ifdef __clang__
#define HEDDLE_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define HEDDLE_LANES _Pragma("GCC ivdep")
#endif

/// to[lane] = f(lane)
template <class T, class F> void eachLane(const Warp &warp, T *to, F f) {
  if (warp.mask == allLanes) {
    HEDDLE_LANES
    for (int lane = 0; lane < warpSize; ++lane)
      to[lane] = static_cast<T>(f(lane));
    return;
  }
  alignas(64) T values[warpSize];
  HEDDLE_LANES
  for (int lane = 0; lane < warpSize; ++lane)
    values[lane] = static_cast<T>(f(lane));
  store(to, values, warp.mask);
}

/// Returns the mask of the lanes for which f(lane) is true.
template <class F> uint32_t lanesWhere(F f) {
  alignas(32) uint8_t bytes[warpSize];
  HEDDLE_LANES
  for (int lane = 0; lane < warpSize; ++lane)
    bytes[lane] = f(lane) ? 0xff : 0;
  return static_cast<uint32_t>(_mm256_movemask_epi8(
      _mm256_load_si256(reinterpret_cast<const __m256i *>(bytes))));
}

inline void storePredicate(const Warp &warp, uint32_t &to, uint32_t values) {
  to = (to & ~warp.mask) | (values & warp.mask);
}

/// Calls f(lane) for the lanes of `mask`, in order.
template <class F> void forLanes(uint32_t mask, F f) {
  for (; mask; mask &= mask - 1)
    f(__builtin_ctz(mask));
}

/// Execute an instruction with one, two or three operands: the result of each
/// lane is F of the lane's operands.
template <class R, class A, class F> void unary(Warp &warp, const Op &op) {
  const A *a = warp.row<A>(op, 1);
  eachLane(warp, warp.row<R>(op, 0), [&](int i) { return F()(a[i]); });
}
template <class R, class A, class B, class F>
void binary(Warp &warp, const Op &op) {
  const A *a = warp.row<A>(op, 1);
  const B *b = warp.row<B>(op, 2);
  eachLane(warp, warp.row<R>(op, 0), [&](int i) { return F()(a[i], b[i]); });
}
template <class R, class A, class B, class C, class F>
void ternary(Warp &warp, const Op &op) {
  const A *a = warp.row<A>(op, 1);
  const B *b = warp.row<B>(op, 2);
  const C *c = warp.row<C>(op, 3);
  eachLane(warp, warp.row<R>(op, 0),
           [&](int i) { return F()(a[i], b[i], c[i]); });
}

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_LANES_H
