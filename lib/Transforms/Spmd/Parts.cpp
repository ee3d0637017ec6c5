//===- Parts.cpp - Which part of the whole an operation computes ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reshard.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace {

/// Makes numbers that depend on the rank.
class Numbers {
public:
  explicit Numbers(Operation *op) : builder(op), loc(op->getLoc()) {}

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

int64_t elementsFrom(RankedTensorType type, int64_t dim) {
  int64_t elements = 1;
  for (int64_t extent : type.getShape().drop_front(dim))
    elements *= extent;
  return elements;
}

/// Rows are parts of the global batch's: the rank's part of a micro-batch comes
/// after those of the ranks before it.
template <typename OpT>
void placeRows(OpT op, const Split &split, Value microBatch) {
  ArrayAttr axes = split.axesOf("b");
  if (!axes || axes.empty() || !microBatch)
    return;
  Numbers numbers(op);
  int64_t parts = split.parts[split.rule.indexOf("b")];
  Value place =
      numbers.plus(numbers.times(microBatch, parts), numbers.rank(axes));
  op.getMicroBatchMutable().assign(place);
}

void placeDropout(nn::DropoutOp op, const Split &split) {
  placeRows(op, split, op.getMicroBatch());
  auto type = cast<RankedTensorType>(op.getOutput().getType());
  SmallVector<Value> part;
  SmallVector<int64_t> parts, inner;
  for (auto [dim, factor] : llvm::enumerate(split.rule.results[0])) {
    if (dim == 0 || split.parts[factor] == 1)
      continue;
    part.push_back(Numbers(op).rank(split.axes[factor]));
    parts.push_back(split.parts[factor]);
    inner.push_back(elementsFrom(type, dim));
  }
  if (part.empty())
    return;
  op.getPartMutable().assign(part);
  op.setParts(parts);
  op.setInner(inner);
}

template <typename OpT> void placeAttention(OpT op, const Split &split) {
  if (op.getRng()) {
    placeRows(op, split, op.getMicroBatch());
    ArrayAttr axes = split.axesOf("h");
    if (axes && !axes.empty()) {
      op.getPartMutable().assign(Numbers(op).rank(axes));
      op.setParts(split.parts[split.rule.indexOf("h")]);
    }
  }
  op.setRing(false);
  ArrayAttr axes = split.axesOf("t");
  if (axes && !axes.empty())
    makeRing(op, axes, split.parts[split.rule.indexOf("t")]);
}

/// The first row of the rank's part of the vocabulary.
Value firstOf(Operation *op, const Split &split, Value table, int64_t dim) {
  ArrayAttr axes = split.axesOf("v");
  if (!axes || axes.empty())
    return {};
  Numbers numbers(op);
  return numbers.times(numbers.rank(axes),
                       cast<RankedTensorType>(table.getType()).getDimSize(dim));
}

template <typename OpT>
void placeVocabulary(OpT op, const Split &split, Value table, int64_t dim) {
  if (Value first = firstOf(op, split, table, dim))
    op.getFirstMutable().assign(first);
}

/// Each rank has columns of the logits: their statistics are joined.
void placeCrossEntropy(nn::CrossEntropyOp op, const Split &split) {
  auto logits = cast<RankedTensorType>(op.getLogits().getType());
  Value first = firstOf(op, split, op.getLogits(), logits.getRank() - 1);
  if (!first)
    return;
  OpBuilder builder(op);
  ArrayAttr axes = split.axesOf("v");
  int64_t index = split.rule.indexOf("v");
  auto rows = cast<RankedTensorType>(op.getLosses().getType());
  auto part = builder.create<nn::CrossEntropyPartOp>(
      op.getLoc(), rows, rows, op.getLogits(), op.getLabels(), first,
      builder.getI64IntegerAttr(split.rule.factors[index].size), ArrayAttr());
  SmallVector<int64_t> shape(rows.getShape());
  shape[0] *= split.parts[index];
  auto reason = builder.getStringAttr("nn.cross_entropy");
  Value parts = builder.create<dist::AllGatherOp>(
      op.getLoc(), rows.clone(shape), part.getLse(), axes,
      builder.getI64IntegerAttr(0), reason, TypeAttr(), DenseI64ArrayAttr(),
      UnitAttr());
  Value label = builder.create<dist::AllReduceOp>(
      op.getLoc(), rows, part.getLabelLogit(), axes, reason, TypeAttr(),
      DenseI64ArrayAttr(), UnitAttr());
  auto join = builder.create<nn::CrossEntropyJoinOp>(
      op.getLoc(), rows, rows, parts, label, op.getLabels(), ArrayAttr());
  op.replaceAllUsesWith(join.getResults());
  op.erase();
}

} // namespace

void heddle::spmd::placePart(Operation *op, const Split &split) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](nn::DropoutOp drop) { placeDropout(drop, split); })
      .Case<nn::AttentionOp, nn::AttentionGradOp>(
          [&](auto attention) { placeAttention(attention, split); })
      .Case([&](nn::EmbeddingOp embedding) {
        placeVocabulary(embedding, split, embedding.getTable(), 0);
      })
      .Case([&](nn::EmbeddingGradOp grad) {
        placeVocabulary(grad, split, grad.getOutput(), 0);
      })
      .Case([&](nn::PositionsOp positions) {
        ArrayAttr axes = split.axesOf("t");
        if (axes && !axes.empty()) {
          Numbers numbers(positions);
          auto type = cast<RankedTensorType>(positions.getOutput().getType());
          positions.getFirstMutable().assign(numbers.times(
              numbers.rank(axes), type.getDimSize(type.getRank() - 1)));
        }
      })
      .Case([&](nn::CrossEntropyOp loss) { placeCrossEntropy(loss, split); })
      .Case([&](nn::CrossEntropyGradOp grad) {
        auto type = cast<RankedTensorType>(grad.getLogits().getType());
        if (Value first =
                firstOf(grad, split, grad.getLogits(), type.getRank() - 1)) {
          grad.getFirstMutable().assign(first);
          grad.setVocab(split.rule.factors[split.rule.indexOf("v")].size);
        }
      });
}
