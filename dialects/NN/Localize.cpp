//===- Localize.cpp - Operations of one rank ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `localize` of the operations, which the spmd phase calls when
// operands and results have got their rank-local types. `localize` gives an
// operation the operands that say which shard of the whole tensors the rank
// has, such as the index of the first row of a table.
//
//===----------------------------------------------------------------------===//

#include "RingAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using dist::FactorRole;
using dist::Split;

namespace {

/// Builds index arithmetic in the program, with which each rank computes where
/// its shard begins.
class RankArithmetic {
public:
  explicit RankArithmetic(Operation *op) : builder(op), loc(op->getLoc()) {}

  Value rank(ArrayAttr axes) {
    return builder.create<dist::RankOp>(loc, builder.getIndexType(), axes);
  }
  Value times(Value number, int64_t factor) {
    Value constant = builder.create<arith::ConstantIndexOp>(loc, factor);
    return builder.create<arith::MulIOp>(loc, number, constant);
  }
  Value plus(Value a, Value b) {
    return builder.create<arith::AddIOp>(loc, a, b);
  }

  OpBuilder builder;
  Location loc;
};

} // namespace

static int64_t elementsFrom(RankedTensorType type, int64_t dim) {
  int64_t elements = 1;
  for (int64_t extent : type.getShape().drop_front(dim))
    elements *= extent;
  return elements;
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

/// If ranks split the rows of the batch, replaces the operand `micro_batch`,
/// from which dropout draws random numbers, by micro-batch * ranks + rank. So
/// no two ranks draw the same random numbers.
template <typename OpT>
static void setMicroBatchOfRank(OpT op, const Split &split, Value microBatch) {
  ArrayAttr axes = split.axesOf(FactorRole::Rows);
  if (!axes || !microBatch)
    return;
  RankArithmetic math(op);
  Value place = math.plus(
      math.times(microBatch, split.partsOf(FactorRole::Rows)), math.rank(axes));
  op.getMicroBatchMutable().assign(place);
}

void DropoutOp::localize(const Split &split) {
  setMicroBatchOfRank(*this, split, getMicroBatch());
  RankedTensorType type = tensorOf(getOutput());
  SmallVector<Value> part;
  SmallVector<int64_t> parts, inner;
  for (auto [dim, factor] : llvm::enumerate(split.rule.results[0])) {
    if (dim == 0 || split.parts[factor] == 1)
      continue;
    part.push_back(RankArithmetic(*this).rank(split.axes[factor]));
    parts.push_back(split.parts[factor]);
    inner.push_back(elementsFrom(type, dim));
  }
  if (part.empty())
    return;
  getPartMutable().assign(part);
  setParts(parts);
  setInner(inner);
}

//===----------------------------------------------------------------------===//
// Heads and positions
//===----------------------------------------------------------------------===//

void RotaryOp::localize(const Split &split) {
  setHeads(getHeads() / split.partsOf(FactorRole::Heads));
}

/// Whether the heads of the attention `op` have different layouts. The
/// operation must then know which heads a rank has.
template <typename OpT> static bool hasLayoutOfHeads(OpT op) {
  Value layout = op.getLayout();
  return layout && cast<RankedTensorType>(layout.getType()).getDimSize(0) > 1;
}

template <typename OpT>
static void localizeAttention(OpT op, const Split &split) {
  int64_t parts = split.partsOf(FactorRole::Heads);
  op.setHeadsAttr(op.getHeads().splitBetween(parts));
  op.removePlacementAttr();
  if (op.getRng())
    setMicroBatchOfRank(op, split, op.getMicroBatch());
  if (op.getRng() || hasLayoutOfHeads(op)) {
    if (ArrayAttr axes = split.axesOf(FactorRole::Heads)) {
      op.getPartMutable().assign(RankArithmetic(op).rank(axes));
      op.setPlacementAttr(PlacementAttr::get(op.getContext(), parts,
                                             /*sequence_shards=*/1,
                                             /*ring=*/false));
    }
  }
  if (ArrayAttr axes = split.axesOf(FactorRole::Tokens))
    makeRingAttention(op, axes, split.partsOf(FactorRole::Tokens));
}

void AttentionOp::localize(const Split &split) {
  localizeAttention(*this, split);
}

void AttentionGradOp::localize(const Split &split) {
  localizeAttention(*this, split);
}

void PositionsOp::localize(const Split &split) {
  ArrayAttr axes = split.axesOf(FactorRole::Tokens);
  if (!axes)
    return;
  RankArithmetic math(*this);
  RankedTensorType type = tensorOf(getOutput());
  getFirstMutable().assign(
      math.times(math.rank(axes), type.getDimSize(type.getRank() - 1)));
}

//===----------------------------------------------------------------------===//
// The vocabulary
//===----------------------------------------------------------------------===//

/// The index of the first entry of the vocabulary in this rank's shard of
/// `table`, whose dimension `dim` is the vocabulary. Null if ranks do not split
/// the vocabulary.
static Value firstOf(Operation *op, const Split &split, Value table,
                     int64_t dim) {
  ArrayAttr axes = split.axesOf(FactorRole::Vocabulary);
  if (!axes)
    return {};
  RankArithmetic math(op);
  return math.times(math.rank(axes), tensorOf(table).getDimSize(dim));
}

/// Sets the operand `first` to the index, in the whole table, of the first row
/// of the rank's shard. If the table was already a shard of a larger table, its
/// old `first` is added.
void EmbeddingOp::localize(const Split &split) {
  Value first = firstOf(*this, split, getTable(), 0);
  if (!first)
    return;
  if (Value whole = getFirst())
    first = RankArithmetic(*this).plus(first, whole);
  getFirstMutable().assign(first);
}

void EmbeddingGradOp::localize(const Split &split) {
  if (Value first = firstOf(*this, split, getOutput(), 0))
    getFirstMutable().assign(first);
}

/// If ranks split the columns of the logits, replaces the operation: each rank
/// computes a partial result from its columns, collectives exchange the partial
/// results, and nn.cross_entropy_join combines them.
void CrossEntropyOp::localize(const Split &split) {
  Value first =
      firstOf(*this, split, getLogits(), tensorOf(getLogits()).getRank() - 1);
  if (!first)
    return;
  OpBuilder builder(*this);
  ArrayAttr axes = split.axesOf(FactorRole::Vocabulary);
  int64_t vocab =
      split.rule.factors[split.rule.indexOf(FactorRole::Vocabulary)].size;
  RankedTensorType rows = tensorOf(getLosses());
  auto part = builder.create<CrossEntropyPartOp>(
      getLoc(), rows, rows, getLogits(), getLabels(), first,
      builder.getI64IntegerAttr(vocab), getSmoothingAttr(), ArrayAttr());
  SmallVector<int64_t> shape(rows.getShape());
  shape[0] *= split.partsOf(FactorRole::Vocabulary);
  auto reason = builder.getStringAttr("nn.cross_entropy");
  Value parts = builder.create<dist::AllGatherOp>(
      getLoc(), rows.clone(shape), part.getLse(), axes,
      builder.getI64IntegerAttr(0), reason, TypeAttr(), DenseI64ArrayAttr(),
      UnitAttr());
  Value label = builder.create<dist::AllReduceOp>(
      getLoc(), rows, part.getLabelLogit(), axes, reason, TypeAttr(),
      DenseI64ArrayAttr(), UnitAttr());
  auto join = builder.create<CrossEntropyJoinOp>(
      getLoc(), rows, rows, parts, label, getLabels(), ArrayAttr());
  (*this)->replaceAllUsesWith(join.getResults());
  (*this)->erase();
}

void CrossEntropyGradOp::localize(const Split &split) {
  Value first =
      firstOf(*this, split, getLogits(), tensorOf(getLogits()).getRank() - 1);
  if (!first)
    return;
  getFirstMutable().assign(first);
  setVocab(split.rule.factors[split.rule.indexOf(FactorRole::Vocabulary)].size);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

void SquareSumsOp::localize(const Split &) {
  int64_t size = tensorOf(getInput()).getNumElements();
  int64_t blocks = (size + blockSize - 1) / blockSize;
  getOutput().setType(tensorOf(getOutput()).clone({blocks}));
}
