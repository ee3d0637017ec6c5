//===- MapPagedJoin.cpp - Combines attention over parts of keys -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.paged_attention_join: a thread computes one feature of one head of
// one token.
//
//===----------------------------------------------------------------------===//

#include "CacheAddresses.h"
#include "PagedJoin.h"
#include "heddle/Codegen/Common/CachedKeys.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t threads = 128;

class PagedJoinMapper {
public:
  PagedJoinMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                  nn::PagedAttentionJoinOp op)
      : f(kernel, module, FrameOptions{/*flat=*/true}), c(f.builder, f.loc),
        a(f, c, op), op(op) {}

  MappedLaunch emit();

private:
  void emitFeature(Value item);

  KernelFrame f;
  ThreadCode c;
  TokenAddresses a;
  nn::PagedAttentionJoinOp op;
};
} // namespace

void PagedJoinMapper::emitFeature(Value item) {
  int64_t dims = op.getHeadDim(), heads = op.getHeads();
  auto length = static_cast<int64_t>(op.getPartTokens());
  Type f32 = c.builder.getF32Type();
  Type type = TokenAddresses::typeOf(op.getOutput()).getElementType();
  Value d = c.rem(item, dims), head = c.rem(c.div(item, dims), heads);
  Value token = c.div(item, dims * heads);
  Value count = a.countKeys(c.div(token, a.tokens), c.rem(token, a.tokens),
                            /*exists=*/{});
  codegen::CachedKeys seen(op);
  Value first = seen.firstOf(a.i32, count);
  if (!first)
    first = c.constant(0);
  Value parts = a.pointerOf(op.getParts());
  PagedJoin join(c);
  SmallVector<Value> none = join.none(/*features=*/1);
  auto loop = c.builder.create<scf::ForOp>(
      c.loc, a.i32.div(first, length),
      a.i32.div(a.i32.add(count, length - 1), length), c.constant(1), none,
      [&](OpBuilder &b, Location loc, Value part, ValueRange carried) {
        Value index = a.i32.add(a.i32.mul(token, op.getNumParts()), part);
        index = a.i32.add(a.i32.mul(index, heads), head);
        Value from = a.advance(parts, f32, c.mul(c.wide(index), dims + 2));
        Value sum = c.load(f32, a.advance(from, f32, d));
        Value weights = c.load(f32, c.at(from, dims * int64_t(sizeof(float))));
        Value largest =
            c.load(f32, c.at(from, (dims + 1) * int64_t(sizeof(float))));
        b.create<scf::YieldOp>(loc,
                               join.join(carried, {largest, weights, sum}));
      });
  SmallVector<Value> joined(loop.getResults());
  Value isThere = c.less(c.constant(0), count);
  if (seen.maySeeNoKey())
    isThere = c.both(isThere, join.isAny(joined[1]));
  Value output = c.globalPointer(f.outputBuffer(0));
  c.store(c.narrow(join.outputOf(joined[2], joined[1], isThere), type),
          a.advance(output, type, item));
}

MappedLaunch PagedJoinMapper::emit() {
  int64_t items = a.rows * a.tokens * op.getHeads() * op.getHeadDim();
  Value item = a.i32.add(a.i32.mul(c.blockId(mlir::gpu::Dimension::x), threads),
                         c.threadId());
  {
    InsideIf isItem(c, c.less(item, items));
    emitFeature(item);
  }
  auto blocks = static_cast<int64_t>(llvm::divideCeil(items, threads));
  f.finish({blocks}, threads);
  return f.launch();
}

MappedKernel mapPagedJoin(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module,
                          nn::PagedAttentionJoinOp op) {
  MappedKernel mapped;
  mapped.launches.push_back(PagedJoinMapper(kernel, module, op).emit());
  return mapped;
}

} // namespace heddle::gpu
