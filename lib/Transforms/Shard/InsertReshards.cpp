//===- InsertReshards.cpp - Writes what the sharding plan says ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the sharding plan (ShardingPlan.h) into the IR. The phase spmd turns
// the reshards into collectives.
//
//===----------------------------------------------------------------------===//

#include "ShardingPlan.h"
#include "heddle/Transforms/Shard/Passes.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SHARDINSERTRESHARDS
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

/// Sets the sharding attributes of one function or step, and inserts the
/// reshards that the plan contains.
class ReshardWriter {
public:
  ReshardWriter(MLIRContext *context, const shard::ShardingPlan &plan)
      : builder(context), plan(plan) {}

  /// Returns the number of reshards that were inserted.
  template <typename OpT> unsigned run(OpT function) {
    for (BlockArgument argument : function.getArguments())
      note(argument);
    write(function.getBody().front());
    function.setArgShardingsAttr(list(function.getArguments()));
    function.setResultShardingsAttr(
        list(function.getBody().back().getTerminator()->getOperands()));
    return numReshards;
  }

private:
  void write(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      write(op);
      for (Region &region : op.getRegions())
        write(region.front());
    }
  }

  void write(Operation &op);
  /// Inserts the reshard that the plan wants after `result`. If `init` is not
  /// null, it was an operand that the operation added to its result. An
  /// addition of `init` is then inserted after the reshard.
  void follow(OpResult result, const shard::Sequel &sequel, Value init);

  void note(Value value) {
    if (isa<RankedTensorType>(value.getType()))
      shardings[value] = plan.madeAs(value);
  }

  /// An attribute with the sharding of each value. A value that is not a tensor
  /// has a unit attribute.
  ArrayAttr list(ValueRange values) {
    SmallVector<Attribute> attributes;
    for (Value value : values)
      attributes.push_back(isa<RankedTensorType>(value.getType())
                               ? Attribute(shardings.lookup(value))
                               : builder.getUnitAttr());
    return builder.getArrayAttr(attributes);
  }

  /// Reshards `operand` to the sharding that its operation needs.
  void reshard(OpOperand &operand, const shard::Need &need);
  /// Creates a reshard of the value for `op`, at the builder's insertion point.
  Value create(Operation *op, Value value, const shard::Need &need);
  /// Creates a copy of the operation that computes `value`, with the sharding
  /// `to`. Every rank must be able to compute the value without communication.
  Value remade(Value value, TensorShardingAttr to);

  OpBuilder builder;
  const shard::ShardingPlan &plan;
  /// The shardings that were written into the IR so far, by value.
  DenseMap<Value, TensorShardingAttr> shardings;
  DenseMap<std::pair<Value, Attribute>, Value> resharded;
  unsigned numReshards = 0;
};

void ReshardWriter::write(Operation &op) {
  // The plan uses addresses of operands as keys. They change when an operand is
  // removed, so everything is looked up before the first removal.
  SmallVector<std::pair<OpResult, const shard::Sequel *>> sequels;
  llvm::SmallDenseSet<OpOperand *> taken;
  for (OpResult result : op.getResults())
    if (const shard::Sequel *sequel = plan.sequelOf(result)) {
      sequels.push_back({result, sequel});
      taken.insert(sequel->init);
    }
  for (OpOperand &operand : op.getOpOperands())
    if (const shard::Need *need = plan.needOf(operand);
        need && !taken.contains(&operand))
      reshard(operand, *need);
  for (Value result : op.getResults())
    note(result);
  if (isa<nn::ShardingRuleOpInterface>(op))
    op.setAttr("shardings", list(op.getResults()));
  if (auto reshard = dyn_cast<dist::ReshardOp>(op))
    reshard.setFromAttr(shardings.lookup(reshard.getInput()));
  SmallVector<Value> inits;
  for (auto [result, sequel] : sequels)
    inits.push_back(sequel->init ? sequel->init->get() : Value());
  for (size_t number = nn::initsOf(&op).size(); number-- > 0;) {
    // An init is an operand to which the operation adds its result. Removing an
    // init makes the operand ranges of all other inits invalid, so get the list
    // of inits again in each iteration.
    nn::Init init = nn::initsOf(&op)[number];
    const shard::Sequel *sequel = plan.sequelOf(init.result);
    if (sequel && sequel->init)
      init.operand.clear();
  }
  for (auto [followed, init] : llvm::zip(sequels, inits))
    follow(followed.first, *followed.second, init);
}

