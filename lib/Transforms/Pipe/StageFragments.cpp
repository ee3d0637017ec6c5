//===- StageFragments.cpp - Writes the fragments of a stage ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StageFragments.h"
#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::pipe;

void FragmentWriter::markNeeded(Value value) {
  Operation *definition = value.getDefiningOp();
  bool anew = definition && definition->getBlock() == &fragments.body &&
              fragments.of(definition) < 0;
  if (!anew || !needed.insert(definition).second)
    return;
  for (Value operand : definition->getOperands())
    markNeeded(operand);
}

void FragmentWriter::write() {
  for (Operation &op : fragments.body.without_terminator()) {
    if (fragments.of(&op) != fragment)
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      const PassedSum *sum = fragments.passedThrough(operand);
      if (!sum)
        markNeeded(operand.get());
      else if (sum->start)
        markNeeded(sum->start);
    }
  }
  // Some values only pass through this stage to the next one. They are received
  // and sent on first, so that the next stage does not wait for this stage's
  // computation.
  for (auto &[key, arrival] : routes.arrivals) {
    auto &[value, place] = key;
    if (place == fragment &&
        llvm::none_of(value.getUsers(), [&](Operation *user) {
          return fragments.of(user) == fragment;
        }))
      arrive(value, arrival);
  }
  for (Operation &op : fragments.body.without_terminator())
    if (fragments.of(&op) == fragment || needed.contains(&op))
      clone(op);
}

void FragmentWriter::clone(Operation &op) {
  for (Value operand : op.getOperands()) {
    auto arrival = routes.arrivals.find({operand, fragment});
    if (!mapping.contains(operand) && arrival != routes.arrivals.end())
      arrive(operand, arrival->second);
  }
  Operation *copy = builder.clone(op, mapping);
  for (const PassedSum &sum : fragments.passedSums())
    if (sum.operand->getOwner() == &op)
      takeOver(sum, copy);
  for (Value result : op.getResults())
    depart(result);
  for (const PassedSum &sum : fragments.passedSums())
    if (sum.operand->get().getDefiningOp() == &op)
      finish(sum);
}

void FragmentWriter::arrive(Value value, const Arrival &arrival) {
  if (arrival.channel.empty()) {
    const Departure &saved =
        routes.departures.find({value, arrival.from})->second;
    mapping.map(value, builder.create<nn::GetOp>(
                           value.getLoc(), value.getType(), saved.state, slot));
    return;
  }
  const FragmentNumbering &numbering = fragments.numbering;
  int64_t delta = numbering.rankOf(arrival.from) - numbering.rankOf(fragment);
  auto received = builder.create<dist::RecvOp>(
      value.getLoc(), value.getType(),
      builder.getStringAttr(dist::pipelineAxis()),
      builder.getI64IntegerAttr(delta), builder.getStringAttr(arrival.channel));
  if (auto sharding = shard::shardingOf(value, symbols))
    received->setAttr("shardings", builder.getArrayAttr({sharding}));
  mapping.map(value, received.getValue());
  depart(value);
}

/// Sends and saves a value that later fragments (forward or backward passes of
/// a stage) need. A value to be sent is first copied to the micro-batch's entry
/// of a state: the stage can then continue before the message has arrived.
void FragmentWriter::depart(Value value) {
  auto found = routes.departures.find({value, fragment});
  if (found == routes.departures.end())
    return;
  const Departure &departure = found->second;
  Value here = mapping.lookup(value);
  if (!departure.state.empty())
    builder.create<nn::SetOp>(value.getLoc(), departure.state, here, slot);
  if (departure.channel.empty())
    return;
  if (!departure.state.empty())
    here = builder.create<nn::GetOp>(value.getLoc(), value.getType(),
                                     departure.state, slot);
  builder.create<dist::SendOp>(value.getLoc(), here,
                               builder.getStringAttr(dist::pipelineAxis()),
                               builder.getI64IntegerAttr(departure.delta),
                               builder.getStringAttr(departure.channel));
}

/// Changes `copy`, this stage's copy of an operation that adds a summand to a
/// gradient. In the whole model, the operation adds to a sum that another
/// stage's backward pass computes. This stage does not have that sum. Its copy
/// adds to the initial value of the gradient if there is one. Otherwise the
/// summand itself is the result. addUpShared later adds the stages' sums.
void FragmentWriter::takeOver(const PassedSum &sum, Operation *copy) {
  unsigned number = sum.operand->getOperandNumber();
  if (sum.start) {
    copy->setOperand(number, mapping.lookup(sum.start));
    return;
  }
  if (isa<nn::AddOp>(copy)) {
    mapping.map(sum.operand->getOwner()->getResult(0),
                copy->getOperand(1 - number));
    copy->erase();
    return;
  }
  if (auto call = dyn_cast<nn::CallOp>(copy)) {
    copy->setOperand(number, zerosFor(call, number));
    return;
  }
  for (auto &[init, result] : nn::initsOf(copy))
    if (init[0].getOperandNumber() == number)
      MutableOperandRange(init).clear();
}

/// Returns zeros for an operand of `call` to which the called layer adds a
/// gradient. The layer needs the operand even if this stage has not yet
/// computed another summand of that gradient.
Value FragmentWriter::zerosFor(nn::CallOp call, unsigned number) {
  auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
  ArrayAttr shardings;
  if (auto all = callee.getArgShardings())
    shardings = builder.getArrayAttr({(*all)[number]});
  OpBuilder before(call);
  return before.create<nn::FillOp>(call.getLoc(),
                                   call.getOperand(number).getType(),
                                   builder.getF64FloatAttr(0), shardings);
}

/// Writes the sum of this stage's own summands to the gradient's state. In the
/// whole model, a chain of operations writes the sum over all stages to that
/// state. Copies of these operations write this stage's sum.
void FragmentWriter::finish(const PassedSum &sum) {
  IRMapping here = mapping;
  here.map(sum.total, mapping.lookup(sum.operand->get()));
  for (Operation *op : sum.chain) {
    // An operation may use an nn.get that is not copied yet, because the nn.get
    // comes later in the body. Copy the nn.get, too.
    for (Value operand : op->getOperands())
      if (auto get = operand.getDefiningOp<nn::GetOp>();
          get && !here.contains(operand))
        builder.clone(*get, here);
    builder.clone(*op, here);
  }
}
