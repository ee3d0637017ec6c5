//===- CacheOps.cpp - Keys and values kept across runs --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::FactorRole;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static LogicalResult verifyShape(Operation *op, Value value,
                                 ArrayRef<int64_t> shape, StringRef what) {
  if (tensorOf(value).getShape() == shape)
    return success();
  auto wanted = RankedTensorType::get(shape, tensorOf(value).getElementType());
  return op->emitOpError() << what << " must be " << wanted << ", not "
                           << value.getType();
}

/// Rules that both operations share.
template <typename OpT> static LogicalResult verifyCache(OpT op) {
  RankedTensorType values = tensorOf(op.getValues());
  int64_t kv = op.getHeads().getKv();
  if (values.getRank() != 4 || values.getDimSize(1) != kv)
    return op.emitOpError("values ") << values << " are not [P, kv, N, D] with "
                                     << kv << " key/value heads";
  if (values.getElementType() != tensorOf(op.getKeys()).getElementType())
    return op.emitOpError("keys and values differ in type");
  if (failed(verifyShape(
          op, op.getKeys(),
          {values.getDimSize(0), kv, op.getHeadDim(), op.getPageTokens()},
          "keys")))
    return failure();
  RankedTensorType at = tensorOf(op.getPositions());
  if (at.getRank() != 2)
    return op.emitOpError("positions ") << at << " are not [R, T]";
  int64_t rows = at.getDimSize(0), tokens = at.getDimSize(1);
  SmallVector<int64_t> widths = op.getWidths();
  if (op.isPacked())
    widths = {widths[0] + widths[1] + widths[2]};
  if (op.getQkv().size() != widths.size())
    return op.emitOpError("takes q, k, v as one operand or three, got ")
           << op.getQkv().size();
  for (auto [value, width] : llvm::zip(op.getQkv(), widths))
    if (failed(verifyShape(op, value, {rows, tokens, width}, "operand")))
      return failure();
  RankedTensorType pages = tensorOf(op.getPages());
  if (pages.getRank() != 2 || pages.getDimSize(0) != rows)
    return op.emitOpError("pages ")
           << pages << " are not [R, M] with " << rows << " rows";
  return verifyShape(op, op.getLengths(), {rows}, "lengths");
}

LogicalResult CacheWriteOp::verify() {
  if (getNewKeys().getType() != getKeys().getType() ||
      getNewValues().getType() != getValues().getType())
    return emitOpError("gives a cache of another type than it takes");
  return verifyCache(*this);
}

LogicalResult PagedAttentionOp::verify() {
  if (!getMask().isCausal())
    return emitOpError("reads a cache, so its mask is causal");
  RankedTensorType at = tensorOf(getPositions());
  if (at.getRank() == 2 &&
      failed(verifyShape(*this, getOutput(),
                         {at.getDimSize(0), at.getDimSize(1), getWidths()[0]},
                         "output")))
    return failure();
  return verifyCache(*this);
}

//===----------------------------------------------------------------------===//
// The contract
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral isInference =
    "for inference only: a cache outlives the run";

StringRef CacheWriteOp::getNotDifferentiableReason() { return isInference; }
StringRef PagedAttentionOp::getNotDifferentiableReason() { return isInference; }

/// Elements of the keys that a run writes: one for each feature of a token.
template <typename OpT> static double newKeysOf(OpT op) {
  RankedTensorType at = tensorOf(op.getPositions());
  return static_cast<double>(at.getNumElements() * op.getWidths()[1]);
}

static double elementBytes(Value value) {
  return tensorOf(value).getElementTypeBitWidth() / 8.0;
}

double CacheWriteOp::getFlops() { return 0; }

/// Of q, k and v what it writes, and of the cache that alone.
double CacheWriteOp::getBytesOf(Value value) {
  double width = elementBytes(value);
  if (value == getKeys() || value == getValues())
    return 0;
  if (value == getNewKeys() || value == getNewValues())
    return newKeysOf(*this) * width;
  if (llvm::is_contained(getQkv(), value))
    return newKeysOf(*this) * width * (isPacked() ? 2 : 1);
  return bytesOf(value);
}

/// Positions of a row that `tokens` tokens of it see at most.
static double contextOf(PagedAttentionOp op, int64_t tokens) {
  RankedTensorType pages = tensorOf(op.getPages());
  int64_t context = pages.getDimSize(1) * op.getPageTokens();
  if (int64_t window = op.getMask().getWindow())
    context = std::min(context, window + tokens - 1);
  return static_cast<double>(context);
}

// Lengths are not known here: every row counts with all that it may see.
double PagedAttentionOp::getFlops() { return getModelFlops(); }
double PagedAttentionOp::getModelFlops() {
  return 4 * static_cast<double>(tensorOf(getOutput()).getNumElements()) *
         contextOf(*this, 1);
}
double PagedAttentionOp::getBytesOf(Value value) {
  RankedTensorType output = tensorOf(getOutput());
  if (value == getKeys() || value == getValues())
    return static_cast<double>(output.getDimSize(0)) *
           contextOf(*this, output.getDimSize(1)) *
           static_cast<double>(getWidths()[1]) * elementBytes(value);
  return bytesOf(value == getQkv()[0] ? getOutput() : value);
}

// Letters: p pages, n positions of a page, d features of a head; h stands for
// heads, as in nn.attention. Pages are numbered for all rows together.
static dist::ShardingRule ruleOf(Operation *op, OperandRange qkv,
                                 HeadsAttr heads, ArrayRef<std::string> results,
                                 ArrayRef<int64_t> widths, StringRef whole) {
  SmallVector<std::string> operands = {"phdn", "phnd"};
  operands.append(qkv.size(), "bth");
  operands.append({"bm", "bt", "b"});
  dist::ShardingRule rule = dist::buildRule(op, operands, results, whole);
  rule.setUnits(FactorRole::Heads, heads.getKv(),
                heads.getCount() == heads.getKv() ? "heads"
                                                  : "key/value heads");
  if (qkv.size() == 1)
    rule.operandSegments.push_back({2, 2, llvm::to_vector(widths)});
  return rule;
}

dist::ShardingRule CacheWriteOp::getShardingRule() {
  return ruleOf(*this, getQkv(), getHeads(), {"phdn", "phnd"}, getWidths(),
                "pdntmb");
}
dist::ShardingRule PagedAttentionOp::getShardingRule() {
  return ruleOf(*this, getQkv(), getHeads(), {"bth"}, getWidths(), "pdntm");
}

void CacheWriteOp::localize(const dist::Split &split) {
  setHeadsAttr(getHeads().splitBetween(split.partsOf(FactorRole::Heads)));
}
void PagedAttentionOp::localize(const dist::Split &split) {
  setHeadsAttr(getHeads().splitBetween(split.partsOf(FactorRole::Heads)));
}

SmallVector<Tie> CacheWriteOp::getTies() {
  return {{getNewKeys(), getKeys()}, {getNewValues(), getValues()}};
}
