//===- SegmentOps.cpp - Operations on members of buckets ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn.segment_sums and nn.scale_segments: verifiers, sharding and `localize`.
//
//===----------------------------------------------------------------------===//

#include "BucketMembers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

template <typename OpT> static SmallVector<int64_t> sizesOf(OpT op) {
  if (op.getSegments())
    return llvm::to_vector(*op.getSegments());
  SmallVector<int64_t> sizes = elementsOfMembers(op);
  for (int64_t &size : sizes)
    size = paddedElements(size);
  return sizes;
}

SmallVector<int64_t> heddle::nn::segmentsOf(Operation *op) {
  if (auto sums = dyn_cast<SegmentSumsOp>(op))
    return sizesOf(sums);
  return sizesOf(cast<ScaleSegmentsOp>(op));
}

/// Replaces the operation's reference to a bucket by the sizes of the bucket's
/// segments. Sets the operand `first` to the index, in the whole bucket, of the
/// first element of the rank's shard.
template <typename OpT>
static void localizeSegments(OpT op, const dist::Split &split) {
  op.setSegments(sizesOf(op));
  op.removeBucketAttr();
  OpBuilder builder(op);
  SmallVector<Attribute> axes;
  for (Attribute axis : split.axes[split.rule.operands[0][0]])
    if (dist::holdsReplicas(axis))
      axes.push_back(axis);
  if (axes.empty())
    return;
  Location loc = op.getLoc();
  Value rank = builder.create<dist::RankOp>(loc, builder.getIndexType(),
                                            builder.getArrayAttr(axes));
  Value length = builder.create<arith::ConstantIndexOp>(
      loc, tensorOf(op.getInput()).getNumElements());
  op.getFirstMutable().assign(
      builder.create<arith::MulIOp>(loc, rank, length).getResult());
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

template <typename OpT> static LogicalResult verifySegments(OpT op) {
  if (op.getBucket().has_value() == op.getSegments().has_value())
    return op.emitOpError("needs a bucket, or the sizes of segments");
  if (tensorOf(op.getInput()).getRank() != 1)
    return op.emitOpError("needs a flat tensor, got ")
           << op.getInput().getType();
  if (!op.getSegments())
    return success();
  int64_t elements = 0;
  for (int64_t size : sizesOf(op)) {
    if (size <= 0 || size != paddedElements(size))
      return op.emitOpError("has a segment of ")
             << size << " elements, which is no multiple of 64";
    elements += size;
  }
  int64_t length = tensorOf(op.getInput()).getNumElements();
  if (length != paddedElements(length) || (!op.getFirst() && elements > length))
    return op.emitOpError("has segments of ")
           << elements << " elements in " << op.getInput().getType();
  return success();
}

template <typename OpT>
static LogicalResult verifyCount(OpT op, Value perSegment) {
  int64_t count = op.getSegments() ? op.getSegments()->size()
                  : bucketOf(op)   ? bucketOf(op).getMembers().size()
                                   : 0;
  RankedTensorType type = tensorOf(perSegment);
  if (type.getRank() == 1 && (count == 0 || type.getDimSize(0) == count))
    return success();
  return op.emitOpError("has ")
         << count << " segments, and numbers of type " << type << " for them";
}

LogicalResult SegmentSumsOp::verify() {
  return success(succeeded(verifySegments(*this)) &&
                 succeeded(verifyCount(*this, getOutput())));
}
LogicalResult SegmentSumsOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyBucketUse(*this);
}

LogicalResult ScaleSegmentsOp::verify() {
  if (getOutput().getType() != getInput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getInput().getType();
  return success(succeeded(verifySegments(*this)) &&
                 succeeded(verifyCount(*this, getFactors())));
}
LogicalResult ScaleSegmentsOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyBucketUse(*this);
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral isOptimizer = "the optimizer's";

StringRef SegmentSumsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef ScaleSegmentsOp::getNotDifferentiableReason() { return isOptimizer; }

double SegmentSumsOp::getFlops() {
  return 2 * static_cast<double>(tensorOf(getInput()).getNumElements());
}
double ScaleSegmentsOp::getFlops() {
  return static_cast<double>(tensorOf(getInput()).getNumElements());
}

// The results are partial sums: a rank sums only the elements of a segment that
// are in its shard.
dist::ShardingRule SegmentSumsOp::getShardingRule() {
  return dist::buildRule(*this, {"n"}, {"m"}, "m");
}
dist::ShardingRule ScaleSegmentsOp::getShardingRule() {
  return dist::buildRule(*this, {"n", "m"}, {"n"}, "m");
}

void SegmentSumsOp::localize(const dist::Split &split) {
  localizeSegments(*this, split);
}
void ScaleSegmentsOp::localize(const dist::Split &split) {
  localizeSegments(*this, split);
  getOutput().setType(tensorOf(getInput()));
}

SmallVector<Tie> ScaleSegmentsOp::getTies() {
  return {{getOutput(), getInput(), Tie::Worth::OfComputed}};
}
