//===- SignOps.cpp - Averages in one bit for each element -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of NNSignOps.td: verifiers, costs and sharding.
//
//===----------------------------------------------------------------------===//

#include "BucketMembers.h"
#include "Scalars.h"
#include "SignLayout.h"
#include "VerifyShape.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

int64_t SignLayout::Tensor::countIn(int64_t number) const {
  return std::clamp<int64_t>(count - number * chunk, 0, chunk);
}

SignLayout::SignLayout(ArrayRef<int64_t> counts, int64_t parts)
    : parts(parts), elements(0) {
  int64_t begin = 0;
  for (int64_t count : counts) {
    int64_t slot = paddedElements(count);
    int64_t chunk = llvm::divideCeil(count, unit * parts) * unit;
    tensors.push_back({count, slot, begin, chunk, elements});
    begin += slot;
    elements += chunk;
  }
}

SmallVector<int64_t> SignLayout::counts() const {
  return llvm::map_to_vector(tensors, [](const Tensor &t) { return t.count; });
}

static SmallVector<int64_t> countsOf(SignScalesOp op) {
  return op.getCounts() ? llvm::to_vector(*op.getCounts())
                        : elementsOfMembers(op);
}
template <typename OpT> static ArrayRef<int64_t> countsOf(OpT op) {
  return op.getCounts();
}

template <typename OpT> static SignLayout layoutOf(OpT op) {
  return SignLayout(countsOf(op), op.getParts());
}

SignLayout heddle::nn::signLayoutOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, SignLayout>(op)
      .Case<SignScalesOp, JoinScalesOp, PackSignsOp, MeanSignsOp,
            UnpackSignsOp>([](auto op) { return layoutOf(op); });
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static int64_t dim(Value value, int64_t number) {
  return tensorOf(value).getDimSize(number);
}

/// Verifies that the optional `factors` has a number for each of `tensors`
/// tensors.
static LogicalResult verifyFactors(Operation *op, Value factors,
                                   size_t tensors) {
  return factors ? verifyShape(op, factors, {static_cast<int64_t>(tensors)},
                               "factors")
                 : success();
}

LogicalResult AverageOp::verify() {
  RankedTensorType type = tensorOf(getState());
  auto isAlike = [&](Value value) {
    return tensorOf(value).getShape() == type.getShape();
  };
  if (getOutput().getType() != type || !isAlike(getGradient()))
    return emitOpError("gives ") << getOutput().getType() << " for " << type
                                 << " and " << getGradient().getType();
  for (Value input : getInputs())
    if (tensorOf(input).getRank() > 0 && !isAlike(input))
      return emitOpError("has an input of type ") << input.getType();
  if (failed(verifyShape(*this, getCondition(), {}, "condition")) ||
      (getKeep() && failed(verifyShape(*this, getKeep(), {}, "keep"))))
    return failure();
  constexpr StringLiteral wires[] = {"sign1", "mean", "f32", "local"};
  if (!llvm::is_contained(wires, getWire()))
    return emitOpError("has the unknown wire format ") << getWireAttr();
  if (getJoint() && getWire() != "sign1")
    return emitOpError("is joint, and its wire format has no scales");
  if (getFactors() && !getJoint())
    return emitOpError("has factors, and is not joint");
  if (getWire() == "sign1" && !getBucket())
    return emitOpError("names no bucket");
  if (getFactors() && tensorOf(getFactors()).getRank() != 1)
    return emitOpError("has factors of type ") << getFactors().getType();
  return success();
}

void AverageOp::sendNothing() {
  setWire("f32");
  setJoint(false);
  removeBucketAttr();
  Value unread[] = {getKeep(), getFactors()};
  getKeepMutable().clear();
  getFactorsMutable().clear();
  for (Value value : unread)
    if (Operation *maker = value ? value.getDefiningOp() : nullptr;
        maker && maker->use_empty())
      maker->erase();
}

LogicalResult AverageOp::verifyRegions() {
  return verifyScalarBody(*this, getBody().front(), 2 + getInputs().size(),
                          /*numResults=*/1);
}

LogicalResult AverageOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(verifyBucketUse(*this)))
    return failure();
  if (!bucketOf(*this))
    return success();
  return verifyFactors(*this, getFactors(),
                       bucketOf(*this).getMembers().size());
}

