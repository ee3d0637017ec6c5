//===- SeededOrder.h - Random orders from a seed ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers for the order of blocks and warps. `HEDDLE_EMULATE=seed:N`
// uses them to find kernels that rely on a particular order.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SEEDEDORDER_H
#define HEDDLE_EMULATOR_PTX_SEEDEDORDER_H

#include <cstdint>

namespace heddle::emulator {

/// SplitMix64 random numbers (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014). It takes little time to create such
/// a generator.
class RandomNumbers {
public:
  RandomNumbers() = default;
  /// Creates a generator of random numbers. Generators with the same `seed` but
  /// different `part` yield independent streams.
  RandomNumbers(uint64_t seed, uint64_t part)
      : state(RandomNumbers(seed).next() + RandomNumbers(~part).next()) {}

  /// A random number in [0, count).
  uint64_t below(uint64_t count) { return next() % count; }

private:
  explicit RandomNumbers(uint64_t state) : state(state) {}

  uint64_t next() {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state = 0;
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SEEDEDORDER_H
