//===- Update.cpp - Updates, norms and shared gradients -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Update.h"
#include "dialects/NN/GroupLayout.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::pipe;
using dist::TensorShardingAttr;

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

StringAttr heddle::pipe::parameterOf(nn::StateOp state) {
  return state.getParameter() ? state.getParameterAttr()
                              : state.getSymNameAttr();
}

/// Sets the members of a bucket, and from them the bucket's size.
static void setMembers(nn::BucketOp bucket, ArrayRef<Attribute> members,
                       const SymbolTable &symbols, int64_t replicas) {
  int64_t elements = 0;
  for (Attribute member : members)
    elements += nn::paddedElements(
        symbols.lookup<nn::StateOp>(cast<FlatSymbolRefAttr>(member).getValue())
            .getTensorType()
            .getNumElements());
  if (bucket.getStorage())
    elements = nn::paddedElements(elements, replicas);
  auto type = cast<RankedTensorType>(bucket.getType());
  bucket.setType(RankedTensorType::get({elements}, type.getElementType()));
  bucket.setMembersAttr(ArrayAttr::get(bucket.getContext(), members));
}

StageBuckets heddle::pipe::cutBuckets(nn::ModelOp model,
                                      const SymbolTable &symbols,
                                      function_ref<bool(StringAttr)> has,
                                      function_ref<bool(StringAttr)> isCopy,
                                      int64_t replicas) {
  StageBuckets buckets;
  for (auto bucket : llvm::make_early_inc_range(model.getOps<nn::BucketOp>())) {
    SmallVector<Attribute> own, copies;
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>()) {
      auto state = cast<nn::StateOp>(symbols.lookup(member.getAttr()));
      StringAttr parameter = parameterOf(state);
      if (has(parameter))
        (isCopy(parameter) ? copies : own).push_back(member);
    }
    StageBucket &mine = buckets[bucket.getSymName()];
    if (!own.empty())
      mine.own = bucket;
    if (!copies.empty())
      mine.copies = own.empty() ? bucket : bucket.clone();
    if (mine.own && mine.copies) {
      mine.copies.setSymName((bucket.getSymName() + ".tied").str());
      bucket->getBlock()->getOperations().insertAfter(
          bucket->getIterator(), mine.copies.getOperation());
    }
    if (mine.own)
      setMembers(mine.own, own, symbols, replicas);
    if (mine.copies)
      setMembers(mine.copies, copies, symbols, replicas);
    if (!mine.own && !mine.copies)
      bucket.erase();
  }
  return buckets;
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

TensorShardingAttr heddle::pipe::sumOverStages(TensorShardingAttr sharding) {
  MLIRContext *context = sharding.getContext();
  SmallVector<Attribute> axes = {
      StringAttr::get(context, dist::pipelineAxis())};
  llvm::append_range(axes, sharding.getUnreduced());
  return TensorShardingAttr::get(context, sharding.getDims(),
                                 ArrayAttr::get(context, axes));
}

//===----------------------------------------------------------------------===//
// Flat values
//===----------------------------------------------------------------------===//

/// If `op`, an operation of the whole model, reads, writes or fills a bucket:
/// returns the two buckets of the stage that replace this bucket (see
/// StageBucket). Otherwise returns null.
const StageBucket *UpdateWriter::bucketOf(Operation &op) const {
  StringRef name;
  if (auto get = dyn_cast<nn::GetOp>(op))
    name = get.getState();
  if (auto set = dyn_cast<nn::SetOp>(op))
    name = set.getState();
  Operation *user = op.hasOneUse() ? *op.getUsers().begin() : nullptr;
  if (auto set = dyn_cast_or_null<nn::SetOp>(user); set && isa<nn::FillOp>(op))
    name = set.getState();
  // An average without a state reads a fill.
  auto average = dyn_cast_or_null<nn::AverageOp>(user);
  if (average && average.getState().getDefiningOp() == &op &&
      isa<nn::FillOp>(op)) {
    Value gradient = average.getGradient();
    while (auto reshard = gradient.getDefiningOp<dist::ReshardOp>())
      gradient = reshard.getInput();
    name = gradient.getDefiningOp<nn::GetOp>().getState();
  }
  auto found = buckets.find(name);
  return found == buckets.end() ? nullptr : &found->second;
}

void UpdateWriter::write(Operation &op) {
  if (auto norm = dyn_cast<nn::GlobalNormOp>(op))
    return writeNorm(norm);
  if (auto pack = dyn_cast<nn::PackOp>(op))
    return writePack(pack);
  const StageBucket *bucket = bucketOf(op);
  bool isFlat = bucket || llvm::any_of(op.getOperands(), [&](Value operand) {
                  return flats.contains(operand);
                });
  if (isFlat)
    return writeFlat(op, bucket);
  // In the whole model, the sums of squares for the gradient norm are joined
  // (nn.pack) and then resharded. The stage's model gets no copy of such a
  // reshard: the all-reduce that UpdateWriter::total writes replaces it.
  bool ofNorm = isa<dist::ReshardOp>(op) &&
                isa_and_nonnull<nn::PackOp>(op.getOperand(0).getDefiningOp());
  if (!ofNorm)
    builder.clone(op, mapping);
}

