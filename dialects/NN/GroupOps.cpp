//===- GroupOps.cpp - Weights that are quantized in training --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of NNGroupOps.td: verifiers, sharding and `localize`.
//
//===----------------------------------------------------------------------===//

#include "BucketMembers.h"
#include "GroupLayout.h"
#include "VerifyShape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

plan::Quantizer QuantizerAttr::toPlan() const {
  return {getGroup().str(), getGroups(), getOutputsLast(), getAsymmetric()};
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

/// How many numbers describe a tensor.
static constexpr int64_t perTensor = 7;

GroupLayout GroupLayout::of(ArrayRef<int64_t> numbers) {
  GroupLayout layout;
  for (; !numbers.empty(); numbers = numbers.drop_front(perTensor)) {
    Tensor tensor{
        layout.elements, numbers[0],    numbers[1],
        numbers[2],      layout.groups, numbers[3] != 0,
        numbers[4],      numbers[5],    static_cast<Split>(numbers[6])};
    layout.groups += tensor.groups;
    layout.elements += paddedElements(tensor.count());
    layout.tensors.push_back(tensor);
  }
  return layout;
}

GroupLayout::Runs GroupLayout::runsOf(const Tensor &tensor) {
  bool isWhole = tensor.split == None;
  if (isWhole ? tensor.groups == 1 || !tensor.outputsLast
              : tensor.groups == 1 && !tensor.isPadded()) {
    int64_t count = tensor.count();
    // The only group of a part has all of its elements.
    return {1, count, 0, isWhole ? 1 : tensor.groupSize() / count,
            0, 0,     1, count};
  }
  Runs runs = {tensor.rows,      tensor.columns,     1, 0, 0, 0,
               tensor.wholeRows, tensor.wholeColumns};
  runs.rowElements = tensor.outputsLast ? 1 : tensor.wholeColumns;
  runs.columnElements = tensor.outputsLast ? tensor.wholeRows : 1;
  runs.rowStep = tensor.split == Rows ? tensor.rows : 0;
  runs.columnStep = tensor.split == Columns ? tensor.columns : 0;
  return runs;
}

/// The states of a bucket whose copies are quantized. Null if one is not.
static SmallVector<StateOp> statesOf(BucketOp bucket) {
  SmallVector<StateOp> states;
  for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>()) {
    auto state = dyn_cast_or_null<StateOp>(
        SymbolTable::lookupSymbolIn(bucket->getParentOp(), member));
    if (!state || !state.getQuantizer() || state.getTensorType().getRank() != 2)
      return {};
    states.push_back(state);
  }
  return states;
}

template <typename OpT> static SmallVector<int64_t> numbersOf(OpT op) {
  if (op.getTensors())
    return llvm::to_vector(*op.getTensors());
  SmallVector<int64_t> numbers;
  for (StateOp state : statesOf(bucketOf(op))) {
    QuantizerAttr quantizer = *state.getQuantizer();
    RankedTensorType type = state.getTensorType();
    auto whole = cast<RankedTensorType>(state.getWhole().value_or(type));
    int64_t split = GroupLayout::None;
    for (int64_t dim : {0, 1})
      if (whole.getDimSize(dim) != type.getDimSize(dim))
        split = dim == 0 ? GroupLayout::Rows : GroupLayout::Columns;
    numbers.append({type.getDimSize(0), type.getDimSize(1),
                    quantizer.getGroups(), quantizer.getOutputsLast(),
                    whole.getDimSize(0), whole.getDimSize(1), split});
  }
  return numbers;
}

GroupLayout heddle::nn::groupLayoutOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, GroupLayout>(op)
      .Case<GroupMaximaOp, GroupSumsOp, FakeQuantizeOp>(
          [](auto op) { return GroupLayout::of(numbersOf(op)); });
}

