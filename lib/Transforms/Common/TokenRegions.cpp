//===- TokenRegions.cpp - What goes over tokens one by one ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/TokenRegions.h"
#include "dialects/Dist/DistDialect.h"

using namespace mlir;
using namespace heddle;
using dist::FactorKind;
using dist::FactorRole;

bool heddle::isProduct(Operation *op) {
  auto cost = dyn_cast<nn::CostOpInterface>(op);
  return cost && cost.getModelFlops() > 0;
}

static int64_t rankOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getRank() : 0;
}

//===----------------------------------------------------------------------===//
// One operation
//===----------------------------------------------------------------------===//

/// If ranks split the vocabulary, they exchange one number per token to compute
/// the loss: by collectives and by nn.cross_entropy_join. Returns which
/// operands and results of such an operation have one element for each token.
/// Returns nullopt for any other operation.
static std::optional<TokenSplit> splitOfExchange(Operation *op, int64_t rows) {
  auto first = [](Value value) {
    return rankOf(value) == 2
               ? cast<RankedTensorType>(value.getType()).getDimSize(0)
               : 0;
  };
  TokenSplit split = {BitVector(op->getNumOperands(), true),
                      BitVector(op->getNumResults(), true)};
  auto gather = dyn_cast<dist::AllGatherOp>(op);
  bool isOfTokens =
      isa<nn::CrossEntropyJoinOp>(op) ||
      (isa<dist::AllReduceOp>(op) && first(op->getOperand(0)) == rows) ||
      (gather && gather.getDim() == 0 && first(gather.getInput()) == rows);
  return isOfTokens ? std::optional(split) : std::nullopt;
}

/// Returns true if the first two dimensions of a value are rows and tokens, and
/// false if the value has neither. Returns nullopt if rows or tokens are at
/// another position. `dims` has the index of each dimension's factor in the
/// sharding rule; `rows` and `tokens` are such indices, too.
static std::optional<bool> beginsWith(ArrayRef<int64_t> dims, int64_t rows,
                                      int64_t tokens) {
  bool begins = dims.size() > 1 && dims[0] == rows && dims[1] == tokens;
  for (int64_t factor : dims.drop_front(begins ? 2 : 0))
    if (factor == rows || factor == tokens)
      return std::nullopt;
  return begins;
}

std::optional<TokenSplit> TokenRegion::splitOf(Operation *op) const {
  if (std::optional<TokenSplit> split = splitOfExchange(op, rows))
    return split;
  auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op);
  if (!ruled || isa<nn::DropoutOp>(op))
    return std::nullopt;
  dist::ShardingRule rule = ruled.getShardingRule();
  int64_t row = rule.indexOf(FactorRole::Rows);
  int64_t token = rule.indexOf(FactorRole::Tokens);
  auto divides = [&](int64_t factor, int64_t size) {
    return factor >= 0 && rule.factors[factor].size == size &&
           (rule.factors[factor].kind == FactorKind::Parallel ||
            rule.factors[factor].kind == FactorKind::Reduction);
  };
  if (!divides(row, rows) || !divides(token, tokens))
    return std::nullopt;
  TokenSplit split = {BitVector(op->getNumOperands()),
                      BitVector(op->getNumResults())};
  auto note = [&](auto &values, BitVector &bits) {
    for (auto [number, dims] : llvm::enumerate(values)) {
      std::optional<bool> begins = beginsWith(dims, row, token);
      if (!begins)
        return false;
      if (number < bits.size())
        bits[number] = *begins;
    }
    return true;
  };
  if (!note(rule.operands, split.operands) ||
      !note(rule.results, split.results))
    return std::nullopt;
  SmallVector<nn::Init> sums = nn::sumsOf(op);
  for (OpResult result : op->getResults())
    if (!split.results[result.getResultNumber()] &&
        llvm::none_of(sums,
                      [&](nn::Init &sum) { return sum.result == result; }))
      return std::nullopt;
  return split;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