static void rename(Operation *copy, nn::BucketOp bucket) {
  if (auto set = dyn_cast<nn::SetOp>(copy))
    set.setState(bucket.getSymName());
  if (auto get = dyn_cast<nn::GetOp>(copy))
    get.setState(bucket.getSymName());
}

/// Returns the shape of the result of `copy`, which is a copy of `op` for one
/// of the stage's buckets. `old` is the result of `op`. Sums per block or per
/// segment have one element for each block or segment of the stage's bucket. A
/// stack has as many flat tensors as `op`.
/// For any other operation, some operand of `op` has the shape of `old`, and
/// the result gets the shape of the same operand of `copy`.
static SmallVector<int64_t> shapeOfResult(Operation *op, Operation *copy,
                                          Value old) {
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  if (isa<nn::SquareSumsOp>(copy)) {
    int64_t size = nn::SquareSumsOp::blockSize;
    return {(shapeOf(copy->getOperand(0))[0] + size - 1) / size};
  }
  if (isa<nn::SegmentSumsOp>(copy))
    return {static_cast<int64_t>(nn::segmentsOf(copy).size())};
  if (isa<dist::StackOp>(copy))
    return {shapeOf(copy->getOperand(0))[0] * shapeOf(old)[0] /
            shapeOf(op->getOperand(0))[0]};
  if (isa<nn::MaxRowsOp>(copy))
    return llvm::to_vector(shapeOf(copy->getOperand(0)).drop_front());
  for (auto [before, now] : llvm::zip(op->getOperands(), copy->getOperands()))
    if (shapeOf(before) == shapeOf(old))
      return llvm::to_vector(shapeOf(now));
  return llvm::to_vector(shapeOf(old));
}

void UpdateWriter::writeFlat(Operation &op, const StageBucket *bucket) {
  // `flats` maps a value of the whole model, with the elements of a bucket, to
  // two values of this stage: one with the elements of StageBucket::own, one
  // with those of StageBucket::copies. A value is null if its bucket is null.
  for (Value result : op.getResults())
    flats[result] = {};
  auto segments = op.getAttrOfType<FlatSymbolRefAttr>("bucket");
  if (segments)
    bucket = &buckets.find(segments.getValue())->second;
  for (int number : {0, 1}) {
    bool squares = isa<nn::SquareSumsOp>(op);
    if ((bucket && !(*bucket)[number]) || (squares && number == 1))
      continue;
    IRMapping here = mapping;
    bool missing = false;
    for (Value operand : op.getOperands())
      if (auto flat = flats.find(operand); flat != flats.end()) {
        Value mine = flat->second[number];
        missing |= !mine;
        if (mine)
          here.map(operand, mine);
      }
    if (missing)
      continue;
    Operation *copy = builder.clone(op, here);
    if (segments)
      copy->setAttr("bucket",
                    FlatSymbolRefAttr::get((*bucket)[number].getSymNameAttr()));
    else if (bucket)
      rename(copy, (*bucket)[number]);
    bool isOfGroups = nn::setGroupShapes(copy);
    for (auto [old, result] : llvm::zip(op.getResults(), copy->getResults())) {
      if (isOfGroups) {
        flats[old][number] = result;
        continue;
      }
      auto type = cast<RankedTensorType>(result.getType());
      bool isRead = bucket && !segments; // True also for what fills the bucket.
      result.setType(isRead ? type.clone(cast<RankedTensorType>(
                                             (*bucket)[number].getType())
                                             .getShape())
                            : type.clone(shapeOfResult(&op, copy, old)));
      flats[old][number] = result;
    }
  }
}

//===----------------------------------------------------------------------===//
// The norm
//===----------------------------------------------------------------------===//

Value UpdateWriter::pack(Location loc, ArrayRef<Value> sums) {
  if (sums.empty())
    return {};
  int64_t elements = 0;
  for (Value sum : sums)
    elements += nn::paddedElements(
        cast<RankedTensorType>(sum.getType()).getNumElements());
  return builder.create<nn::PackOp>(
      loc, RankedTensorType::get({elements}, builder.getF32Type()), sums);
}

/// Joins the sums of squares that this stage computes into one tensor.
void UpdateWriter::writePack(nn::PackOp whole) {
  SmallVector<Value> sums;
  for (Value sum : whole.getMembers())
    if (Value mine = flats.lookup(sum)[0])
      sums.push_back(mine);
  if (Value packed = pack(whole.getLoc(), sums))
    mapping.map(whole.getFlat(), packed);
}