bool heddle::nn::setGroupShapes(Operation *op) {
  auto set = [](Value result, ArrayRef<int64_t> shape) {
    result.setType(tensorOf(result).clone(shape));
  };
  if (auto maxima = dyn_cast<GroupMaximaOp>(op)) {
    int64_t rows = tensorOf(maxima.getOutput()).getDimSize(0);
    set(maxima.getOutput(), {rows, 2 * groupLayoutOf(op).groups});
    return true;
  }
  if (auto sums = dyn_cast<GroupSumsOp>(op)) {
    for (Value result : sums.getResults())
      set(result, groupLayoutOf(op).groups);
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Verifies the attributes `bucket` and `tensors`.
template <typename OpT> static LogicalResult verifyGroups(OpT op) {
  if (op.getBucket().has_value() == op.getTensors().has_value())
    return op.emitOpError("needs a bucket, or the shapes of tensors");
  RankedTensorType input = tensorOf(op.getInput());
  if (input.getRank() != 1 ||
      input.getNumElements() != paddedElements(input.getNumElements()))
    return op.emitOpError("needs a flat tensor, got ") << input;
  if (!op.getTensors())
    return success();
  ArrayRef<int64_t> numbers = *op.getTensors();
  if (numbers.empty() || numbers.size() % perTensor != 0)
    return op.emitOpError("does not have seven numbers for each tensor");
  // So that products of the numbers do not overflow.
  constexpr int64_t most = int64_t(1) << 31;
  for (size_t i = 0; i < numbers.size(); i += perTensor) {
    ArrayRef<int64_t> own = numbers.slice(i, perTensor);
    auto isSize = [](int64_t x) { return x >= 1 && x <= most; };
    bool isSplit = own[6] != GroupLayout::None;
    if (!isSize(own[0]) || !isSize(own[1]) || !isSize(own[2]) ||
        !isSize(own[4]) || !isSize(own[5]) || (own[3] != 0 && own[3] != 1) ||
        own[6] < GroupLayout::None || own[6] > GroupLayout::Columns ||
        (own[6] != GroupLayout::Rows && own[0] != own[4]) ||
        (own[6] != GroupLayout::Columns && own[1] != own[5]))
      return op.emitOpError("has a tensor of no shape");
    if (isSplit && !op.getPart())
      return op.emitOpError("has a tensor that ranks split, but no part");
    if (own[4] * own[5] % own[2] != 0)
      return op.emitOpError("has ")
             << own[2] << " groups in " << own[4] * own[5]
             << " elements, which they do not divide";
  }
  int64_t elements = GroupLayout::of(numbers).elements;
  if (!op.getFirst() && elements > input.getNumElements())
    return op.emitOpError("has tensors of ")
           << elements << " elements in " << input;
  return success();
}

/// Verifies the shapes of operands and results with elements for groups.
static LogicalResult verifyShapes(GroupMaximaOp op) {
  RankedTensorType output = tensorOf(op.getOutput());
  int64_t elements = tensorOf(op.getInput()).getNumElements();
  int64_t ranges = output.getRank() == 2 ? output.getDimSize(0) : 0;
  // Tensor ranks do not have equal ranges of the flat tensor of a bucket.
  int64_t unit = op.getTensors() ? paddedElements(1) : 1;
  if (ranges < 1 || elements % ranges != 0 || elements / ranges % unit != 0)
    return op.emitOpError("has ranges that do not divide ")
           << op.getInput().getType() << " at multiples of 64 elements";
  return verifyShape(op, op.getOutput(), {ranges, 2 * groupLayoutOf(op).groups},
                     "output");
}

static LogicalResult verifyShapes(GroupSumsOp op) {
  int64_t groups = groupLayoutOf(op).groups;
  for (Value value : {op.getTotals(), op.getCounts(), op.getAbove()})
    if (value && failed(verifyShape(op, value, {groups}, "number of a group")))
      return failure();
  return success();
}

static LogicalResult verifyShapes(FakeQuantizeOp op) {
  int64_t groups = groupLayoutOf(op).groups;
  if (failed(verifyShape(op, op.getMaxima(), {2 * groups}, "maxima")))
    return failure();
  for (Value value : {op.getMeans(), op.getLevels()})
    if (value && failed(verifyShape(op, value, {groups}, "number of a group")))
      return failure();
  return success();
}

template <typename OpT> static LogicalResult verifyOp(OpT op) {
  if (failed(verifyGroups(op)))
    return failure();
  return op.getTensors() ? verifyShapes(op) : success();
}

template <typename OpT> static LogicalResult verifyUse(OpT op) {
  if (failed(verifyBucketUse(op)))
    return failure();
  BucketOp bucket = bucketOf(op);
  if (!bucket)
    return success();
  if (statesOf(bucket).empty())
    return op.emitOpError("is of ")
           << op.getBucketAttr() << ", whose states are not quantized matrices";
  for (StateOp state : statesOf(bucket))
    if (int64_t groups = state.getQuantizer()->getGroups();
        groups < 1 ||
        cast<RankedTensorType>(state.getWhole().value_or(state.getType()))
                    .getNumElements() %
                groups !=
            0)
      return op.emitOpError("has ")
             << groups << " groups in @" << state.getSymName()
             << ", which they do not divide";
  return verifyShapes(op);
}

LogicalResult GroupMaximaOp::verify() { return verifyOp(*this); }
LogicalResult GroupSumsOp::verify() { return verifyOp(*this); }
LogicalResult FakeQuantizeOp::verify() {
  if (tensorOf(getOutput()).getShape() != tensorOf(getInput()).getShape())
    return emitOpError("gives ")
           << getOutput().getType() << " for " << getInput().getType();
  if (failed(verifyShape(*this, getBits(), {}, "bits")) ||
      failed(verifyShape(*this, getRatio(), {}, "ratio")))
    return failure();
  if (bool(getMeans()) != bool(getLevels()))
    return emitOpError("needs both means and levels, or neither");
  return verifyOp(*this);
}

LogicalResult GroupMaximaOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyUse(*this);
}
LogicalResult GroupSumsOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyUse(*this);
}
LogicalResult FakeQuantizeOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyUse(*this);
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral isOptimizer = "the optimizer's";

