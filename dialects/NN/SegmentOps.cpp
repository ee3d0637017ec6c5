//===- SegmentOps.cpp - Operations on members of buckets ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of NNSegmentOps.td: verifiers, sharding and `localize`.
//
//===----------------------------------------------------------------------===//

#include "BucketMembers.h"
#include "VerifyShape.h"
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

SmallVector<int64_t> heddle::nn::segmentCountsOf(Operation *op) {
  auto maxima = cast<SegmentMaximaOp>(op);
  return maxima.getCounts() ? llvm::to_vector(*maxima.getCounts())
                            : elementsOfMembers(maxima);
}

/// Sets the operand `first` to the index, in the whole bucket, of the first
/// element of the rank's shard.
template <typename OpT>
static void nameFirst(OpT op, const dist::Split &split) {
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

/// Replaces the operation's reference to a bucket by the sizes of the bucket's
/// segments, and sets the operand `first`.
template <typename OpT>
static void localizeSegments(OpT op, const dist::Split &split) {
  op.setSegments(sizesOf(op));
  op.removeBucketAttr();
  nameFirst(op, split);
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

LogicalResult SegmentMaximaOp::verify() {
  if (getBucket().has_value() == getCounts().has_value())
    return emitOpError("needs a bucket, or the counts of elements");
  RankedTensorType input = tensorOf(getInput()), output = tensorOf(getOutput());
  if (input.getRank() != 1 || output.getRank() != 2)
    return emitOpError("gives ") << output << " for " << input;
  int64_t ranges = output.getDimSize(0);
  if (ranges < 1 || input.getNumElements() % ranges != 0 ||
      input.getNumElements() / ranges % paddedElements(1) != 0)
    return emitOpError("has ") << ranges << " ranges, which do not divide "
                               << input << " at multiples of 64 elements";
  if (!getCounts())
    return success();
  ArrayRef<int64_t> counts = *getCounts();
  if (counts.empty())
    return emitOpError("has no segment");
  // So that kernels can count units of 64 elements in 32 bits.
  constexpr int64_t mostElements = int64_t(1) << 36;
  int64_t elements = 0;
  for (int64_t count : counts) {
    if (count < 1)
      return emitOpError("has a segment without elements");
    if (count > mostElements - elements)
      return emitOpError("has more than ") << mostElements << " elements";
    elements += paddedElements(count);
  }
  if (!getFirst() && elements > input.getNumElements())
    return emitOpError("has segments of ")
           << elements << " elements in " << input;
  return verifyShape(*this, getOutput(),
                     {ranges, static_cast<int64_t>(counts.size())}, "output");
}
LogicalResult SegmentMaximaOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(verifyBucketUse(*this)))
    return failure();
  if (!bucketOf(*this))
    return success();
  return verifyShape(
      *this, getOutput(),
      {tensorOf(getOutput()).getDimSize(0),
       static_cast<int64_t>(bucketOf(*this).getMembers().size())},
      "output");
}

LogicalResult MaxRowsOp::verify() {
  RankedTensorType input = tensorOf(getInput());
  if (input.getRank() != 2 || input.getDimSize(0) < 1)
    return emitOpError("takes ") << input << ", which has no rows";
  return verifyShape(*this, getOutput(), {input.getDimSize(1)}, "output");
}

/// Verifies that a flat tensor has at least `numbers` units of 64 elements.
static LogicalResult verifyNumbers(Operation *op, Value flat, Value numbers) {
  RankedTensorType type = tensorOf(flat), few = tensorOf(numbers);
  if (type.getRank() == 1 && few.getRank() == 1 &&
      type.getDimSize(0) / paddedElements(1) >= few.getDimSize(0))
    return success();
  return op->emitOpError("has numbers of type ")
         << few << " in a bucket of type " << type;
}

LogicalResult ReadNumbersOp::verify() {
  return verifyNumbers(*this, getInput(), getOutput());
}
LogicalResult WriteNumbersOp::verify() {
  if (getBefore().getType() != getOutput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getBefore().getType();
  if (failed(verifyShape(*this, getCondition(), {}, "condition")))
    return failure();
  return verifyNumbers(*this, getOutput(), getNumbers());
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral isOptimizer = "the optimizer's";

StringRef SegmentSumsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef ScaleSegmentsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef SegmentMaximaOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef MaxRowsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef ReadNumbersOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef WriteNumbersOp::getNotDifferentiableReason() { return isOptimizer; }

double SegmentSumsOp::getFlops() {
  return 2 * static_cast<double>(tensorOf(getInput()).getNumElements());
}
double ScaleSegmentsOp::getFlops() {
  return static_cast<double>(tensorOf(getInput()).getNumElements());
}

double SegmentMaximaOp::getFlops() {
  return static_cast<double>(tensorOf(getInput()).getNumElements());
}
double MaxRowsOp::getFlops() {
  return static_cast<double>(tensorOf(getInput()).getNumElements());
}
double ReadNumbersOp::getFlops() { return 0; }
double WriteNumbersOp::getFlops() { return 0; }

// The results are partial sums: a rank sums only the elements of a segment that
// are in its shard.
dist::ShardingRule SegmentSumsOp::getShardingRule() {
  return dist::buildRule(*this, {"n"}, {"m"}, "m");
}
dist::ShardingRule ScaleSegmentsOp::getShardingRule() {
  return dist::buildRule(*this, {"n", "m"}, {"n"}, "m");
}

dist::ShardingRule SegmentMaximaOp::getShardingRule() {
  return ruleOfRanges(*this);
}
dist::ShardingRule MaxRowsOp::getShardingRule() {
  return dist::buildRule(*this, {"rm"}, {"m"}, "rm");
}
dist::ShardingRule ReadNumbersOp::getShardingRule() {
  return dist::buildRule(*this, {"n"}, {"m"}, "nm");
}
dist::ShardingRule WriteNumbersOp::getShardingRule() {
  return dist::buildRule(*this, {"m", "n", ""}, {"n"}, "nm");
}

void SegmentMaximaOp::localize(const dist::Split &split) {
  setCounts(segmentCountsOf(getOperation()));
  removeBucketAttr();
  nameFirst(*this, split);
}
void SegmentSumsOp::localize(const dist::Split &split) {
  localizeSegments(*this, split);
}
void ScaleSegmentsOp::localize(const dist::Split &split) {
  localizeSegments(*this, split);
  getOutput().setType(tensorOf(getInput()));
}

SmallVector<Tie> WriteNumbersOp::getTies() {
  return {{getOutput(), getBefore(), Tie::Worth::OfState}};
}
SmallVector<Tie> ScaleSegmentsOp::getTies() {
  return {{getOutput(), getInput(), Tie::Worth::OfComputed}};
}