void ReshardWriter::follow(OpResult result, const shard::Sequel &sequel,
                           Value init) {
  Operation *op = result.getOwner();
  builder.setInsertionPointAfter(op);
  if (!init) {
    Value resharded = create(op, result, sequel.need);
    result.replaceAllUsesExcept(resharded, resharded.getDefiningOp());
    return;
  }
  auto add =
      builder.create<nn::AddOp>(op->getLoc(), result.getType(), result, init,
                                builder.getArrayAttr({sequel.need.sharding}));
  result.replaceAllUsesExcept(add.getOutput(), add);
  reshard(add.getLhsMutable(), sequel.need);
  reshard(add.getRhsMutable(), sequel.need);
  shardings[add.getOutput()] = sequel.need.sharding;
}

void ReshardWriter::reshard(OpOperand &operand, const shard::Need &need) {
  Value value = operand.get();
  if (shardings.lookup(value) == need.sharding)
    return;
  Operation *op = operand.getOwner();
  bool isWhole = need.sharding.getUnreduced().empty();
  if (isWhole && shard::isMadeAnywhere(value)) {
    operand.set(remade(value, need.sharding));
    return;
  }
  // If the value is the result of a reshard whose input has the wanted
  // sharding, use this input. No other reshard is needed then.
  if (auto back = value.getDefiningOp<dist::ReshardOp>();
      back && back->getBlock() == op->getBlock() &&
      back.getFrom() == need.sharding && isWhole &&
      back.getSegments().value_or(ArrayRef<int64_t>()) ==
          ArrayRef(need.segments)) {
    operand.set(back.getInput());
    return;
  }
  Value &known = resharded[{value, need.sharding}];
  if (!known || known.getParentBlock() != op->getBlock()) {
    builder.setInsertionPoint(op);
    known = create(op, value, need);
  }
  operand.set(known);
}

Value ReshardWriter::create(Operation *op, Value value,
                            const shard::Need &need) {
  auto reshard = builder.create<dist::ReshardOp>(
      op->getLoc(), value.getType(), value, shardings.lookup(value),
      need.sharding, builder.getStringAttr(op->getName().getStringRef()),
      TypeAttr(),
      need.segments.empty() ? DenseI64ArrayAttr()
                            : builder.getDenseI64ArrayAttr(need.segments));
  shardings[reshard.getOutput()] = need.sharding;
  ++numReshards;
  return reshard.getOutput();
}

Value ReshardWriter::remade(Value value, TensorShardingAttr to) {
  Operation *op = value.getDefiningOp();
  if (!value.hasOneUse()) {
    builder.setInsertionPointAfter(op);
    op = builder.clone(*op);
  }
  op->setAttr("shardings", builder.getArrayAttr({to}));
  shardings[op->getResult(0)] = to;
  return op->getResult(0);
}

struct InsertReshards : heddle::impl::ShardInsertReshardsBase<InsertReshards> {
  void runOnOperation() override {
    auto &plan = getAnalysis<shard::ShardingPlan>();
    if (!plan.isComplete())
      return signalPassFailure();
    for (auto function : getOperation().getOps<nn::FuncOp>())
      if (plan.isReached(function))
        numReshards += ReshardWriter(&getContext(), plan).run(function);
    for (auto step : getOperation().getOps<nn::StepOp>())
      numReshards += ReshardWriter(&getContext(), plan).run(step);
  }
};

} // namespace
