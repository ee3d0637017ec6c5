//===- Updates.cpp - What updates read and write --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Updates.h"
#include "dialects/Plan/PlanDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::states;

nn::StateRole UpdateReader::roleOf(StringRef state) {
  return symbols.lookup<nn::StateOp>(state).getRole();
}

StringRef UpdateReader::parameterOf(StringRef name) {
  auto state = symbols.lookup<nn::StateOp>(name);
  return state.getParameter().value_or(name);
}

Block *UpdateReader::kernelOf(Operation *op) {
  auto launch = dyn_cast_or_null<planir::LaunchOp>(op);
  auto kernel = launch ? symbols.lookup<planir::KernelOp>(launch.getKernel())
                       : planir::KernelOp();
  return kernel ? &kernel.getBody().front() : nullptr;
}

bool UpdateReader::isOptimizers(Operation *op) {
  auto updates = [](Operation &op) { return op.hasTrait<nn::Updates>(); };
  Block *kernel = kernelOf(op);
  return op && (updates(*op) || (kernel && llvm::any_of(*kernel, updates)));
}

bool UpdateReader::readsState(Operation *op, StringRef name) {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *from = makerOf(operand);
    if (auto get = dyn_cast_or_null<nn::GetOp>(from))
      return get.getState() == name;
    return isOptimizers(from) && readsState(from, name);
  });
}

bool UpdateReader::readsParametersOf(Operation *op, StringRef name) {
  StringRef parameter = nn::stringifyStateRole(nn::StateRole::Parameter);
  ArrayRef<StringRef> wanted =
      parametersOf(name, nn::stringifyStateRole(nn::StateRole::Derived));
  return !wanted.empty() && isOptimizers(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           Operation *from = makerOf(operand);
           std::optional<Update> update = updateOf(from);
           auto get = dyn_cast_or_null<nn::GetOp>(
               update && update->newParameter == operand
                   ? makerOf(update->parameter)
                   : nullptr);
           return get && parametersOf(get.getState(), parameter) == wanted;
         });
}

static Update partsOf(nn::UpdateOp op) {
  return {op,
          op.getParameter(),
          op.getGradient(),
          SmallVector<Value>(op.getStates()),
          op.getNewParameter(),
          op.getCopy(),
          SmallVector<Value>(op.getNewStates())};
}

std::optional<Update> UpdateReader::updateOf(Operation *op) {
  if (auto update = dyn_cast_or_null<nn::UpdateOp>(op))
    return partsOf(update);
  Block *body = kernelOf(op);
  if (!body || body->getOps<nn::UpdateOp>().empty())
    return std::nullopt;
  Update update = partsOf(*body->getOps<nn::UpdateOp>().begin());
  update.op = op;
  auto outside = [&](Value &value) {
    auto argument = dyn_cast<BlockArgument>(value);
    value = argument ? op->getOperand(argument.getArgNumber()) : Value();
  };
  auto yielded = [&](Value &value) {
    auto results = body->getTerminator()->getOperands();
    auto result = llvm::find(results, value);
    value = result == results.end() ? Value()
                                    : op->getResult(result - results.begin());
  };
  outside(update.parameter);
  outside(update.gradient);
  llvm::for_each(update.states, outside);
  yielded(update.newParameter);
  yielded(update.copy);
  llvm::for_each(update.newStates, yielded);
  return update;
}

ArrayRef<StringRef> UpdateReader::parametersOf(StringRef name, StringRef kind) {
  auto [entry, isNew] = parameters.try_emplace({name, kind});
  if (!isNew)
    return entry->second;
  SmallVector<StringRef> found;
  for (StringRef state : statesOf(symbols, name)) {
    if (kindOf(state) != kind)
      return {};
    found.push_back(parameterOf(state));
  }
  entry->second = std::move(found);
  return entry->second;
}

ArrayRef<int64_t> UpdateReader::offsetsIn(Operation *op, TypeRange members) {
  auto [entry, isNew] = offsets.try_emplace(op);
  if (isNew)
    entry->second = offsetsOf(members);
  return entry->second;
}

StringRef UpdateReader::kindOf(StringRef state) {
  nn::StateRole role = roleOf(state);
  return role == nn::StateRole::Optimizer
             ? symbols.lookup<nn::StateOp>(state).getQuantity()
             : nn::stringifyStateRole(role);
}

int64_t UpdateReader::elementsOfState(StringRef name) {
  Operation *state = symbols.lookup(name);
  return elementsOf(state->getAttrOfType<TypeAttr>("type").getValue());
}

StateRange UpdateReader::rangeRead(Value value, StringRef kind) {
  StateRange range;
  range.count = range.whole = value ? elementsOf(value.getType()) : 0;
  bool isSliced = false; // Then offsets count elements of the rank's shard.
  for (Operation *op = nullptr; value && (op = value.getDefiningOp());
       value = op->getOperand(0)) {
    if (auto get = dyn_cast<nn::GetOp>(op)) {
      range.parameters = llvm::to_vector(parametersOf(get.getState(), kind));
      return range;
    }
    if (auto fetch = dyn_cast<dist::FetchOp>(op)) {
      range.parameters = llvm::to_vector(parametersOf(fetch.getState(), kind));
      if (isSliced)
        return range;
      range.first += fetch.getElement();
      range.whole = elementsOfState(fetch.getState());
      return range;
    }
    if (auto unpack = dyn_cast<nn::UnpackOp>(op)) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      range.first += offsetsIn(unpack, unpack.getMembers().getTypes())[number];
      range.whole = elementsOf(unpack.getFlat().getType());
    } else if (!isExchange(op)) {
      break;
    }
    isSliced |= isa<dist::SliceOp, dist::ReduceScatterOp>(op);
  }
  return StateRange();
}

StateRange UpdateReader::rangeWritten(Value value, StringRef kind,
                                      StateRange range) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto set = dyn_cast<nn::SetOp>(user)) {
      llvm::append_range(range.parameters, parametersOf(set.getState(), kind));
    } else if (auto store = dyn_cast<dist::StoreOp>(user)) {
      llvm::append_range(range.parameters,
                         parametersOf(store.getState(), kind));
      range.first += store.getElement();
      range.whole = elementsOfState(store.getState());
    } else if (auto pack = dyn_cast<nn::PackOp>(user)) {
      range.first +=
          offsetsIn(pack, pack.getMembers().getTypes())[use.getOperandNumber()];
      range.whole = elementsOf(pack.getFlat().getType());
      range = rangeWritten(pack.getFlat(), kind, range);
    } else if (isa<dist::MoveOp, dist::WaitOp>(user)) {
      range = rangeWritten(user->getResult(0), kind, range);
    } else if (isExchange(user)) {
      // After a collective or a slice, `range.first` (the offset of the value's
      // elements in the states) would be wrong: an all-gather's result, for
      // example, begins with the first rank's shard, not with this rank's.
      // Therefore begin with an empty range at the result, and add only the
      // parameters of that range to `range`.
      llvm::append_range(
          range.parameters,
          rangeWritten(user->getResult(0), kind, StateRange()).parameters);
    }
  }
  return range;
}

StateRange UpdateReader::rangeWritten(Value value, StringRef kind) {
  StateRange range;
  if (!value)
    return range;
  range.count = range.whole = elementsOf(value.getType());
  return rangeWritten(value, kind, range);
}
