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

Value TokenAddresses::pointerOf(Value tensor) {
  if (auto write = tensor.getDefiningOp<nn::CacheWriteOp>())
    for (nn::Tie tie : write.getTies())
      if (tie.result == tensor)
        tensor = tie.operand;
  Value buffer = f.argumentBuffer(tensor);
  return buffer ? c.globalPointer(buffer) : Value();
}

Value TokenAddresses::countKeys(Value row, Value tokenOfRow, Value exists) {
  // Clamping the token keeps the address of its position inside the tensor.
  Value token = exists ? i32.min(tokenOfRow, tokens - 1) : tokenOfRow;
  Value number = i32.add(i32.mul(row, tokens), token);
  Value count = i32.add(loadInt(positions, number), 1);
  return c.orZero(c.both(isThere(row, tokenOfRow), exists), count);
}

Value CacheAddresses::headAt(int64_t which, Value row, Value token,
                             Value head) {
  const TokenRows &from = qkv[which];
  Value number = i32.add(i32.mul(row, tokens), token);
  Value first = c.mul(c.wide(number), from.stride);
  Value inRow = i32.add(i32.mul(head, dims), from.offset);
  return advance(from.pointer, type,
                 c.create<arith::AddIOp>(first, c.wide(inRow)));
}

Value CacheAddresses::featureOf(int64_t which, Value row, Value token,
                                Value head, Value feature) {
  const TokenRows &from = qkv[which];
  if (from.pointer) {
    Value at = advance(headAt(which, row, token, head), type, feature);
    return c.widen(c.load(type, at));
  }
  Value column = i32.add(i32.add(i32.mul(head, dims), feature), from.offset);
  Value indices[] = {i32.toIndex(row), i32.toIndex(token), i32.toIndex(column)};
  ElementEmitter::Scope scope(f.emitter);
  FailureOr<Value> element = f.emitter.element(from.tensor, indices);
  return succeeded(element) ? c.widen(*element) : Value();
}

} // namespace heddle::gpu
