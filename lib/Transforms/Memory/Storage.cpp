//===- Storage.cpp - Which value lives where ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Storage.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

int64_t heddle::memory::byteSize(RankedTensorType type) {
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

Storage::Storage(FunctionOpInterface function, const SymbolTable &symbols,
                 function_ref<int64_t(StringRef)> frameOf)
    : function(function), symbols(symbols) {
  Block &body = function.getFunctionBody().front();
  findAccesses();
  assignArguments();
  assign(body);
  forward(body);
  number(body);
  findLifetimes(frameOf);
  packFrame();
}

int64_t Storage::addRoot(Root::Kind kind, Value value, int64_t index,
                         StringRef name) {
  Root root;
  root.kind = kind;
  root.index = index;
  root.name = name;
  root.value = value;
  root.type = cast<RankedTensorType>(value.getType());
  root.interval.bytes = byteSize(root.type);
  roots.push_back(root);
  return rootIndex[value] = roots.size() - 1;
}

//===----------------------------------------------------------------------===//
// Roots
//===----------------------------------------------------------------------===//

void Storage::assignArguments() {
  auto step = dyn_cast<nn::StepOp>(function.getOperation());
  for (BlockArgument argument : function.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()))
      continue;
    unsigned number = argument.getArgNumber();
    if (step)
      addRoot(Root::Kind::Port, argument, number,
              cast<StringAttr>(step.getArgNames()[number]).getValue());
    else
      addRoot(Root::Kind::Argument, argument, number);
  }
}

void Storage::assignResults(Operation *op, ArrayRef<int64_t> tied) {
  for (auto [result, tie] : llvm::zip(op->getResults(), tied)) {
    if (tie >= 0)
      share(result, op->getOperand(tie));
    else
      addRoot(Root::Kind::Frame, result);
  }
}

void Storage::assign(Block &block) {
  for (Operation &op : block) {
    if (auto get = dyn_cast<nn::GetOp>(op)) {
      bool stale = isStale(get);
      addRoot(stale ? Root::Kind::Frame : Root::Kind::State, get.getValue(), 0,
              stale ? "" : get.getState());
      if (stale)
        copies.insert({get, 0});
    }
    if (auto slice = dyn_cast<nn::MicroBatchOp>(op))
      addRoot(Root::Kind::Slice, slice.getOutput(), indexOf(slice.getInput()));
    if (auto launch = dyn_cast<planir::LaunchOp>(op))
      assignResults(
          &op, symbols.lookup<planir::KernelOp>(launch.getKernel()).getTies());
    if (auto call = dyn_cast<nn::CallOp>(op))
      assignResults(&op,
                    *symbols.lookup<nn::FuncOp>(call.getCallee()).getTies());
    if (auto loop = dyn_cast<nn::MicroBatchesOp>(op))
      assign(loop.getBody().front());
  }
}

//===----------------------------------------------------------------------===//
// Making values where they are wanted
//===----------------------------------------------------------------------===//

void Storage::forward(Block &block) {
  for (Operation &op : block) {
    if (auto set = dyn_cast<nn::SetOp>(op))
      forwardSet(set);
    if (auto kept = dyn_cast<nn::KeepOp>(op))
      keep(kept);
    if (auto loop = dyn_cast<nn::MicroBatchesOp>(op))
      forward(loop.getBody().front());
  }
  auto terminator = dyn_cast<nn::ReturnOp>(block.getTerminator());
  if (terminator && terminator->getParentOp() == function)
    forwardReturn(terminator);
}

/// The states that a name stands for: a bucket's members, or the state itself.
ArrayRef<StringRef> Storage::statesOf(StringRef name) {
  SmallVector<StringRef> &states = members[name];
  if (!states.empty())
    return states;
  if (auto bucket = symbols.lookup<nn::BucketOp>(name))
    for (auto member : bucket.getMembers().getAsRange<FlatSymbolRefAttr>())
      states.push_back(member.getValue());
  else
    states.push_back(name);
  return states;
}

/// Notes for every state which operations read and write it, alone or as the
/// member of a bucket.
void Storage::findAccesses() {
  function->walk([&](Operation *op) {
    if (auto get = dyn_cast<nn::GetOp>(op))
      for (StringRef state : statesOf(get.getState()))
        reads[state].push_back(get);
    if (auto set = dyn_cast<nn::SetOp>(op))
      for (StringRef state : statesOf(set.getState()))
        writes[state].push_back(set);
  });
}

/// Whether the value that was read is used after its state was written: then
/// it must be copied while it is there.
bool Storage::isStale(nn::GetOp get) {
  Block *block = get->getBlock();
  DenseSet<Operation *> seen;
  for (StringRef state : statesOf(get.getState()))
    for (nn::SetOp set : writes[state]) {
      Operation *written = block->findAncestorOpInBlock(*set);
      if (!seen.insert(set).second || !written ||
          !get->isBeforeInBlock(written))
        continue;
      for (Operation *user : get.getValue().getUsers()) {
        Operation *here = block->findAncestorOpInBlock(*user);
        // A loop that writes the state reads it again in its next iteration.
        if (written == set ? written->isBeforeInBlock(here)
                           : !here->isBeforeInBlock(written))
          return true;
      }
    }
  return false;
}

