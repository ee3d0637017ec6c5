//===- AttentionFusion.cpp - Kernels of attention -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "heddle/Codegen/CPU/Attention.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
/// Emits kernels of nn.attention and nn.attention_grad: finds the addresses of
/// the kernel's values and calls the emitters of Attention.h.
class AttentionFusion {
public:
  explicit AttentionFusion(KernelEmitter &k) : k(k) {}

  LogicalResult emitForward(nn::AttentionOp op);
  LogicalResult emitGradient(nn::AttentionGradOp op);

private:
  AttentionRandom randomOf(nn::AttentionOpInterface op) {
    if (!op.getRng())
      return {};
    return {k.pointerOf(op.getRng()), k.evaluator.scalarOf(op.getLayer()),
            k.evaluator.scalarOf(op.getMicroBatch()), partOf(op)};
  }

  Value partOf(nn::AttentionOpInterface op) {
    return op.getPart() ? k.evaluator.scalarOf(op.getPart()) : Value();
  }

  AttentionKeys keysOf(nn::AttentionOpInterface op) {
    AttentionKeys keys;
    if (op.getLengths())
      keys.lengths = k.pointerOf(op.getLengths());
    if (op.getLayout()) {
      keys.layout = k.pointerOf(op.getLayout());
      keys.part = partOf(op);
    }
    if (op.getSequenceShard()) {
      keys.sequenceShard = k.evaluator.scalarOf(op.getSequenceShard());
      keys.ringStep = k.evaluator.scalarOf(op.getRingStep());
    }
    return keys;
  }

  SmallVector<Value> pointersOf(ValueRange values) {
    SmallVector<Value> pointers;
    for (Value value : values)
      pointers.push_back(k.pointerOf(value));
    return pointers;
  }

  KernelEmitter &k;
};
} // namespace

LogicalResult AttentionFusion::emitForward(nn::AttentionOp op) {
  AttentionSpec spec(op);
  Value output = k.resultPointer(op.getOutput());
  Value lse = k.resultPointer(op.getLse());
  if (!output)
    return op.emitError("its output must be yielded");
  k.scratchBytes = attentionScratchBytes(spec, k.target);
  // Only gradients need lse, so the kernel may have no result for it. In this
  // case give the emitter scratch memory, because it always writes lse.
  if (!lse) {
    auto type = cast<RankedTensorType>(op.getLse().getType());
    lse = k.reserve(type.getNumElements() * int64_t(sizeof(float)));
  }
  return emitAttention(k.b.builder, k.b.loc, spec, k.target,
                       pointersOf(op.getQkv()), output, lse, randomOf(op),
                       keysOf(op), k.scratch, k.self.thread, k.self.threads);
}

LogicalResult AttentionFusion::emitGradient(nn::AttentionGradOp op) {
  AttentionSpec spec(op);
  SmallVector<Value> grads;
  for (Value output : op.getOutputs()) {
    grads.push_back(k.resultPointer(output));
    if (!grads.back())
      return op.emitError("every result must be yielded");
  }
  k.scratchBytes = attentionGradScratchBytes(spec, k.target);
  return emitAttentionGrad(
      k.b.builder, k.b.loc, spec, k.target, k.pointerOf(op.getGrad()),
      pointersOf(op.getQkv()), k.pointerOf(op.getForward()),
      k.pointerOf(op.getLse()), grads, randomOf(op), keysOf(op), k.scratch,
      k.self.thread, k.self.threads);
}

LogicalResult emitAttentionKernel(KernelEmitter &k) {
  Block &body = k.kernel.getBody().front();
  Operation *op = &body.front();
  if (op->getNextNode() != body.getTerminator())
    return k.kernel.emitError("holds more than one operation");
  if (failed(k.verifyYieldedOnce()))
    return failure();
  if (auto paged = dyn_cast<nn::PagedAttentionOp>(op))
    return emitPagedAttention(k, paged);
  if (auto join = dyn_cast<nn::PagedAttentionJoinOp>(op))
    return emitPagedAttentionJoin(k, join);
  LogicalResult emitted = failure();
  if (auto forward = dyn_cast<nn::AttentionOp>(op))
    emitted = AttentionFusion(k).emitForward(forward);
  else if (auto gradient = dyn_cast<nn::AttentionGradOp>(op))
    emitted = AttentionFusion(k).emitGradient(gradient);
  else
    return k.kernel.emitError(
        "holds no attention; its generator is not \"attention\"");
  if (failed(emitted))
    return op->emitError("is an attention that cannot be generated");
  return success();
}

} // namespace heddle::cpu
