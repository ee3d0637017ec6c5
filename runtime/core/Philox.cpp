//===- Philox.cpp - Counter-based random numbers --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Philox.h"

using namespace heddle::rt;

uint64_t heddle::rt::permute(uint64_t index, uint64_t count, uint64_t key,
                             uint32_t stream) {
  // The smallest range 0 .. 4^n - 1 that contains `count` numbers is permuted
  // by a Feistel network. A result that is not below `count` is permuted again,
  // until it is.
  int halfBits = 1;
  while (halfBits < 32 && (uint64_t(1) << (2 * halfBits)) < count)
    ++halfBits;
  uint64_t mask = (uint64_t(1) << halfBits) - 1;
  do {
    uint64_t left = index >> halfBits, right = index & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      uint64_t mixed = philox(key, right, stream, round)[0] & mask;
      uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    index = left << halfBits | right;
  } while (index >= count);
  return index;
}
