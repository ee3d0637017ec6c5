//===- BucketMembers.h - The bucket that an operation names -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For operations with an attribute `bucket`, which names a bucket of the model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_BUCKETMEMBERS_H
#define HEDDLE_DIALECTS_NN_BUCKETMEMBERS_H

#include "dialects/NN/NNDialect.h"

namespace heddle::nn {

/// The bucket that the operation names. Null if it names none, or one that the
/// model does not have.
template <typename OpT> BucketOp bucketOf(OpT op) {
  auto model = op->template getParentOfType<ModelOp>();
  return model && op.getBucketAttr()
             ? llvm::dyn_cast_or_null<BucketOp>(
                   mlir::SymbolTable::lookupSymbolIn(model, op.getBucketAttr()))
             : BucketOp();
}

/// The number of elements of each member of the bucket that the operation
/// names, without padding.
template <typename OpT> llvm::SmallVector<int64_t> elementsOfMembers(OpT op) {
  llvm::SmallVector<int64_t> elements;
  BucketOp bucket = bucketOf(op);
  for (auto member :
       bucket.getMembers().template getAsRange<mlir::FlatSymbolRefAttr>()) {
    auto state = llvm::cast<StateOp>(
        mlir::SymbolTable::lookupSymbolIn(bucket->getParentOp(), member));
    elements.push_back(state.getTensorType().getNumElements());
  }
  return elements;
}

/// Checks that the model has the bucket that the operation names.
template <typename OpT> mlir::LogicalResult verifyBucketUse(OpT op) {
  if (!op.getBucket() || !op->template getParentOfType<ModelOp>())
    return mlir::success();
  if (!bucketOf(op))
    return op.emitOpError("refers to unknown bucket ") << op.getBucketAttr();
  return mlir::success();
}

/// The sharding rule of maxima of ranges of a flat tensor: the result is
/// [ranges, numbers]. Ranks that split the flat tensor have the maxima of
/// different ranges.
template <typename OpT> dist::ShardingRule ruleOfRanges(OpT op) {
  dist::ShardingRule rule = dist::buildRule(op, {"r"}, {"rm"}, "m");
  dist::Factor &ranges = rule.factors[rule.indexOf("r")];
  ranges.size = tensorOf(op.getOutput()).getDimSize(0);
  ranges.units = "ranges";
  return rule;
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_BUCKETMEMBERS_H
