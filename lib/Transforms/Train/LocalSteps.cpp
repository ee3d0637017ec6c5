//===- LocalSteps.cpp - Steps that replicas make by themselves ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalSteps.h"
#include "UpdateCondition.h"
#include "heddle/PlanFormat/ErrorFeedback.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace heddle;

/// Adds a bucket of the values with which a replica computes in place of the
/// group's parameters, unless an earlier train program has added it. `read` is
/// the bucket of the states that other programs compute with.
static nn::BucketOp addLocalParameters(nn::StepOp step,
                                       train::UpdateGroup &group,
                                       nn::BucketOp read) {
  constexpr StringLiteral quantity = "local_parameter";
  std::string name = (quantity + "." + group.name).str();
  auto model = step->getParentOfType<nn::ModelOp>();
  if (auto known = model.lookupSymbol<nn::BucketOp>(name))
    return known;
  OpBuilder builder(step);
  Type element = cast<RankedTensorType>(read.getType()).getElementType();
  SmallVector<Attribute> members;
  for (nn::StateOp parameter : group.parameters) {
    auto state = builder.create<nn::StateOp>(
        parameter.getLoc(), (parameter.getSymName() + "." + quantity).str(),
        nn::StateRole::Scalar, parameter.getTensorType().clone(element),
        parameter.getSymName());
    members.push_back(FlatSymbolRefAttr::get(state.getSymNameAttr()));
  }
  return builder.create<nn::BucketOp>(
      read.getLoc(), name, builder.getArrayAttr(members), read.getType());
}

void train::readLocalParameters(nn::StepOp step, UpdateGroup &group,
                                const Optimizer &optimizer,
                                const dist::Strategy &strategy) {
  nn::BucketOp read = group.copies ? group.copies : group.values;
  nn::BucketOp local = addLocalParameters(step, group, read);
  Location loc = group.values.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(&step.getBody().front());
  SmallVector<nn::BucketOp> buckets = {group.values};
  llvm::append_range(buckets, group.states);
  SmallVector<Value> operands;
  for (nn::BucketOp bucket : buckets)
    operands.push_back(
        builder.create<nn::GetOp>(loc, bucket.getType(), bucket.getSymName()));
  auto map = builder.create<nn::MapOp>(loc, local.getType(), ValueRange(),
                                       nn::FunctionAttr(), ArrayAttr());
  Block &block = map.getBody().emplaceBlock();
  nn::Scalars s(loc, step.getContext());
  s.setInsertionPointToEnd(&block);
  SmallVector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(block.addArgument(s.getF64Type(), loc));
  Element element;
  element.parameter = values.front();
  element.states = ArrayRef(values).drop_front();
  s.create<nn::ReturnOp>(
      ValueRange{optimizer.localParameter(s, element, strategy)});
  map.getInputsMutable().assign(arrange(block, operands, {}));
  builder.create<nn::SetOp>(loc, local.getSymName(), map.getOutputs()[0]);

  llvm::StringMap<FlatSymbolRefAttr> replaced;
  for (auto [from, to] :
       llvm::zip_equal(read.getMembers().getAsRange<FlatSymbolRefAttr>(),
                       local.getMembers().getAsRange<FlatSymbolRefAttr>()))
    replaced[from.getValue()] = to;
  step.walk([&](nn::GetOp get) {
    if (auto found = replaced.find(get.getState()); found != replaced.end())
      get.setStateAttr(found->second);
  });
}

Value train::addRate(OpBuilder &builder, nn::StepOp step, Value lr,
                     Value condition, bool synchronizes) {
  Location loc = step.getLoc();
  StringRef name = plan::localRates;
  Type type = lr.getType();
  addCheckpointedState(step, name, type, /*first=*/0);
  Value before = builder.create<nn::GetOp>(loc, type, name);
  Value sum;
  if (synchronizes)
    sum = nn::buildMap(
        builder, loc, {before, lr},
        [](nn::Scalars &s, ValueRange x) { return s.add(x[0], x[1]); });
  auto next = builder.create<nn::UpdateOp>(loc, TypeRange(type), name, before,
                                           lr, ValueRange(), ValueRange(),
                                           condition, nullptr);
  Block &block = next.getBody().emplaceBlock();
  nn::Scalars s(loc, step.getContext());
  s.setInsertionPointToEnd(&block);
  Value old = block.addArgument(s.getF64Type(), loc);
  Value rate = block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(
      ValueRange{synchronizes ? s.real(0) : s.add(old, rate)});
  builder.create<nn::SetOp>(loc, name, next.getNewParameter());
  return sum;
}

void train::resetState(OpBuilder &builder, nn::BucketOp state,
                       Value condition) {
  Location loc = state.getLoc();
  Value before =
      builder.create<nn::GetOp>(loc, state.getType(), state.getSymName());
  auto reset = builder.create<nn::UpdateOp>(
      loc, TypeRange(before.getType()), "reset", before, before, ValueRange(),
      ValueRange(), condition, nullptr);
  Block &block = reset.getBody().emplaceBlock();
  nn::Scalars s(loc, state.getContext());
  s.setInsertionPointToEnd(&block);
  block.addArgument(s.getF64Type(), loc);
  block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(ValueRange{s.real(0)});
  builder.create<nn::SetOp>(loc, state.getSymName(), reset.getNewParameter());
}

SmallVector<Value> train::arrange(Block &body, ArrayRef<Value> read,
                                  ArrayRef<unsigned> first) {
  auto count = static_cast<unsigned>(read.size());
  SmallVector<unsigned> order(first);
  for (unsigned number = 0; number < count; ++number)
    if (!llvm::is_contained(first, number) &&
        !body.getArgument(number).use_empty())
      order.push_back(number);
  SmallVector<Value> others;
  for (auto [place, number] : llvm::enumerate(order)) {
    BlockArgument argument = body.getArgument(number);
    argument.replaceAllUsesWith(
        body.addArgument(argument.getType(), argument.getLoc()));
    if (place >= first.size())
      others.push_back(read[number]);
  }
  for (unsigned number = 0; number < count; ++number)
    if (!llvm::is_contained(order, number))
      if (auto get = read[number].getDefiningOp<nn::GetOp>();
          get && get->use_empty())
        get.erase();
  body.eraseArguments(0, count);
  return others;
}
