//===- SignOps.cpp - Averages in one bit for each element -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of NNSignOps.td: verifiers, sharding and `localize`.
//
//===----------------------------------------------------------------------===//

#include "BucketMembers.h"
#include "SignLayout.h"
#include "VerifyShape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
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

template <typename OpT> static SmallVector<int64_t> countsOf(OpT op) {
  return op.getCounts() ? llvm::to_vector(*op.getCounts())
                        : elementsOfMembers(op);
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
  if (getInput().getType() != getOutput().getType() ||
      getBefore().getType() != getOutput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getInput().getType();
  if (failed(verifyShape(*this, getCondition(), {}, "condition")) ||
      (getKeep() && failed(verifyShape(*this, getKeep(), {}, "keep"))))
    return failure();
  if (getWire() != "sign1" && getWire() != "f32")
    return emitOpError("has the unknown wire format ") << getWireAttr();
  if (getJoint() && getWire() != "sign1")
    return emitOpError("is joint, and its wire format has no scales");
  if (getFactors() && !getJoint())
    return emitOpError("has factors, and is not joint");
  if (bool(getFactors()) != getBucket().has_value())
    return emitOpError("needs a bucket with factors, and none without");
  if (getFactors() && tensorOf(getFactors()).getRank() != 1)
    return emitOpError("has factors of type ") << getFactors().getType();
  return success();
}

LogicalResult AverageOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(verifyBucketUse(*this)))
    return failure();
  if (!bucketOf(*this))
    return success();
  return verifyFactors(*this, getFactors(),
                       bucketOf(*this).getMembers().size());
}

/// Whether the operation has what its layout depends on. Emits an error if it
/// has it twice, or not at all.
template <typename OpT> static LogicalResult verifyParts(OpT op) {
  if (op.getBucket().has_value() == op.getCounts().has_value())
    return op.emitOpError("needs a bucket, or the counts of elements");
  // So that products and sums of them fit an index.
  constexpr int64_t mostParts = int64_t(1) << 20;
  constexpr int64_t mostElements = int64_t(1) << 42;
  auto parts = static_cast<int64_t>(op.getParts());
  if (parts < 1 || parts > mostParts)
    return op.emitOpError("has ")
           << parts << " parts; it needs 1 to " << mostParts;
  if (!op.getCounts())
    return success();
  if (op.getCounts()->empty())
    return op.emitOpError("has no tensor");
  int64_t elements = 0;
  for (int64_t count : *op.getCounts()) {
    if (count < 1)
      return op.emitOpError("has a tensor without elements");
    if (count > mostElements - elements)
      return op.emitOpError("has more than ") << mostElements << " elements";
    elements += count;
  }
  return success();
}

template <typename OpT> static bool knowsLayout(OpT op) {
  return op.getCounts() || bucketOf(op);
}

/// Checks the bucket that an operation names, and what depends on its members.
template <typename OpT> static LogicalResult verifyMembers(OpT op) {
  return success(succeeded(verifyBucketUse(op)) && succeeded(op.verify()));
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

LogicalResult SignScalesOp::verify() {
  if (failed(verifyParts(*this)))
    return failure();
  if (failed(verifyShape(*this, getCondition(), {}, "condition")))
    return failure();
  if (tensorOf(getScales()).getRank() != 2)
    return emitOpError("gives ") << getScales().getType();
  if (!knowsLayout(*this))
    return success();
  SignLayout layout = layoutOf(*this);
  int64_t rows = dim(getScales(), 0);
  if (failed(verifyScales(*this, layout, getScales(), rows,
                          /*mayBeJoint=*/false)))
    return failure();
  return verifyRows(*this, layout, getInput(), rows, getChunked());
}

LogicalResult JoinScalesOp::verify() {
  if (failed(verifyParts(*this)))
    return failure();
  if (tensorOf(getScales()).getRank() != 2 || dim(getScales(), 0) < 1)
    return emitOpError("takes ") << getScales().getType();
  int64_t rows = dim(getScales(), 0);
  for (Value result : getResults())
    if (failed(verifyShape(*this, result, {rows, 1}, "a result")))
      return failure();
  return knowsLayout(*this) ? verifyScales(*this, layoutOf(*this), getScales(),
                                           rows, /*mayBeJoint=*/false)
                            : success();
}

LogicalResult PackSignsOp::verify() {
  if (failed(verifyParts(*this)))
    return failure();
  if (getError().getType() != getInput().getType())
    return emitOpError("gives ")
           << getError().getType() << " for " << getInput().getType();
  if (tensorOf(getWords()).getRank() != 3)
    return emitOpError("gives ") << getWords().getType();
  if (!knowsLayout(*this))
    return success();
  SignLayout layout = layoutOf(*this);
  int64_t rows = dim(getWords(), 0), chunks = getChunked() ? 1 : layout.parts;
  if (failed(verifyShape(*this, getWords(), {rows, chunks, layout.words()},
                         "words")) ||
      failed(verifyScales(*this, layout, getScales(), rows)))
    return failure();
  return verifyRows(*this, layout, getInput(), rows, getChunked());
}

LogicalResult MeanSignsOp::verify() {
  if (failed(verifyParts(*this)))
    return failure();
  if (getError().getType() != getOutput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getError().getType();
  if (tensorOf(getWords()).getRank() != 3)
    return emitOpError("takes ") << getWords().getType();
  if (!knowsLayout(*this))
    return success();
  SignLayout layout = layoutOf(*this);
  int64_t rows = dim(getWords(), 1);
  if (failed(verifyShape(*this, getWords(),
                         {layout.parts, rows, layout.words()}, "words")) ||
      failed(verifyScales(*this, layout, getScales(), layout.parts)))
    return failure();
  return verifyRows(*this, layout, getError(), rows, /*isChunked=*/true);
}

LogicalResult UnpackSignsOp::verify() {
  if (failed(verifyParts(*this)))
    return failure();
  if (getBefore().getType() != getOutput().getType())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getBefore().getType();
  if (!knowsLayout(*this))
    return success();
  SignLayout layout = layoutOf(*this);
  if (failed(verifyShape(*this, getWords(), {layout.parts, 1, layout.words()},
                         "words")) ||
      failed(verifyScales(*this, layout, getScales(), layout.parts)) ||
      failed(verifyFactors(*this, getFactors(), layout.tensors.size())))
    return failure();
  return verifyRows(*this, layout, getOutput(), 1, /*isChunked=*/false);
}

LogicalResult SignScalesOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMembers(*this);
}
LogicalResult JoinScalesOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMembers(*this);
}
LogicalResult PackSignsOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMembers(*this);
}
LogicalResult MeanSignsOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMembers(*this);
}
LogicalResult UnpackSignsOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyMembers(*this);
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
double AverageOp::getFlops() { return 0; }
double SignScalesOp::getFlops() { return 2 * elementsOf(getInput()); }
double JoinScalesOp::getFlops() { return 3 * elementsOf(getScales()); }
double PackSignsOp::getFlops() { return elementsOf(getInput()); }
double MeanSignsOp::getFlops() {
  return static_cast<double>(getParts() + 1) * elementsOf(getOutput());
}
double UnpackSignsOp::getFlops() { return elementsOf(getOutput()); }

