//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 (Salmon et al., 2011), a counter-based random generator: four
// random words from a key and a counter. It has no state, so that any thread
// can compute any word.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_PHILOX_H
#define HEDDLE_RUNTIME_CORE_PHILOX_H

#include <array>
#include <cstdint>

namespace heddle::rt {

using PhiloxWords = std::array<uint32_t, 4>;

/// The four words for a counter and a key.
inline PhiloxWords philox(uint64_t key, PhiloxWords counter) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ k0, uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

/// The four words of block `index` of a random stream. `step` is the training
/// step that draws the numbers. `site` identifies the operation that uses the
/// random numbers, such as a dropout.
inline PhiloxWords philox(uint64_t key, uint64_t index, uint32_t step,
                          uint32_t site) {
  return philox(key, {uint32_t(index), uint32_t(index >> 32), step, site});
}

/// Maps `index` to its position in a random permutation of 0 .. count - 1.
/// `key` and `stream` determine the permutation. It is computed without a
/// table.
uint64_t permute(uint64_t index, uint64_t count, uint64_t key, uint32_t stream);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_PHILOX_H
