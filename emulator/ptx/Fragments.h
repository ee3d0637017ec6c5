//===- Fragments.h - Elements of matrices in registers ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers for mma and wgmma: how many elements of a type a 32-bit register
// holds, and their values as floats.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_FRAGMENTS_H
#define HEDDLE_EMULATOR_PTX_FRAGMENTS_H

#include "emulator/ptx/Lanes.h"
#include "emulator/ptx/Rounding.h"

namespace heddle::emulator {

/// Makes sure that all 32 lanes execute the current instruction together.
/// Returns false if some lanes are on another divergent path; that path then
/// runs first, and the instruction is executed again. Fails if some lanes have
/// exited or do not execute the instruction.
inline bool meetAll(Warp &warp) {
  if (!warp.converge(allLanes))
    return false;
  if (warp.mask != allLanes)
    warp.fail("incomplete operation of a warp: only " +
                  std::to_string(__builtin_popcount(warp.mask)) +
                  " of 32 lanes are here",
              warp.mask);
  return true;
}

/// Types of matrix elements. Each type says how many elements a 32-bit register
/// holds, and how to read one of them as a float.
struct BFloat16Elements {
  static constexpr int count = 2;
  using Value = float;
  static float get(uint32_t bits, int i) {
    return floatOf(i ? bits & 0xffff0000u : bits << 16);
  }
};
struct HalfElements {
  static constexpr int count = 2;
  using Value = float;
  static float get(uint32_t bits, int i) {
    return widenNarrow<Half>(static_cast<uint16_t>(bits >> (16 * i)));
  }
};
/// TF32 elements. The tensor core ignores the low 13 bits of a register.
struct Tf32Elements {
  static constexpr int count = 1;
  using Value = float;
  static float get(uint32_t bits, int) { return floatOf(bits & 0xffffe000u); }
};
template <class T> struct ByteElements {
  static constexpr int count = 4;
  using Value = int32_t;
  static int32_t get(uint32_t bits, int i) {
    return static_cast<T>(bits >> (8 * i));
  }
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_FRAGMENTS_H