/// The rule, of which the factor "r" counts rows. The replicas split them.
static dist::ShardingRule withRows(dist::ShardingRule rule, int64_t rows) {
  dist::Factor &factor = rule.factors[rule.indexOf("r")];
  factor.size = rows;
  factor.units = "replicas";
  return rule;
}

dist::ShardingRule AverageOp::getShardingRule() {
  return dist::buildRule(*this, {"n", "n", "", getKeep() ? "" : "m", "m"},
                         {"n"}, "m");
}
dist::ShardingRule SignScalesOp::getShardingRule() {
  return withRows(dist::buildRule(*this, {"r", ""}, {"rm"}, "m"),
                  dim(getScales(), 0));
}
dist::ShardingRule JoinScalesOp::getShardingRule() {
  return withRows(dist::buildRule(*this, {"rm"}, {"rk", "rk"}, "mk"),
                  dim(getScales(), 0));
}
dist::ShardingRule PackSignsOp::getShardingRule() {
  return withRows(dist::buildRule(*this, {"r", "rm"}, {"rsw", "r"}, "msw"),
                  dim(getWords(), 0));
}
dist::ShardingRule MeanSignsOp::getShardingRule() {
  return withRows(dist::buildRule(*this, {"srw", "sm", "r"}, {"r"}, "smw"),
                  dim(getWords(), 1));
}
dist::ShardingRule UnpackSignsOp::getShardingRule() {
  return dist::buildRule(*this, {"srw", "sm", "n", "", "f"}, {"n"}, "srwmnf");
}

/// Replaces the operation's reference to a bucket by the counts of its tensors.
template <typename OpT> static void nameCounts(OpT op) {
  op.setCounts(countsOf(op));
  op.removeBucketAttr();
}

/// Sets the operand `first` to the index of the rank's first row, of `rows`
/// rows.
template <typename OpT>
static void nameFirst(OpT op, const dist::Split &split, int64_t rows) {
  int64_t factor = split.rule.indexOf("r");
  if (split.axes[factor].empty())
    return;
  OpBuilder builder(op);
  Value rank = builder.create<dist::RankOp>(op.getLoc(), builder.getIndexType(),
                                            split.axes[factor]);
  Value count = builder.create<arith::ConstantIndexOp>(op.getLoc(), rows);
  op.getFirstMutable().assign(
      builder.create<arith::MulIOp>(op.getLoc(), rank, count).getResult());
}

void SignScalesOp::localize(const dist::Split &split) {
  nameCounts(*this);
  if (getChunked())
    nameFirst(*this, split, dim(getScales(), 0));
}
void JoinScalesOp::localize(const dist::Split &split) {
  nameCounts(*this);
  if (getChunked())
    nameFirst(*this, split, dim(getScales(), 0));
}
void PackSignsOp::localize(const dist::Split &split) {
  nameCounts(*this);
  if (getChunked())
    nameFirst(*this, split, dim(getWords(), 0));
  getError().setType(tensorOf(getInput()));
}
void MeanSignsOp::localize(const dist::Split &split) {
  nameCounts(*this);
  nameFirst(*this, split, dim(getWords(), 1));
  getOutput().setType(tensorOf(getError()));
}
void UnpackSignsOp::localize(const dist::Split &) {
  nameCounts(*this);
  getOutput().setType(tensorOf(getBefore()));
}

SmallVector<Tie> AverageOp::getTies() {
  return {{getOutput(), getBefore(), Tie::Worth::OfState}};
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
