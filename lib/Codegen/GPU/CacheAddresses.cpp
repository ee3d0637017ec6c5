//===- CacheAddresses.cpp - Addresses in the paged cache ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CacheAddresses.h"

using namespace mlir;

namespace heddle::gpu {

Value TokenAddresses::countKeys(Value row, Value tokenOfRow, Value exists) {
  // Clamping the token keeps the address of its position inside the tensor.
  Value token = exists ? i32.min(tokenOfRow, tokens - 1) : tokenOfRow;
  Value number = i32.add(i32.mul(row, tokens), token);
  Value count = i32.add(loadInt(positions, number), 1);
  return c.orZero(c.both(isThere(row, tokenOfRow), exists), count);
}

} // namespace heddle::gpu
