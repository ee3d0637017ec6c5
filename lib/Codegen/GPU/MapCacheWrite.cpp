//===- MapCacheWrite.cpp - Writes to the paged cache ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.cache_write. A warp writes the key or the value of one head of one
// token; its lanes have the features in turn.
//
//===----------------------------------------------------------------------===//

#include "CacheAddresses.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t warpsOfBlock = 4;

class CacheWriteMapper {
public:
  CacheWriteMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                   nn::CacheWriteOp op)
      : f(kernel, module, flat()), c(f.builder, f.loc), a(f, c, op) {}

  MappedLaunch emit();

private:
  static FrameOptions flat() {
    FrameOptions options;
    options.flat = true;
    return options;
  }
  Value number(float value) {
    return c.create<arith::ConstantOp>(c.builder.getF32FloatAttr(value));
  }
  void write(int64_t which, Value row, Value token, Value head);
  void copy(Value from, Value to, Value first, int64_t stride);
  void encode(Value from, Value to, Value first, int64_t stride, Value scale);
  void forFeatures(llvm::function_ref<void(Value feature)> body);
  Value featureAt(Value from, Value d) {
    return c.widen(c.load(a.type, a.advance(from, a.type, d)));
  }

  KernelFrame f;
  ThreadCode c;
  CacheAddresses a;
  Value lane;
};
} // namespace

/// Emits `body` for each feature of the lane.
void CacheWriteMapper::forFeatures(function_ref<void(Value)> body) {
  for (int64_t base = 0; base < a.dims; base += warpSize) {
    Value feature = c.add(lane, base);
    if (base + warpSize <= a.dims) {
      body(feature);
      continue;
    }
    InsideIf exists(c, c.less(feature, a.dims));
    body(feature);
  }
}

/// Copies the features of a head. Those of the target are `stride` elements
/// apart, from element `first` on.
void CacheWriteMapper::copy(Value from, Value to, Value first, int64_t stride) {
  forFeatures([&](Value d) {
    Value index = c.create<arith::AddIOp>(first, c.wide(c.mul(d, stride)));
    c.store(c.narrow(featureAt(from, d), a.cacheType),
            a.advance(to, a.cacheType, index));
  });
}

/// Quantizes the features of a head to int8 codes, and writes these and their
/// scale.
void CacheWriteMapper::encode(Value from, Value to, Value first, int64_t stride,
                              Value scale) {
  Value largest = number(0);
  for (int64_t base = 0; base < a.dims; base += warpSize) {
    // Lanes after the last feature read it again.
    Value d = a.i32.min(c.add(lane, base), a.dims - 1);
    largest = c.create<arith::MaxNumFOp>(
        largest, c.create<math::AbsFOp>(featureAt(from, d)));
  }
  for (int64_t offset = 1; offset < warpSize; offset *= 2) {
    auto other = c.builder.create<mlir::gpu::ShuffleOp>(
        c.loc, largest, offset, warpSize, mlir::gpu::ShuffleMode::XOR);
    largest = c.create<arith::MaxNumFOp>(largest, other.getShuffleResult());
  }
  Value unit =
      c.narrow(c.create<arith::DivFOp>(largest, number(127)), a.scaleType);
  {
    InsideIf isFirst(c, c.less(lane, 1));
    c.store(unit, scale);
  }
  unit = c.widen(unit);
  Value isAny =
      c.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, unit, number(0));
  forFeatures([&](Value d) {
    Value code = c.create<arith::DivFOp>(featureAt(from, d), unit);
    code = c.create<arith::SelectOp>(isAny, code, number(0));
    code = c.create<arith::MinNumFOp>(
        c.create<arith::MaxNumFOp>(code, number(-127)), number(127));
    code = c.create<arith::FPToSIOp>(c.builder.getI32Type(),
                                     c.create<math::RoundEvenOp>(code));
    Value index = c.create<arith::AddIOp>(first, c.wide(c.mul(d, stride)));
    c.store(c.create<arith::TruncIOp>(a.cacheType, code),
            a.advance(to, a.cacheType, index));
  });
}

/// Writes the key (`which` is 1) or the value (2) of a head of a token that
/// exists.
void CacheWriteMapper::write(int64_t which, Value row, Value token,
                             Value head) {
  bool isKey = which == 1;
  Value all = a.i32.add(a.i32.mul(row, a.tokens), token);
  Value position = a.loadInt(a.positions, all);
  Value page = a.pageOf(row, c.div(position, a.pageTokens));
  Value slot = c.rem(position, a.pageTokens);
  Value from = a.headAt(which, all, head), to = isKey ? a.keys : a.values;
  int64_t stride = isKey ? a.pageTokens : 1;
  Value inPage = isKey ? slot : c.mul(slot, a.dims);
  Value first =
      c.create<arith::AddIOp>(a.headInPage(page, head), c.wide(inPage));
  if (!a.scales)
    return copy(from, to, first, stride);
  Value inScales = isKey ? slot : c.add(slot, a.pageTokens);
  encode(from, to, first, stride,
         a.advance(a.scalesAt(page, head), a.scaleType, inScales));
}

MappedLaunch CacheWriteMapper::emit() {
  Value thread = c.threadId();
  lane = c.rem(thread, warpSize);
  int64_t items = a.rows * a.tokens * a.kv * 2;
  Value item =
      a.i32.add(a.i32.mul(c.blockId(mlir::gpu::Dimension::x), warpsOfBlock),
                c.div(thread, warpSize));
  Value which = c.rem(item, 2), head = c.rem(c.div(item, 2), a.kv);
  Value all = c.div(item, 2 * a.kv);
  Value row = c.div(all, a.tokens), token = c.rem(all, a.tokens);
  {
    InsideIf isItem(c, c.less(item, items));
    InsideIf exists(c, a.isThere(row, token));
    auto choice = c.builder.create<scf::IfOp>(c.loc, c.less(which, 1),
                                              /*withElseRegion=*/true);
    c.builder.setInsertionPointToStart(choice.thenBlock());
    write(1, row, token, head);
    c.builder.setInsertionPointToStart(choice.elseBlock());
    write(2, row, token, head);
  }
  auto blocks = static_cast<int64_t>(llvm::divideCeil(items, warpsOfBlock));
  f.finish({blocks}, warpsOfBlock * warpSize);
  return f.launch();
}

MappedKernel mapCacheWrite(planir::KernelOp kernel,
                           mlir::gpu::GPUModuleOp module) {
  Block &body = kernel.getBody().front();
  auto write = dyn_cast<nn::CacheWriteOp>(body.front());
  if (!write || write->getNextNode() != body.getTerminator())
    return MappedKernel::no("cache writes with other operations");
  SmallVector<Value> caches = {write.getKeys(), write.getValues()};
  if (write.getScales())
    caches.push_back(write.getScales());
  auto isInPlace = [&](unsigned result) {
    auto cache = dyn_cast<BlockArgument>(caches[result]);
    return cache && kernel.getTies()[result] == cache.getArgNumber();
  };
  for (unsigned i = 0; i < caches.size(); ++i)
    if (kernel.getResultTypes().size() != caches.size() ||
        body.getTerminator()->getOperand(i) != write->getResult(i) ||
        !isInPlace(i))
      return MappedKernel::no("a cache that is not written in place");
  MappedKernel mapped;
  mapped.launches.push_back(CacheWriteMapper(kernel, module, write).emit());
  return mapped;
}

} // namespace heddle::gpu