/// Adds up the elements of `packed`, this stage's sums of squares, on all
/// stages, and on all ranks along the mesh axes in `unreduced`. A stage that
/// has nothing to add passes null, and contributes zero.
Value UpdateWriter::total(Location loc, Value packed, ArrayAttr unreduced) {
  MLIRContext *context = builder.getContext();
  auto whole = shard::wholeSharding(context, 0);
  auto partial =
      sumOverStages(shard::wholeSharding(context, 0, unreduced.getValue()));
  auto type = RankedTensorType::get({}, builder.getF32Type());
  ArrayAttr shardings = builder.getArrayAttr({partial});
  Value sum =
      packed ? builder
                   .create<nn::SumOp>(loc, type, packed, /*weights=*/Value(),
                                      /*init=*/Value(), shardings)
                   .getOutput()
             : builder
                   .create<nn::FillOp>(loc, type, builder.getF64FloatAttr(0),
                                       shardings)
                   .getOutput();
  return builder.create<dist::ReshardOp>(
      loc, type, sum, partial, whole, builder.getStringAttr("nn.global_norm"),
      TypeAttr(), DenseI64ArrayAttr());
}

void UpdateWriter::writeNorm(nn::GlobalNormOp norm) {
  Location loc = norm.getLoc();
  SmallVector<Value> parts;
  SmallVector<Value> squares;
  ArrayAttr shardings =
      builder.getArrayAttr({shard::wholeSharding(builder.getContext(), 0)});
  for (Value input : norm.getInputs()) {
    if (norm.getSummed()) {
      ArrayAttr unreduced = builder.getArrayAttr({});
      if (auto reshard = input.getDefiningOp<dist::ReshardOp>()) {
        input = reshard.getInput();
        unreduced = reshard.getFrom().getUnreduced();
      }
      parts.push_back(total(loc, mapping.lookupOrNull(input), unreduced));
      continue;
    }
    Value flat = flats.lookup(input)[0];
    if (!flat)
      continue;
    int64_t size = nn::SquareSumsOp::blockSize;
    int64_t elements = cast<RankedTensorType>(flat.getType()).getNumElements();
    auto type = RankedTensorType::get({(elements + size - 1) / size},
                                      builder.getF32Type());
    squares.push_back(builder.create<nn::SquareSumsOp>(
        loc, type, flat,
        builder.getArrayAttr({shard::wholeSharding(builder.getContext(), 1)})));
  }
  if (!norm.getSummed())
    parts.push_back(total(loc, pack(loc, squares), builder.getArrayAttr({})));
  auto whole = builder.create<nn::GlobalNormOp>(
      loc, norm.getOutput().getType(), parts, /*summed=*/true, shardings);
  mapping.map(norm.getOutput(), whole.getOutput());
}

//===----------------------------------------------------------------------===//
// Gradients of several stages
//===----------------------------------------------------------------------===//

void heddle::pipe::addUpShared(OpBuilder &builder, nn::ModelOp stage,
                               const SharedSum &sum, int64_t rank) {
  Operation *state = SymbolTable::lookupSymbolIn(stage, sum.state);
  auto type =
      cast<RankedTensorType>(state->getAttrOfType<TypeAttr>("type").getValue());
  TensorShardingAttr storage = shard::storageOf(state);
  Location loc = state->getLoc();
  StringAttr axis = builder.getStringAttr(dist::pipelineAxis());
  StringAttr channel = builder.getStringAttr(sum.state.getValue());
  ArrayAttr shardings = builder.getArrayAttr({storage});
  StringAttr back = builder.getStringAttr(sum.state.getValue() + ".sum");
  auto send = [&](Value value, int64_t to, StringAttr channel) {
    builder.create<dist::SendOp>(loc, value, axis,
                                 builder.getI64IntegerAttr(to - rank), channel);
  };
  auto receive = [&](int64_t from, StringAttr channel) -> Value {
    auto received = builder.create<dist::RecvOp>(
        loc, type, axis, builder.getI64IntegerAttr(from - rank), channel);
    received->setAttr("shardings", shardings);
    return received;
  };
  const auto *here = llvm::find(sum.ranks, rank);
  bool isFirst = here == sum.ranks.begin();
  bool isLast = here + 1 == sum.ranks.end();
  Value total = builder.create<nn::GetOp>(loc, type, sum.state.getValue());
  if (!isLast)
    total = builder.create<nn::AddOp>(loc, type, total,
                                      receive(here[1], channel), shardings);
  if (!isFirst) {
    send(total, here[-1], channel);
    total = receive(here[-1], back);
  }
  builder.create<nn::SetOp>(loc, sum.state.getValue(), total);
  if (!isLast)
    send(builder.create<nn::GetOp>(loc, type, sum.state.getValue()), here[1],
         back);
}
