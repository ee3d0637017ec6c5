//===- ProgramStates.cpp - States of a plan, for traces -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramStates.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::prove;

Axes heddle::prove::axesOf(dist::TensorShardingAttr sharding) {
  Axes axes = prove::axisBits(planir::namesOf(sharding.getUnreduced()));
  for (auto names : sharding.getDims().getAsRange<ArrayAttr>())
    axes |= prove::axisBits(planir::namesOf(names));
  return axes;
}

int64_t heddle::prove::firstOf(planir::BytesAttr bytes,
                               planir::MemoryKind memory) {
  int64_t first = 0;
  for (planir::MemoryKind before : planir::memoryKinds) {
    if (before == memory)
      break;
    first += bytes.of(before);
  }
  return first;
}

/// The offset of the first byte of a state or flat tensor. The prove phase
/// counts the persistent bytes of all kinds of memory as one range, one kind
/// after the other. A flat tensor holds several parameters in a row.
template <typename StateOp> static int64_t beginOf(StateOp state) {
  auto program = cast<planir::ProgramOp>(state->getParentOp());
  return firstOf(program.getPersistentBytes(), state.getMemory()) +
         static_cast<int64_t>(state.getOffset());
}

int64_t heddle::prove::firstOf(const SymbolTable &symbols, StringRef state) {
  Operation *op = symbols.lookup(state);
  if (auto flat = dyn_cast<planir::FlatOp>(op))
    return beginOf(flat);
  return beginOf(cast<planir::StateOp>(op));
}

std::vector<std::string> heddle::prove::rowAxesAt(planir::ProgramOp program,
                                                  int64_t begin) {
  for (auto state : program.getOps<planir::StateOp>()) {
    auto storage = state.getLike().getAs<dist::TensorShardingAttr>("storage");
    if (storage && !storage.getDims().empty() && !state.getFlat() &&
        beginOf(state) == begin)
      return planir::namesOf(cast<ArrayAttr>(storage.getDims()[0]));
  }
  return {};
}

/// Whether an optimizer update writes the parameter from which the state is
/// computed. True if the program has no such parameter.
static bool isTrained(planir::StateOp state) {
  auto name = state.getLike().getAs<StringAttr>("parameter");
  auto parameter =
      name ? SymbolTable::lookupNearestSymbolFrom<planir::StateOp>(state, name)
           : planir::StateOp();
  return !parameter || parameter.getLike().contains("trainable");
}

std::vector<State> heddle::prove::statesOf(planir::ProgramOp program) {
  std::vector<State> states;
  llvm::StringMap<State> flats;
  for (auto flat : program.getOps<planir::FlatOp>()) {
    int64_t begin = beginOf(flat);
    State &state = flats[flat.getSymName()];
    state.range = {begin, begin + dist::byteSize(flat.getType())};
    state.name = flat.getSymName().str();
    state.isOffloaded = flat.getMemory() != planir::MemoryKind::Device;
    state.axes = prove::axisBits(planir::namesOf(flat.getAxes()));
  }
  for (auto op : program.getOps<planir::StateOp>()) {
    int64_t begin = beginOf(op);
    State state;
    state.range = {begin, begin + dist::byteSize(op.getType())};
    state.name = op.getSymName().str();
    state.isOffloaded = op.getMemory() != planir::MemoryKind::Device;
    DictionaryAttr like = op.getLike();
    if (auto storage = like.getAs<dist::TensorShardingAttr>("storage"))
      state.axes = axesOf(storage);
    if (auto role = planir::roleOf(op)) {
      state.hasSlots = *role == nn::StateRole::Saved;
      state.ofStep = !state.hasSlots && nn::isMadeInStep(*role);
      state.isCache = *role == nn::StateRole::Cache;
      state.isCopy = *role == nn::StateRole::Derived &&
                     !like.contains("packed") && isTrained(op);
      state.lasts = !state.hasSlots && !state.ofStep;
    }
    if (!op.getFlat()) {
      states.push_back(std::move(state));
      continue;
    }
    // A member of a bucket has its bytes inside the bucket's flat tensor. The
    // flat tensor has each of these properties that any of its members has.
    State &flat = flats[*op.getFlat()];
    flat.axes |= state.axes;
    flat.lasts |= state.lasts;
    flat.ofStep |= state.ofStep;
    flat.isCopy |= state.isCopy;
  }
  for (auto &flat : flats)
    states.push_back(flat.second);
  llvm::sort(states, [](const State &a, const State &b) {
    return a.range.begin < b.range.begin;
  });
  return states;
}

/// Returns the name of a parameter. If the state is a parameter, it is the
/// state's own name. If the state is a gradient or moment, it is the name of
/// its parameter. Otherwise the name is empty.
static StringRef parameterOf(planir::StateOp state) {
  if (planir::roleOf(state) == nn::StateRole::Parameter)
    return state.getSymName();
  auto of = state.getLike().getAs<StringAttr>("parameter");
  return of ? of.getValue() : StringRef();
}

std::vector<Member> heddle::prove::membersOf(planir::ProgramOp program) {
  std::vector<Member> members;
  // Adds a state, or a flat tensor with several states, to the result. A flat
  // tensor gets the name of its first state.
  auto add = [&](int64_t begin, Type type, planir::StateOp state) {
    StringRef parameter = parameterOf(state), kind = state.getSymName();
    if (parameter.empty())
      return;
    if (kind.consume_front(parameter))
      kind.consume_front(".");
    members.push_back({{begin, begin + dist::byteSize(type)},
                       dist::byteSize(getElementTypeOrSelf(type)),
                       parameter.str(),
                       kind.str()});
  };
  // By the name of a flat tensor: the state with the lowest offset in it.
  llvm::StringMap<planir::StateOp> first;
  for (auto state : program.getOps<planir::StateOp>())
    if (!state.getFlat()) {
      add(beginOf(state), state.getType(), state);
    } else {
      planir::StateOp &begin = first[*state.getFlat()];
      if (!begin || state.getOffset() < begin.getOffset())
        begin = state;
    }
  for (auto flat : program.getOps<planir::FlatOp>())
    if (planir::StateOp state = first.lookup(flat.getSymName()))
      add(beginOf(flat), flat.getType(), state);
  llvm::sort(members, [](const Member &a, const Member &b) {
    return a.range.begin < b.range.begin;
  });
  return members;
}