/// Emits an error if tensors of `counts` elements, cut in `parts` parts, have
/// no layout.
static LogicalResult verifyCounts(Operation *op, ArrayRef<int64_t> counts,
                                  int64_t parts) {
  // So that products and sums of them fit an index.
  constexpr int64_t mostParts = int64_t(1) << 20;
  constexpr int64_t mostElements = int64_t(1) << 42;
  if (parts < 1 || parts > mostParts)
    return op->emitOpError("has ")
           << parts << " parts; it needs 1 to " << mostParts;
  if (counts.empty())
    return op->emitOpError("has no tensor");
  int64_t elements = 0;
  for (int64_t count : counts) {
    if (count < 1)
      return op->emitOpError("has a tensor without elements");
    if (count > mostElements - elements)
      return op->emitOpError("has more than ") << mostElements << " elements";
    elements += count;
  }
  return success();
}

/// Verifies that the flat tensor `input` has `rows` rows: the flat tensors of
/// buckets, or chunks.
static LogicalResult verifyRows(Operation *op, const SignLayout &layout,
                                Value input, int64_t rows, bool isChunked) {
  if (rows < 1 || layout.tensors.empty())
    return op->emitOpError("has no rows, or no tensor");
  const SignLayout::Tensor &last = layout.tensors.back();
  int64_t elements = tensorOf(input).getNumElements();
  int64_t row = isChunked ? layout.elements : last.begin + last.slot;
  bool fits = isChunked ? elements == rows * row
                        : elements % rows == 0 && elements / rows >= row;
  if (tensorOf(input).getRank() == 1 && fits)
    return success();
  return op->emitOpError("has ") << rows << " rows of " << row
                                 << " elements, and takes " << input.getType();
}

/// Verifies that `scales` has a scale for each tensor in each of `rows` rows,
/// or if it is `mayBeJoint`, one for all tensors of a row.
static LogicalResult verifyScales(Operation *op, const SignLayout &layout,
                                  Value scales, int64_t rows,
                                  bool mayBeJoint = true) {
  auto tensors = static_cast<int64_t>(layout.tensors.size());
  if (mayBeJoint && tensorOf(scales).getRank() == 2 && dim(scales, 1) == 1)
    tensors = 1;
  return verifyShape(op, scales, {rows, tensors}, "scales");
}

static LogicalResult verifyTensors(SignScalesOp op) {
  SmallVector<int64_t> counts = countsOf(op);
  if (failed(verifyCounts(op, counts, op.getParts())))
    return failure();
  SignLayout layout(counts, op.getParts());
  int64_t rows = dim(op.getScales(), 0);
  if (failed(verifyScales(op, layout, op.getScales(), rows,
                          /*mayBeJoint=*/false)))
    return failure();
  return verifyRows(op, layout, op.getInput(), rows, op.getChunked());
}

LogicalResult SignScalesOp::verify() {
  if (getBucket().has_value() == getCounts().has_value())
    return emitOpError("needs a bucket, or the counts of elements");
  if (failed(verifyShape(*this, getCondition(), {}, "condition")))
    return failure();
  if (tensorOf(getScales()).getRank() != 2)
    return emitOpError("gives ") << getScales().getType();
  return getCounts() ? verifyTensors(*this) : success();
}

LogicalResult SignScalesOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(verifyBucketUse(*this)))
    return failure();
  return bucketOf(*this) ? verifyTensors(*this) : success();
}

LogicalResult JoinScalesOp::verify() {
  if (failed(verifyCounts(*this, getCounts(), getParts())))
    return failure();
  if (tensorOf(getScales()).getRank() != 2 || dim(getScales(), 0) < 1)
    return emitOpError("takes ") << getScales().getType();
  int64_t rows = dim(getScales(), 0);
  for (Value result : getResults())
    if (failed(verifyShape(*this, result, {rows, 1}, "a result")))
      return failure();
  return verifyScales(*this, layoutOf(*this), getScales(), rows,
                      /*mayBeJoint=*/false);
}

LogicalResult PackSignsOp::verify() {
  if (failed(verifyCounts(*this, getCounts(), getParts())))
    return failure();
  if (getError().getType() != getInput().getType())
    return emitOpError("gives ")
           << getError().getType() << " for " << getInput().getType();
  if (tensorOf(getWords()).getRank() != 3)
    return emitOpError("gives ") << getWords().getType();
  SignLayout layout = layoutOf(*this);
  int64_t rows = dim(getWords(), 0), chunks = getChunked() ? 1 : layout.parts;
  if (failed(verifyShape(*this, getWords(), {rows, chunks, layout.words()},
                         "words")) ||
      failed(verifyScales(*this, layout, getScales(), rows)))
    return failure();
  return verifyRows(*this, layout, getInput(), rows, getChunked());
}

