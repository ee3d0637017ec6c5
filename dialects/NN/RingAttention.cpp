//===- RingAttention.cpp - Attention over a split sequence ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ring attention (Liu et al., arXiv 2310.01889). Rank r of n has shard r of the
// sequence. In ring step s, rank r computes attention over the keys and values
// of shard r - s. Meanwhile the rank sends these keys and values to the next
// rank and receives the keys and values of step s + 1. The outputs of the steps
// are combined by their log-sum-exps. In the backward pass, ranks also send the
// gradients of the keys and values along with them. After n steps the gradients
// are back at the rank that has the shard.
//
//===----------------------------------------------------------------------===//

#include "RingAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace {

class RingBuilder {
public:
  RingBuilder(Operation *op, ArrayAttr axes, int64_t shards)
      : builder(op), op(op), axes(axes), shards(shards) {
    shard = builder.create<dist::RankOp>(loc(), builder.getIndexType(), axes);
  }

  Location loc() { return op->getLoc(); }

  /// Returns q, k and v as three values, also if one tensor holds them.
  SmallVector<Value> separate(nn::AttentionOpInterface attention) {
    if (!attention.isPacked())
      return attention.getQkv();
    Value packed = attention.getQkv()[0];
    auto type = cast<RankedTensorType>(packed.getType());
    int64_t offset = 0;
    SmallVector<Value> parts;
    for (int64_t width : attention.getWidths()) {
      auto part = type.clone({type.getDimSize(0), type.getDimSize(1), width});
      parts.push_back(builder.create<nn::SliceOp>(
          loc(), part, packed, Value(), /*dim=*/2, offset, ArrayAttr()));
      offset += width;
    }
    return parts;
  }

  /// The placement attribute of the attention of one ring step. Heads are split
  /// as in `attention`; the sequence has `shards` shards.
  nn::PlacementAttr placement(nn::AttentionOpInterface attention) {
    return nn::PlacementAttr::get(builder.getContext(), attention.getParts(),
                                  shards, /*ring=*/false);
  }

  /// Starts to send `value` to the next rank. A `wait` for the result returns
  /// what the previous rank sent.
  Value rotate(Value value) {
    return builder.create<dist::RotateOp>(
        loc(), value.getType(), value, axes,
        builder.getStringAttr(op->getName().getStringRef()), TypeAttr(),
        DenseI64ArrayAttr(), builder.getUnitAttr());
  }
  Value wait(Value coming) {
    return builder.create<dist::WaitOp>(loc(), coming.getType(), coming);
  }

  Value index(int64_t number) {
    return builder.create<arith::ConstantIndexOp>(loc(), number);
  }

  OpBuilder builder;
  Operation *op;
  ArrayAttr axes;
  int64_t shards;
  Value shard;
};

} // namespace

void heddle::nn::makeRingAttention(nn::AttentionOp op, ArrayAttr axes,
                                   int64_t shards) {
  RingBuilder ring(op, axes, shards);
  OpBuilder &b = ring.builder;
  SmallVector<Value> qkv = ring.separate(op);
  Value output, lse;
  for (int64_t step = 0; step < shards; ++step) {
    SmallVector<Value> coming;
    if (step + 1 < shards)
      coming = {ring.rotate(qkv[1]), ring.rotate(qkv[2])};
    auto part = b.create<nn::AttentionOp>(
        op.getLoc(), op.getOutput().getType(), op.getLse().getType(), qkv,
        op.getLengths(), op.getLayout(), op.getRng(), op.getLayer(),
        op.getMicroBatch(), op.getPart(), ring.shard, ring.index(step),
        op.getHeads(), op.getMask(), op.getDropoutAttr(), ring.placement(op),
        ArrayAttr());
    if (step == 0) {
      output = part.getOutput();
      lse = part.getLse();
    } else {
      output = b.create<nn::AttentionJoinOp>(op.getLoc(), output.getType(),
                                             output, lse, part.getOutput(),
                                             part.getLse(), ArrayAttr());
      // The log-sum-exp over all ring steps is read only by gradients, so do
      // not compute it in inference.
      if (step + 1 < shards || !op.getLse().use_empty())
        lse = b.create<nn::LogAddExpOp>(op.getLoc(), lse.getType(), lse,
                                        part.getLse(), ArrayAttr());
    }
    for (auto [number, value] : llvm::enumerate(coming))
      qkv[1 + number] = ring.wait(value);
  }
  op.replaceAllUsesWith(ValueRange{output, lse});
  op.erase();
}

void heddle::nn::makeRingAttention(nn::AttentionGradOp op, ArrayAttr axes,
                                   int64_t shards) {
  RingBuilder ring(op, axes, shards);
  OpBuilder &b = ring.builder;
  Location loc = op.getLoc();
  SmallVector<Value> qkv = ring.separate(op);
  SmallVector<Value> sums, travelling;
  for (int64_t step = 0; step < shards; ++step) {
    SmallVector<Value> coming;
    if (step + 1 < shards)
      coming = {ring.rotate(qkv[1]), ring.rotate(qkv[2])};
    auto part = b.create<nn::AttentionGradOp>(
        loc, ValueRange(qkv).getTypes(), op.getGrad(), qkv, op.getForward(),
        op.getLse(), op.getLengths(), op.getLayout(), op.getRng(),
        op.getLayer(), op.getMicroBatch(), op.getPart(), ring.shard,
        ring.index(step), op.getHeads(), op.getMask(), op.getDropoutAttr(),
        ring.placement(op), ArrayAttr());
    // Receive the gradients of this step's keys and values: the sums over the
    // ranks that have had these keys and values before.
    if (step > 0)
      for (int number : {1, 2})
        sums[number] = ring.wait(sums[number]);
    for (auto [number, grad] : llvm::enumerate(part.getOutputs())) {
      if (step == 0)
        sums.push_back(grad);
      else
        sums[number] = b.create<nn::AddOp>(loc, grad.getType(), sums[number],
                                           grad, ArrayAttr());
    }
    for (int number : {1, 2})
      sums[number] = ring.rotate(sums[number]);
    for (auto [number, value] : llvm::enumerate(coming))
      qkv[1 + number] = ring.wait(value);
  }
  for (int number : {1, 2})
    sums[number] = ring.wait(sums[number]);
  if (op.getOutputs().size() == 1)
    sums = {b.create<nn::ConcatOp>(loc, op.getOutputs()[0].getType(), sums,
                                   /*dim=*/2, ArrayAttr())};
  op.replaceAllUsesWith(sums);
  op.erase();
}
