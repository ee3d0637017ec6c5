//===- CacheOps.cpp - The paged key-value cache ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers, costs and sharding of nn.cache_write, nn.paged_attention and
// nn.paged_attention_join.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::FactorRole;

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

/// Verifies that the operation has scales if the cache holds int8 codes, and
/// has none if the cache holds floats.
template <typename OpT>
static LogicalResult verifyScales(OpT op, RankedTensorType values) {
  bool isCoded = values.getElementType().isInteger(8);
  if (isCoded != static_cast<bool>(op.getScales()))
    return op.emitOpError(isCoded ? "codes need scales"
                                  : "scales belong to codes alone");
  return isCoded ? verifyShape(op, op.getScales(),
                               {values.getDimSize(0), values.getDimSize(1), 2,
                                values.getDimSize(2)},
                               "scales")
                 : success();
}

/// Verifies the operands that nn.cache_write and nn.paged_attention share:
/// cache, page table, positions and q, k, v.
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
          "keys")) ||
      failed(verifyScales(op, values)))
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
  bool hasScales = static_cast<bool>(getScales());
  if (getNewKeys().getType() != getKeys().getType() ||
      getNewValues().getType() != getValues().getType() ||
      static_cast<bool>(getNewScales()) != hasScales ||
      (hasScales && getNewScales().getType() != getScales().getType()))
    return emitOpError("gives a cache of another type than it takes");
  return verifyCache(*this);
}

/// Verifies that each position of the page table has a row of the layout, and
/// that parts, pages and blocks do not overlap partly.
static LogicalResult verifyLayoutOfCache(PagedAttentionOp op) {
  if (failed(verifyLayout(op, op.getLayout(), op.getMask(),
                          op.getHeads().getCount())))
    return failure();
  if (!op.getLayout())
    return success();
  int64_t covered =
      tensorOf(op.getLayout()).getDimSize(1) * op.getMask().getBlock();
  int64_t context = tensorOf(op.getPages()).getDimSize(1) * op.getPageTokens();
  if (covered < context)
    return op.emitOpError("has a layout of ")
           << covered << " positions, and a page table of " << context;
  if (PagedAttentionOp::partKeys % op.getPageTokens() != 0)
    return op.emitOpError("has a layout, and pages of ")
           << op.getPageTokens() << " positions, which do not divide parts of "
           << PagedAttentionOp::partKeys;
  return success();
}

LogicalResult PagedAttentionOp::verify() {
  if (!getMask().isCausal())
    return emitOpError("reads a cache, so its mask is causal");
  if (failed(verifyCache(*this)))
    return failure();
  if (failed(verifyLayoutOfCache(*this)))
    return failure();
  if (!getInParts()) {
    ArrayRef<int64_t> at = tensorOf(getPositions()).getShape();
    return verifyShape(*this, getOutput(), {at[0], at[1], getWidths()[0]},
                       "output");
  }
  if (getOutput().getType() == getPartsType())
    return success();
  return emitOpError("has parts of type ")
         << getPartsType() << ", not " << getOutput().getType();
}

int64_t PagedAttentionOp::getNumParts() {
  return llvm::divideCeil(tensorOf(getPages()).getDimSize(1), getPartPages());
}

RankedTensorType PagedAttentionOp::getPartsType() {
  ArrayRef<int64_t> at = tensorOf(getPositions()).getShape();
  return RankedTensorType::get(
      {at[0], at[1], getNumParts(), getHeads().getCount(), getHeadDim() + 2},
      Float32Type::get(getContext()));
}

