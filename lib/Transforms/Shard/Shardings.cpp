//===- Shardings.cpp - Reads and makes shardings of values ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Shard/Shardings.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

TensorShardingAttr heddle::shard::wholeSharding(MLIRContext *context,
                                                int64_t rank,
                                                ArrayRef<Attribute> unreduced) {
  SmallVector<Attribute> dims(rank, ArrayAttr::get(context, {}));
  return TensorShardingAttr::get(context, ArrayAttr::get(context, dims),
                                 ArrayAttr::get(context, unreduced));
}

bool heddle::shard::readsSummand(OpOperand &operand) {
  auto properties = dyn_cast<nn::PropertiesOpInterface>(operand.getOwner());
  return properties && properties.readsSummand(operand);
}

TensorShardingAttr heddle::shard::storageOf(Operation *state) {
  if (auto storage = state->getAttrOfType<TensorShardingAttr>("storage"))
    return storage;
  auto type = cast<TypeAttr>(state->getAttr("type")).getValue();
  return wholeSharding(state->getContext(),
                       cast<RankedTensorType>(type).getRank());
}

FailureOr<dist::MeshOp> heddle::shard::meshOf(nn::ModelOp model) {
  if (auto mesh = model.lookupSymbol<dist::MeshOp>("mesh"))
    return mesh;
  return LogicalResult(model.emitError("H0904: there is no mesh"));
}

bool heddle::shard::splitsReplicas(TensorShardingAttr sharding) {
  return llvm::any_of(sharding.getDims().getAsRange<ArrayAttr>(),
                      [](ArrayAttr axes) {
                        return llvm::any_of(axes, [](Attribute axis) {
                          return dist::holdsReplicas(axis);
                        });
                      });
}

TensorShardingAttr heddle::shard::dropFirst(TensorShardingAttr sharding) {
  auto dims = sharding.getDims().getValue().drop_front();
  return TensorShardingAttr::get(sharding.getContext(),
                                 ArrayAttr::get(sharding.getContext(), dims),
                                 sharding.getUnreduced());
}

TensorShardingAttr heddle::shard::addFirst(TensorShardingAttr sharding) {
  SmallVector<Attribute> dims = {ArrayAttr::get(sharding.getContext(), {})};
  llvm::append_range(dims, sharding.getDims());
  return TensorShardingAttr::get(sharding.getContext(),
                                 ArrayAttr::get(sharding.getContext(), dims),
                                 sharding.getUnreduced());
}

static TensorShardingAttr at(std::optional<ArrayAttr> list, unsigned number) {
  return list ? dyn_cast<TensorShardingAttr>((*list)[number])
              : TensorShardingAttr();
}

static TensorShardingAttr shardingOfArgument(BlockArgument argument) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto function = dyn_cast<nn::FuncOp>(parent))
    return at(function.getArgShardings(), argument.getArgNumber());
  if (auto step = dyn_cast<nn::StepOp>(parent))
    return at(step.getArgShardings(), argument.getArgNumber());
  return {};
}

TensorShardingAttr heddle::shard::shardingOf(Value value,
                                             const SymbolTable &symbols) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return shardingOfArgument(argument);
  Operation *op = value.getDefiningOp();
  unsigned number = cast<OpResult>(value).getResultNumber();
  if (auto reshard = dyn_cast<dist::ReshardOp>(op))
    return reshard.getTo();
  if (auto stack = dyn_cast<dist::StackOp>(op))
    return stack.getTo();
  if (auto unpack = dyn_cast<nn::UnpackOp>(op))
    return at(unpack.getShardings(), number);
  if (auto call = dyn_cast<nn::CallOp>(op))
    return at(symbols.lookup<nn::FuncOp>(call.getCallee()).getResultShardings(),
              number);
  if (auto get = dyn_cast<nn::GetOp>(op)) {
    auto storage = symbols.lookup(get.getState())
                       ->getAttrOfType<TensorShardingAttr>("storage");
    return storage && get.getSlot() ? dropFirst(storage) : storage;
  }
  if (auto slice = dyn_cast<nn::MicroBatchOp>(op)) {
    TensorShardingAttr whole = shardingOf(slice.getInput(), symbols);
    return whole ? dropFirst(whole) : whole;
  }
  if (auto shardings = op->getAttrOfType<ArrayAttr>("shardings"))
    return at(shardings, number);
  return {};
}