LogicalResult MeanSignsOp::verify() {
  if (failed(verifyCounts(*this, getCounts(), getParts())))
    return failure();
  if (getError().getType() != getOutput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getError().getType();
  if (tensorOf(getWords()).getRank() != 3)
    return emitOpError("takes ") << getWords().getType();
  SignLayout layout = layoutOf(*this);
  int64_t rows = dim(getWords(), 1);
  if (failed(verifyShape(*this, getWords(),
                         {layout.parts, rows, layout.words()}, "words")) ||
      failed(verifyScales(*this, layout, getScales(), layout.parts)))
    return failure();
  return verifyRows(*this, layout, getError(), rows, /*isChunked=*/true);
}

LogicalResult UnpackSignsOp::verify() {
  if (failed(verifyCounts(*this, getCounts(), getParts())))
    return failure();
  if (getBefore().getType() != getOutput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getBefore().getType();
  SignLayout layout = layoutOf(*this);
  if (failed(verifyShape(*this, getWords(), {layout.parts, 1, layout.words()},
                         "words")) ||
      failed(verifyScales(*this, layout, getScales(), layout.parts)) ||
      failed(verifyFactors(*this, getFactors(), layout.tensors.size())))
    return failure();
  return verifyRows(*this, layout, getOutput(), 1, /*isChunked=*/false);
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral isOptimizer = "the optimizer's";

StringRef AverageOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef SignScalesOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef JoinScalesOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef PackSignsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef MeanSignsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef UnpackSignsOp::getNotDifferentiableReason() { return isOptimizer; }

static double elementsOf(Value value) {
  return static_cast<double>(tensorOf(value).getNumElements());
}
double AverageOp::getFlops() {
  return flopsOf(getBody().front()) * elementsOf(getOutput());
}
double SignScalesOp::getFlops() { return 2 * elementsOf(getInput()); }
double JoinScalesOp::getFlops() { return 3 * elementsOf(getScales()); }
double PackSignsOp::getFlops() { return elementsOf(getInput()); }
double MeanSignsOp::getFlops() {
  return static_cast<double>(getParts() + 1) * elementsOf(getOutput());
}
double UnpackSignsOp::getFlops() { return elementsOf(getOutput()); }

dist::ShardingRule AverageOp::getShardingRule() {
  SmallVector<std::string> operands;
  for (Value operand : getOperands())
    operands.push_back(operand == getFactors()           ? "m"
                       : tensorOf(operand).getRank() > 0 ? "n"
                                                         : "");
  return dist::buildRule(*this, operands, {"n"}, "m");
}

// No rank has a part of the others' tensors.
dist::ShardingRule SignScalesOp::getShardingRule() {
  return dist::buildRule(*this, {"n", ""}, {"rm"}, "nrm");
}
dist::ShardingRule JoinScalesOp::getShardingRule() {
  return dist::buildRule(*this, {"rm"}, {"rk", "rk"}, "rmk");
}
dist::ShardingRule PackSignsOp::getShardingRule() {
  return dist::buildRule(*this, {"n", "rm"}, {"rsw", "n"}, "nrmsw");
}
dist::ShardingRule MeanSignsOp::getShardingRule() {
  return dist::buildRule(*this, {"srw", "sm", "n"}, {"n"}, "srwmn");
}
dist::ShardingRule UnpackSignsOp::getShardingRule() {
  return dist::buildRule(*this, {"srw", "sm", "n", "", "f"}, {"n"}, "srwmnf");
}

void SignScalesOp::localize(const dist::Split &) {
  setCounts(countsOf(*this));
  removeBucketAttr();
}

SmallVector<Tie> AverageOp::getTies() {
  return {{getOutput(), getState(), Tie::Worth::OfState}};
}
SmallVector<Tie> SignScalesOp::getTies() { return {}; }
SmallVector<Tie> JoinScalesOp::getTies() { return {}; }
SmallVector<Tie> PackSignsOp::getTies() {
  return {{getError(), getInput(), Tie::Worth::OfComputed}};
}
SmallVector<Tie> MeanSignsOp::getTies() {
  return {{getOutput(), getError(), Tie::Worth::Always}};
}
SmallVector<Tie> UnpackSignsOp::getTies() {
  // Where the mean is no state, zeros are overwritten.
  return {{getOutput(), getBefore(), Tie::Worth::Always}};
}