/// Whether an old value of the state is read by `definition`, which would
/// overwrite it, or after it and before the set. Reads of the state are looked
/// for in the block of the set; a definition elsewhere counts as before all of
/// them.
bool Storage::readLater(nn::SetOp set, Operation *definition) {
  DenseSet<Operation *> seen;
  for (StringRef state : statesOf(set.getState()))
    for (nn::GetOp get : reads[state]) {
      if (!seen.insert(get).second || get->getBlock() != set->getBlock() ||
          copies.contains({get, 0}))
        continue;
      for (Operation *user : get.getValue().getUsers()) {
        Operation *here = set->getBlock()->findAncestorOpInBlock(*user);
        if (here && get->isBeforeInBlock(set) &&
            (definition->getBlock() != set->getBlock() ||
             !here->isBeforeInBlock(definition)))
          return true;
      }
    }
  return false;
}

void Storage::forwardSet(nn::SetOp set) {
  Root &root = rootOf(set.getValue());
  if (root.kind == Root::Kind::State && root.name == set.getState())
    return;
  Operation *definition = root.value.getDefiningOp();
  if (root.kind == Root::Kind::Frame && definition &&
      definition->getBlock() == set->getBlock() &&
      !readLater(set, definition)) {
    root.kind = Root::Kind::State;
    root.name = set.getState();
    return;
  }
  copies.insert({set, 0});
}

void Storage::keep(nn::KeepOp kept) {
  copies.insert({kept, 0});
  Root port = rootOf(kept.getValue());
  port.kind = Root::Kind::Port;
  // Uniqued by the context, so that the reference stays valid.
  StringRef path = kept.getPath();
  port.name =
      path == "logits"
          ? path
          : StringAttr::get(kept.getContext(), "value." + path).getValue();
  port.value = Value();
  if (auto loop = dyn_cast<nn::MicroBatchesOp>(kept->getParentOp())) {
    SmallVector<int64_t> shape = {static_cast<int64_t>(loop.getCount())};
    llvm::append_range(shape, port.type.getShape());
    port.type = RankedTensorType::get(shape, port.type.getElementType());
  }
  port.interval.bytes = byteSize(port.type);
  roots.push_back(port);
  ports[{kept, 0}] = roots.size() - 1;
}

void Storage::forwardReturn(nn::ReturnOp terminator) {
  auto step = dyn_cast<nn::StepOp>(function.getOperation());
  for (auto [number, value] : llvm::enumerate(terminator.getOperands())) {
    Root &root = rootOf(value);
    if (!step && root.kind == Root::Kind::Argument) {
      ties.push_back(root.index);
      continue;
    }
    ties.push_back(-1);
    StringRef name =
        step ? cast<StringAttr>(step.getResultNames()[number]).getValue() : "";
    auto kind = step ? Root::Kind::Port : Root::Kind::Output;
    if (root.kind == Root::Kind::Frame) {
      root.kind = kind;
      root.index = number;
      root.name = name;
      continue;
    }
    Root place = root;
    place.kind = kind;
    place.index = number;
    place.name = name;
    place.value = Value();
    roots.push_back(place);
    copies.insert({terminator, number});
    ports[{terminator, number}] = roots.size() - 1;
  }
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

void Storage::number(Block &block) {
  for (Operation &op : block) {
    if (auto loop = dyn_cast<nn::MicroBatchesOp>(op)) {
      positions[&op] = commands++;
      number(loop.getBody().front());
      loopEnds[&op] = commands - 1;
    } else if (isa<planir::LaunchOp, nn::CallOp>(op) ||
               copies.contains({&op, 0})) {
      positions[&op] = commands++;
    } else if (isa<nn::ReturnOp>(op) && op.getParentOp() == function) {
      positions[&op] = commands;
      for (unsigned number = 0; number < op.getNumOperands(); ++number)
        commands += copies.contains({&op, number});
    }
  }
}

/// Extends the lifetime of the value's bytes to the user: to the end of a loop
/// that the user is in and the value is not.
void Storage::use(Value value, Operation *user) {
  if (!isa<RankedTensorType>(value.getType()))
    return;
  Root &root = rootOf(value);
  if (root.kind != Root::Kind::Frame)
    return;
  Operation *definition = root.value.getDefiningOp();
  int64_t position = positions.lookup(user);
  if (isa<nn::ReturnOp>(user))
    position = commands;
  for (Operation *loop = user->getParentOp(); loop && loop != function;
       loop = loop->getParentOp())
    if (!loop->isProperAncestor(definition))
      position = std::max(position, loopEnds.lookup(loop));
  root.interval.last = std::max(root.interval.last, position);
}

void Storage::findLifetimes(function_ref<int64_t(StringRef)> frameOf) {
  for (Root &root : roots) {
    if (root.kind == Root::Kind::Frame)
      root.interval.first = root.interval.last =
          positions.lookup(root.value.getDefiningOp());
    if (root.kind == Root::Kind::Port) {
      root.interval.first = 0;
      root.interval.last = commands;
    }
  }
  function->walk([&](Operation *op) {
    if (auto call = dyn_cast<nn::CallOp>(op)) {
      Interval &frame = frames[op];
      frame.bytes = frameOf(call.getCallee());
      frame.first = frame.last = positions.lookup(op);
    }
    bool reads = isa<planir::LaunchOp, nn::CallOp, nn::ReturnOp>(op) ||
                 copies.contains({op, 0});
    if (reads)
      for (Value operand : op->getOperands())
        use(operand, op);
  });
}

void Storage::packFrame() {
  SmallVector<Interval> intervals;
  for (Root &root : roots)
    if (root.kind == Root::Kind::Frame || root.kind == Root::Kind::Port)
      intervals.push_back(root.interval);
  for (auto &[call, frame] : frames)
    intervals.push_back(frame);
  frameBytes = pack(intervals);
  auto next = intervals.begin();
  for (Root &root : roots)
    if (root.kind == Root::Kind::Frame || root.kind == Root::Kind::Port)
      root.interval = *next++;
  for (auto &[call, frame] : frames)
    frame = *next++;
}
