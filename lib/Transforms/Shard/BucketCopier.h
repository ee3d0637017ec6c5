//===- BucketCopier.h - Copies an update for a bucket -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_SHARD_BUCKETCOPIER_H
#define HEDDLE_LIB_TRANSFORMS_SHARD_BUCKETCOPIER_H

#include "ParameterBuckets.h"
#include "dialects/NN/GroupLayout.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <functional>

namespace heddle::shard {

/// Copies operations of an optimizer's update. The copies work on one of the
/// new buckets instead of the bucket that spans the whole model.
class BucketCopier {
public:
  /// `oldReads` has the reads of buckets of the whole model. `read` reads the
  /// new bucket in place of one of them.
  BucketCopier(mlir::OpBuilder &builder, ParameterBucket &bucket,
               const llvm::DenseSet<mlir::Operation *> &oldReads,
               std::function<mlir::Value(nn::GetOp)> read)
      : builder(builder), bucket(bucket), oldReads(oldReads),
        read(std::move(read)) {}

  /// Replaces `value` by `mine` in all operations that are copied from now on.
  void map(mlir::Value value, mlir::Value mine) { mapping.map(value, mine); }

  /// Creates the bucket's copy of the operation that computes `value`, and
  /// returns the copy's result. Returns `value` itself if it does not depend on
  /// a bucket.
  mlir::Value copy(mlir::Value value) {
    if (mlir::Value known = mapping.lookupOrNull(value))
      return known;
    mlir::Operation *op = value.getDefiningOp();
    if (op && oldReads.contains(op)) {
      mlir::Value mine = read(llvm::cast<nn::GetOp>(op));
      map(value, mine);
      return mine;
    }
    if (!op || !isOfBucket(op))
      return value;
    return write(op)->getResult(
        llvm::cast<mlir::OpResult>(value).getResultNumber());
  }

  /// Creates the bucket's copy of an operation, after those of the operations
  /// that compute its operands, in the order of the originals.
  mlir::Operation *write(mlir::Operation *op) {
    llvm::SetVector<mlir::Operation *> makers;
    collectMakers(op, makers);
    llvm::SmallVector<mlir::Operation *> inOrder(makers.begin(), makers.end());
    llvm::sort(inOrder, [](mlir::Operation *a, mlir::Operation *b) {
      return a->isBeforeInBlock(b);
    });
    for (mlir::Operation *maker : inOrder)
      writeOne(maker);
    return writeOne(op);
  }

private:
  /// Adds the operations of which the operands of `op` need a copy first.
  void collectMakers(mlir::Operation *op,
                     llvm::SetVector<mlir::Operation *> &makers) {
    for (mlir::Value operand : op->getOperands()) {
      mlir::Operation *maker = operand.getDefiningOp();
      if (!maker || mapping.contains(operand) || oldReads.contains(maker) ||
          !isOfBucket(maker) || !makers.insert(maker))
        continue;
      collectMakers(maker, makers);
    }
  }

  mlir::Operation *writeOne(mlir::Operation *op) {
    for (mlir::Value operand : op->getOperands())
      mapping.map(operand, copy(operand));
    mlir::Operation *mine = builder.clone(*op, mapping);
    bool isOfGroups =
        llvm::isa<nn::GroupMaximaOp, nn::GroupSumsOp, nn::FakeQuantizeOp>(mine);
    nn::BucketOp of = isOfGroups ? bucket.copies : bucket.values;
    if (mine->hasAttr("bucket"))
      mine->setAttr("bucket",
                    mlir::FlatSymbolRefAttr::get(of.getSymNameAttr()));
    if (nn::setGroupShapes(mine))
      return mine;
    for (auto [old, result] : llvm::zip(op->getResults(), mine->getResults()))
      setShape(op, old, result);
    return mine;
  }

  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
  }

  /// Sets the shape of `result`, a result of the bucket's copy of `op`. `old`
  /// is the same result of `op` itself. If an operand of `op` has the shape of
  /// `old`, `result` gets the shape of that operand in the copy. Otherwise
  /// `result`, or each of its rows, gets one element for each parameter of the
  /// bucket.
  void setShape(mlir::Operation *op, mlir::Value old, mlir::Value result) {
    auto type = llvm::cast<mlir::RankedTensorType>(result.getType());
    for (mlir::Value operand : op->getOperands())
      if (shapeOf(operand) == shapeOf(old)) {
        result.setType(type.clone(shapeOf(mapping.lookup(operand))));
        return;
      }
    if (llvm::isa<nn::MaxRowsOp>(op)) {
      result.setType(
          type.clone(shapeOf(mapping.lookup(op->getOperand(0))).drop_front()));
      return;
    }
    auto parameters = static_cast<int64_t>(bucket.parameters.size());
    if (type.getRank() == 2)
      result.setType(type.clone({type.getDimSize(0), parameters}));
    else
      result.setType(type.clone({parameters}));
  }

  bool isOfBucket(mlir::Operation *op) {
    if (oldReads.contains(op))
      return true;
    return llvm::any_of(op->getOperands(), [&](mlir::Value operand) {
      mlir::Operation *maker = operand.getDefiningOp();
      return mapping.contains(operand) ? mapping.lookup(operand) != operand
                                       : maker && isOfBucket(maker);
    });
  }

  mlir::OpBuilder &builder;
  ParameterBucket &bucket;
  const llvm::DenseSet<mlir::Operation *> &oldReads;
  std::function<mlir::Value(nn::GetOp)> read;
  mlir::IRMapping mapping;
};

} // namespace heddle::shard

#endif // HEDDLE_LIB_TRANSFORMS_SHARD_BUCKETCOPIER_H
