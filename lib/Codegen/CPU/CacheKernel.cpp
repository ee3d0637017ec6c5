//===- CacheKernel.cpp - Writes to the paged cache ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of nn.cache_write.
//
//===----------------------------------------------------------------------===//

#include "CacheEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
class CacheWriteEmitter : public CacheEmitter {
public:
  using CacheEmitter::CacheEmitter;
  /// Emits the code by which a thread writes its share of a launch's keys and
  /// values to the key-value cache. Each thread writes about the same number of
  /// heads.
  void emit();
  void emitColumns(int64_t tensor, Value first, Value count, Value begin,
                   Value end);

private:
  /// The index of k or v among q, k and v.
  enum KeyOrValue : int64_t { OfKey = 1, OfValue = 2 };
  void write(KeyOrValue which, Value token, Value head);
  void copy(Value from, Value to, int64_t stride);
  void encode(Value from, Value to, int64_t stride, Value scale);
  Value feature(Value from, Value d) {
    return b.widen(b.load(type, b.advance(from, type, d), bytesOf(type)));
  }
};
} // namespace

/// Copies the features of a head to addresses `stride` elements apart.
void CacheWriteEmitter::copy(Value from, Value to, int64_t stride) {
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    b.store(b.narrow(feature(from, d), cacheType),
            b.advance(to, cacheType, b.mul(d, stride)), bytesOf(cacheType));
  });
}

/// Quantizes the features of a head to int8 codes, and writes these and their
/// scale.
void CacheWriteEmitter::encode(Value from, Value to, int64_t stride,
                               Value scale) {
  Value largest =
      b.forLoop(b.constant(0), b.constant(dims), 1, {number(0)},
                [&](Value d, ValueRange carried) -> Values {
                  Value size = b.create<math::AbsFOp>(feature(from, d));
                  return {b.create<arith::MaximumFOp>(carried[0], size)};
                })[0];
  Value unit =
      b.narrow(b.create<arith::DivFOp>(largest, number(127)), scaleType);
  b.store(unit, scale, bytesOf(scaleType));
  unit = b.widen(unit);
  Value isAny =
      b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, unit, number(0));
  b.forLoop(b.constant(0), b.constant(dims), 1, [&](Value d) {
    Value code = b.create<arith::DivFOp>(feature(from, d), unit);
    code = b.create<arith::SelectOp>(isAny, code, number(0));
    code = b.create<arith::MinimumFOp>(
        b.create<arith::MaximumFOp>(code, number(-127)), number(127));
    code =
        b.create<arith::FPToSIOp>(cacheType, b.create<math::RoundEvenOp>(code));
    b.store(code, b.advance(to, cacheType, b.mul(d, stride)), 1);
  });
}

/// Writes the key or the value of a head of a token, if the token exists.
void CacheWriteEmitter::write(KeyOrValue which, Value token, Value head) {
  b.ifThen(isThere(token), [&] {
    Value position = loadInt(positions, token);
    Value number = b.div(position, pageTokens);
    Value slot = b.sub(position, b.mul(number, pageTokens));
    Value in = page(rowOf(token), number), from = headOf(which, token, head);
    bool isKey = which == OfKey;
    int64_t stride = isKey ? pageTokens : 1;
    Value to = b.advance(pageOf(isKey ? keys : values, in, head), cacheType,
                         isKey ? slot : b.mul(slot, dims));
    if (!scales)
      return copy(from, to, stride);
    Value scale = b.advance(scalesOf(in, head), scaleType, slot);
    encode(from, to, stride,
           isKey ? scale : b.advance(scale, scaleType, pageTokens));
  });
}

void CacheWriteEmitter::emit() {
  auto [begin, end] = k.share(rows * tokens * kv);
  b.forLoop(begin, end, 1, [&](Value item) {
    Value token = b.div(item, kv);
    Value head = b.sub(item, b.mul(token, kv));
    write(OfKey, token, head);
    write(OfValue, token, head);
  });
}

/// Writes the heads in columns `begin` to `end` of one operand for `count`
/// tokens from `first` on. `tensor` is the operand's index: 0 for q, 1 for k
/// and 2 for v. One packed tensor of all three has index 0. Columns of q are
/// skipped, because the cache holds only keys and values.
void CacheWriteEmitter::emitColumns(int64_t tensor, Value first, Value count,
                                    Value begin, Value end) {
  for (KeyOrValue which : {OfKey, OfValue}) {
    if (!packed && tensor != which)
      continue;
    int64_t before = packed ? heads + (which == OfValue ? kv : 0) : 0;
    auto headAt = [&](Value column) {
      Value head = b.sub(b.div(column, dims), b.constant(before));
      head = b.create<arith::MaxSIOp>(head, b.constant(0));
      return b.min(head, b.constant(kv));
    };
    b.forLoop(first, b.add(first, count), 1, [&](Value token) {
      b.forLoop(headAt(begin), headAt(end), 1,
                [&](Value head) { write(which, token, head); });
    });
  }
}

LogicalResult emitCacheKernel(KernelEmitter &k) {
  Block &body = k.kernel.getBody().front();
  auto write = dyn_cast<nn::CacheWriteOp>(body.front());
  if (!write || write->getNextNode() != body.getTerminator())
    return k.kernel.emitError(
        "holds no cache alone; its generator is not \"cache\"");
  if (failed(verifyInPlace(k, write)) || failed(k.verifyYieldedOnce()))
    return failure();
  CacheWriteEmitter(k, write).emit();
  return k.finish();
}

LogicalResult verifyInPlace(KernelEmitter &k, nn::CacheWriteOp write) {
  SmallVector<Value> written = {write.getKeys(), write.getValues()};
  if (write.getScales())
    written.push_back(write.getScales());
  for (auto [result, operand] : llvm::zip(write.getResults(), written))
    if (k.resultPointer(result) != k.pointerOf(operand))
      return k.kernel.emitError("does not write its cache in place");
  return success();
}

void emitCacheColumns(KernelEmitter &k, nn::CacheWriteOp write, int64_t tensor,
                      Value first, Value count, Value begin, Value end) {
  CacheWriteEmitter(k, write).emitColumns(tensor, first, count, begin, end);
}

} // namespace heddle::cpu