LogicalResult PagedAttentionJoinOp::verify() {
  RankedTensorType parts = tensorOf(getParts());
  if (parts.getRank() != 5 || parts.getDimSize(4) < 3)
    return emitOpError("parts ")
           << parts << " are not [R, T, parts, heads, D + 2]";
  if (getPartTokens() < 1)
    return emitOpError("has parts of ") << getPartTokens() << " positions";
  int64_t rows = parts.getDimSize(0), tokens = parts.getDimSize(1);
  if (failed(verifyShape(*this, getPositions(), {rows, tokens}, "positions")) ||
      failed(verifyShape(*this, getLengths(), {rows}, "lengths")))
    return failure();
  return verifyShape(*this, getOutput(),
                     {rows, tokens, getHeads() * getHeadDim()}, "output");
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral isInference =
    "for inference only: a cache outlives the run";

StringRef CacheWriteOp::getNotDifferentiableReason() { return isInference; }
StringRef PagedAttentionOp::getNotDifferentiableReason() { return isInference; }
StringRef PagedAttentionJoinOp::getNotDifferentiableReason() {
  return isInference;
}

/// How many key elements the operation writes to the cache: one for each
/// feature of each token. It writes equally many value elements.
template <typename OpT> static double newKeysOf(OpT op) {
  RankedTensorType at = tensorOf(op.getPositions());
  return static_cast<double>(at.getNumElements() * op.getWidths()[1]);
}

/// The number of scales that the operation writes: two for each head of each
/// token.
static double newScalesOf(CacheWriteOp op) {
  return 2 * newKeysOf(op) / static_cast<double>(op.getHeadDim());
}

static double elementBytes(Value value) {
  return tensorOf(value).getElementTypeBitWidth() / 8.0;
}

double CacheWriteOp::getFlops() { return 0; }

/// The operation reads only k and v of its tokens, not q, and writes equally
/// many elements to the cache. It accesses no other elements of the cache.
double CacheWriteOp::getBytesOf(Value value) {
  double width = elementBytes(value);
  if (value == getKeys() || value == getValues() || value == getScales())
    return 0;
  if (value == getNewScales())
    return newScalesOf(*this) * width;
  if (value == getNewKeys() || value == getNewValues())
    return newKeysOf(*this) * width;
  if (llvm::is_contained(getQkv(), value))
    return newKeysOf(*this) * width * (isPacked() ? 2 : 1);
  return bytesOf(value);
}

/// The largest number of positions to which `tokens` consecutive tokens of one
/// request can attend. With a layout, a token is assumed to attend to the mean
/// number of positions.
static double contextOf(PagedAttentionOp op, int64_t tokens) {
  RankedTensorType pages = tensorOf(op.getPages());
  int64_t context = pages.getDimSize(1) * op.getPageTokens();
  if (int64_t window = op.getMask().getWindow())
    context = std::min(context, window + tokens - 1);
  auto keys = static_cast<double>(context);
  if (op.getMask().hasLayout())
    return std::min(keys, op.getMask().meanKeys(context) +
                              static_cast<double>(tokens - 1));
  return keys;
}

// The compiler does not know how long the requests of a batch are. So the cost
// assumes that every token attends to the longest possible context.
double PagedAttentionOp::getFlops() { return getModelFlops(); }
double PagedAttentionOp::getModelFlops() {
  return 4 *
         static_cast<double>(tensorOf(getPositions()).getNumElements() *
                             getWidths()[0]) *
         contextOf(*this, 1);
}
double PagedAttentionOp::getBytesOf(Value value) {
  ArrayRef<int64_t> at = tensorOf(getPositions()).getShape();
  if (value == getKeys() || value == getValues())
    return static_cast<double>(at[0] * getWidths()[1]) *
           contextOf(*this, at[1]) * elementBytes(value);
  if (value == getScales())
    return static_cast<double>(at[0] * getHeads().getKv()) * 2 *
           contextOf(*this, at[1]) * elementBytes(value);
  if (value == getQkv()[0])
    return static_cast<double>(at[0] * at[1] * getWidths()[0]) *
           elementBytes(value);
  return bytesOf(value);
}

/// nn.paged_attention computes a result for each part (range) of the keys, and
/// this operation combines these results. Counts one multiplication and one
/// addition for each element of the results.
double PagedAttentionJoinOp::getFlops() {
  return 2 * static_cast<double>(tensorOf(getParts()).getNumElements());
}

// Each dimension of an operand has a letter in the sharding rules. p is the
// page, n the position in a page, d the feature of a head, and h the head as in
// nn.attention. s is the dimension of size 2 of the scales: index 0 has the
// scales of keys, index 1 those of values. If attention is computed separately
// for parts of the keys, j is the index of the part, and x the index into a
// part's result. Ranks do not split the dimension of pages, because all
// requests of a batch share the pages.
template <typename OpT>
static dist::ShardingRule ruleOf(OpT op, ArrayRef<std::string> results,
                                 std::string whole) {
  HeadsAttr heads = op.getHeads();
  SmallVector<std::string> operands = {"phdn", "phnd"};
  if (op.getScales()) {
    operands.push_back("phsn");
    whole += "s";
  }
  auto qkv = static_cast<unsigned>(operands.size());
  operands.append(op.getQkv().size(), "bth");
  operands.append({"bm", "bt", "b", "xyw"});
  whole += "xyw";
  dist::ShardingRule rule = dist::buildRule(op, operands, results, whole);
  rule.setUnits(FactorRole::Heads, heads.getKv(),
                heads.getCount() == heads.getKv() ? "heads"
                                                  : "key/value heads");
  if (op.isPacked())
    rule.operandSegments.push_back({qkv, 2, op.getWidths()});
  return rule;
}

dist::ShardingRule CacheWriteOp::getShardingRule() {
  SmallVector<std::string> results = {"phdn", "phnd"};
  if (getNewScales())
    results.push_back("phsn");
  return ruleOf(*this, results, "pdntmb");
}
dist::ShardingRule PagedAttentionOp::getShardingRule() {
  return getInParts() ? ruleOf(*this, {"btjhx"}, "pdntmjx")
                      : ruleOf(*this, {"bth"}, "pdntm");
}

// The partial results have a separate dimension of heads. The output has one
// dimension with the features of all heads, so `setUnits` keeps the features of
// a head on one rank.
dist::ShardingRule PagedAttentionJoinOp::getShardingRule() {
  dist::ShardingRule rule =
      dist::buildRule(*this, {"btjhx", "bt", "b"}, {"bth"}, "tjx");
  rule.setUnits(FactorRole::Heads, getHeads(), "heads");
  return rule;
}

void CacheWriteOp::localize(const dist::Split &split) {
  setHeadsAttr(getHeads().splitBetween(split.partsOf(FactorRole::Heads)));
}
void PagedAttentionOp::localize(const dist::Split &split) {
  setHeadsAttr(getHeads().splitBetween(split.partsOf(FactorRole::Heads)));
  ArrayAttr axes = split.axesOf(FactorRole::Heads);
  if (!getLayout() || tensorOf(getLayout()).getDimSize(0) == 1 || !axes)
    return;
  OpBuilder builder(*this);
  getPartMutable().assign(
      builder.create<dist::RankOp>(getLoc(), builder.getIndexType(), axes));
}

SmallVector<Tie> CacheWriteOp::getTies() {
  SmallVector<Tie> ties = {{getNewKeys(), getKeys()},
                           {getNewValues(), getValues()}};
  if (getNewScales())
    ties.push_back({getNewScales(), getScales()});
  return ties;
}