StringRef GroupMaximaOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef GroupSumsOp::getNotDifferentiableReason() { return isOptimizer; }
StringRef FakeQuantizeOp::getNotDifferentiableReason() { return isOptimizer; }

static double elementsOf(Value value) {
  return static_cast<double>(tensorOf(value).getNumElements());
}
double GroupMaximaOp::getFlops() { return 2 * elementsOf(getInput()); }
double GroupSumsOp::getFlops() { return 2 * elementsOf(getInput()); }
double FakeQuantizeOp::getFlops() { return 10 * elementsOf(getInput()); }

dist::ShardingRule GroupMaximaOp::getShardingRule() {
  return ruleOfRanges(*this);
}

// The results are partial sums: a rank sums only the elements of a group that
// are in its shard.
dist::ShardingRule GroupSumsOp::getShardingRule() {
  SmallVector<std::string> operands = {"n"};
  if (getAbove())
    operands.push_back("m");
  return dist::buildRule(*this, operands, {"m", "m"}, "m");
}

dist::ShardingRule FakeQuantizeOp::getShardingRule() {
  SmallVector<std::string> operands = {"n", "x", "", ""};
  if (getMeans())
    operands.append({"m", "m"});
  return dist::buildRule(*this, operands, {"n"}, "xm");
}

/// Replaces the operation's reference to a bucket by the shapes of the bucket's
/// tensors. Sets the operand `first` to the first element of the rank's shard
/// in the whole bucket, and `part` to the number of its part of split tensors.
template <typename OpT>
static void localizeGroups(OpT op, const dist::Split &split) {
  SmallVector<int64_t> numbers = numbersOf(op);
  op.setTensors(numbers);
  op.removeBucketAttr();
  OpBuilder builder(op);
  Location loc = op.getLoc();
  SmallVector<Attribute> replicas, others;
  for (Attribute axis : split.axes[split.rule.operands[0][0]])
    (dist::holdsReplicas(axis) ? replicas : others).push_back(axis);
  auto rankAlong = [&](ArrayRef<Attribute> axes) -> Value {
    return builder.create<dist::RankOp>(loc, builder.getIndexType(),
                                        builder.getArrayAttr(axes));
  };
  bool isSplit = llvm::any_of(GroupLayout::of(numbers).tensors,
                              [](const GroupLayout::Tensor &tensor) {
                                return tensor.split != GroupLayout::None;
                              });
  if (isSplit)
    op.getPartMutable().assign(rankAlong(others));
  if (replicas.empty())
    return;
  Value length = builder.create<arith::ConstantIndexOp>(
      loc, tensorOf(op.getInput()).getNumElements());
  op.getFirstMutable().assign(
      builder.create<arith::MulIOp>(loc, rankAlong(replicas), length)
          .getResult());
}

void GroupMaximaOp::localize(const dist::Split &split) {
  localizeGroups(*this, split);
}
void GroupSumsOp::localize(const dist::Split &split) {
  localizeGroups(*this, split);
}
void FakeQuantizeOp::localize(const dist::Split &split) {
  Type element = tensorOf(getOutput()).getElementType();
  getOutput().setType(tensorOf(getInput()).clone(element));
  localizeGroups(*this, split);
}
