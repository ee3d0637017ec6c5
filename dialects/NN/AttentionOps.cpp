//===- AttentionOps.cpp - Verifiers of attention --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of nn.attention, nn.attention_grad and nn.attention_join, and of
// layouts, which nn.paged_attention has too.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/VerifyShape.h"

using namespace mlir;
using namespace heddle::nn;

/// Verifies that all of `operands` are present if `isGiven`, otherwise none.
static LogicalResult verifyTogether(Operation *op, ValueRange operands,
                                    bool isGiven, StringRef what) {
  for (Value operand : operands)
    if (static_cast<bool>(operand) != isGiven)
      return op->emitOpError("needs all of ") << what << " or none";
  return success();
}

LogicalResult heddle::nn::verifyLayout(Operation *op, Value layout,
                                       MaskAttr mask, int64_t heads) {
  if (static_cast<bool>(layout) != mask.hasLayout())
    return op->emitOpError("needs both a layout and a mask with a block, or "
                           "none");
  if (!layout)
    return success();
  auto type = tensorOf(layout);
  if (type.getRank() != 3 ||
      type.getDimSize(2) != llvm::divideCeil(type.getDimSize(1), 32))
    return op->emitOpError("layout ")
           << type << " is not [heads or 1, blocks, ceil(blocks / 32)]";
  int64_t layouts = type.getDimSize(0);
  bool isOfPart = isa<PagedAttentionOp>(op) && layouts % heads == 0;
  if (layouts != 1 && layouts != heads && !isOfPart)
    return op->emitOpError("has layouts for ")
           << layouts << " heads; " << heads << " or 1 are possible";
  return success();
}

/// Verifies the operands and attributes that attention and its gradient share.
static LogicalResult verifyAttention(AttentionOpInterface op, Value output,
                                     Value lse) {
  int64_t heads = op.getHeads().getCount(), kv = op.getHeads().getKv();
  auto out = tensorOf(output);
  if (out.getRank() != 3 || out.getDimSize(2) % heads)
    return op->emitOpError("output ")
           << out << " is not [B, T, heads * D] with " << heads << " heads";
  int64_t headDim = out.getDimSize(2) / heads;
  SmallVector<int64_t> widths = {heads * headDim, kv * headDim, kv * headDim};
  if (op.getQkv().size() == 1)
    widths = {(heads + 2 * kv) * headDim};
  if (op.getQkv().size() != widths.size())
    return op->emitOpError("takes q, k, v as one operand or three, got ")
           << op.getQkv().size();
  for (auto [value, width] : llvm::zip(op.getQkv(), widths))
    if (failed(verifyShape(op, value,
                           {out.getDimSize(0), out.getDimSize(1), width},
                           "operand")))
      return failure();
  if (op.getLengths() &&
      failed(verifyShape(op, op.getLengths(), {out.getDimSize(0)}, "lengths")))
    return failure();
  if (failed(verifyLayout(op, op.getLayout(), op.getMask(),
                          heads * op.getParts())))
    return failure();
  if (op.getSequenceShards() > 1 && op.getLayout() &&
      out.getDimSize(1) % op.getMask().getBlock())
    return op->emitOpError("splits a sequence into shards of ")
           << out.getDimSize(1) << " positions, which cuts blocks of "
           << op.getMask().getBlock();
  if (op.getRng() && failed(verifyShape(op, op.getRng(), {4}, "rng")))
    return failure();
  if (failed(verifyTogether(op,
                            {op.getRng(), op.getLayer(), op.getMicroBatch()},
                            op.getDropoutAttr() != nullptr,
                            "rng, layer, micro_batch and dropout")) ||
      failed(verifyTogether(op, op.getPart(), op.getParts() > 1,
                            "part and parts above 1")) ||
      failed(verifyTogether(
          op, {op.getSequenceShard(), op.getRingStep()},
          op.getSequenceShards() > 1,
          "sequence_shard, ring_step and sequence_shards above 1")))
    return failure();
  return verifyShape(op, lse, {out.getDimSize(0), heads, out.getDimSize(1)},
                     "lse");
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getOutput(), getLse());
}

LogicalResult AttentionGradOp::verify() {
  if (getOutputs().getTypes() != getQkv().getTypes())
    return emitOpError("gives ")
           << getOutputs().getTypes() << ", one for each of "
           << getQkv().getTypes() << " is expected";
  if (getGrad().getType() != getForward().getType())
    return emitOpError("grad and forward differ in type");
  return verifyAttention(*this, getForward(), getLse());
}

LogicalResult AttentionJoinOp::verify() {
  auto lse = tensorOf(getLeftLse()), out = tensorOf(getOutput());
  if (out.getRank() != 3 || lse.getRank() != 3 ||
      out.getDimSize(0) != lse.getDimSize(0) ||
      out.getDimSize(1) != lse.getDimSize(2) ||
      out.getDimSize(2) % lse.getDimSize(1))
    return emitOpError("lse ")
           << lse << " does not fit an output " << out << " by heads";
  for (Value value : {getLeft(), getRight()})
    if (value.getType() != out)
      return emitOpError("joins ") << value.getType() << " into " << out;
  if (getRightLse().getType() != lse)
    return emitOpError("joins ") << getRightLse().getType() << " with " << lse;
  return success();
}