namespace {

/// Adds to the region the operations that read the results of `op`, directly or
/// through other operations, up to and including the next matrix products.
/// Returns whether all added operations compute each token independently.
bool grow(TokenRegion &region, Operation *op) {
  std::optional<TokenSplit> made = region.splitOf(op);
  if (!made)
    return false;
  for (OpResult result : op->getResults()) {
    if (!made->results[result.getResultNumber()] || rankOf(result) < 3)
      continue;
    region.inner.insert(result);
    for (OpOperand &use : result.getUses()) {
      Operation *user = use.getOwner();
      std::optional<TokenSplit> split = region.splitOf(user);
      if (!split || !split->operands[use.getOperandNumber()])
        return false;
      if (region.ops.insert(user) && !isProduct(user) && !grow(region, user))
        return false;
    }
  }
  return true;
}

/// The region of operations that begins with the matrix product `product` and
/// ends with the next matrix products. Returns nullopt if `product` is no
/// matrix product, or if some operation in between does not compute each token
/// independently.
std::optional<TokenRegion> regionFrom(Operation *product) {
  if (!isProduct(product) || product->getNumResults() != 1 ||
      rankOf(product->getResult(0)) < 3)
    return std::nullopt;
  auto type = cast<RankedTensorType>(product->getResult(0).getType());
  TokenRegion region;
  region.rows = type.getDimSize(0);
  region.tokens = type.getDimSize(1);
  region.ops.insert(product);
  if (product->getResult(0).use_empty() || !grow(region, product))
    return std::nullopt;
  return region;
}

/// Adds the operations on paths from one operation of the region to another,
/// and sorts the region by the order in the MLIR block. Returns true if nothing
/// had to be added.
bool close(TokenRegion &region, Block &block) {
  DenseSet<Operation *> after, before;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      if (Operation *made = operand.getDefiningOp();
          made && (region.ops.contains(made) || after.contains(made)))
        after.insert(&op);
  for (Operation &op : llvm::reverse(block))
    for (Operation *user : op.getUsers())
      if (region.ops.contains(user) || before.contains(user))
        before.insert(&op);
  llvm::SetVector<Operation *> all;
  for (Operation &op : block)
    if (region.ops.contains(&op) ||
        (after.contains(&op) && before.contains(&op)))
      all.insert(&op);
  bool isNew = all.size() != region.ops.size();
  region.ops = std::move(all);
  return !isNew;
}

/// Whether every operation of the region computes each token independently, and
/// reads from other operations of the region only values of the same token.
bool isComplete(const TokenRegion &region) {
  for (Operation *op : region.ops) {
    std::optional<TokenSplit> split = region.splitOf(op);
    if (!split)
      return false;
    for (OpOperand &operand : op->getOpOperands()) {
      auto made = dyn_cast<OpResult>(operand.get());
      if (!made || !region.ops.contains(made.getOwner()))
        continue;
      if (!split->operands[operand.getOperandNumber()] ||
          !region.splitOf(made.getOwner())->results[made.getResultNumber()])
        return false;
    }
  }
  return true;
}

/// Merges regions that have operations in common. Returns whether it merged
/// any.
bool join(SmallVectorImpl<TokenRegion> &regions) {
  bool any = false;
  for (size_t i = 0; i < regions.size(); ++i)
    for (size_t j = i + 1; j < regions.size();) {
      TokenRegion &one = regions[i], &other = regions[j];
      if (llvm::none_of(other.ops,
                        [&](Operation *op) { return one.ops.contains(op); })) {
        ++j;
        continue;
      }
      one.ops.insert(other.ops.begin(), other.ops.end());
      one.inner.insert(other.inner.begin(), other.inner.end());
      regions.erase(regions.begin() + j);
      j = i + 1;
      any = true;
    }
  return any;
}

} // namespace

SmallVector<TokenRegion> heddle::findTokenRegions(Block &block) {
  SmallVector<TokenRegion> regions;
  for (Operation &op : block)
    if (std::optional<TokenRegion> region = regionFrom(&op))
      regions.push_back(*region);
  bool changes = true;
  while (changes) {
    changes = join(regions);
    for (TokenRegion &region : regions)
      changes |= !close(region, block);
  }
  llvm::erase_if(regions,
                 [](TokenRegion &region) { return !isComplete(region); });
  return regions;
}
