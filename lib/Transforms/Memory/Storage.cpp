//===- Storage.cpp - Which value lives where ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Storage.h"
#include "dialects/NN/Ports.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

MutableArrayRef<Region> heddle::memory::bodiesOf(Operation *op) {
  if (isa<nn::MicroBatchesOp, pipe::FragmentsOp>(op))
    return op->getRegions();
  return {};
}

bool heddle::memory::isCollective(Operation *op) {
  return isa<dist::AllReduceOp, dist::ReduceScatterOp, dist::AllGatherOp,
             dist::AllToAllOp, dist::RotateOp>(op);
}

plan::PartLayout
heddle::memory::layoutOf(RankedTensorType type, int64_t dim,
                         std::optional<ArrayRef<int64_t>> segments) {
  plan::PartLayout layout;
  int64_t inner = 1;
  for (int64_t i = 0; i < type.getRank(); ++i)
    (i < dim ? layout.outer : inner) *= i == dim ? 1 : type.getDimSize(i);
  if (segments)
    for (int64_t extent : *segments)
      layout.segments.push_back(extent * inner);
  return layout;
}

plan::CollectiveShape heddle::memory::shapeOf(Operation *op,
                                              const SymbolTable &symbols) {
  auto in = cast<RankedTensorType>(op->getOperand(0).getType());
  auto out = cast<RankedTensorType>(op->getResult(0).getType());
  plan::CollectiveShape shape;
  shape.type = shape.wire = planir::dtypeOf(in.getElementType());
  if (auto wire = op->getAttrOfType<TypeAttr>("wire"))
    shape.wire = planir::dtypeOf(wire.getValue());
  auto mesh = symbols.lookup<dist::MeshOp>("mesh");
  for (auto axis :
       op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>())
    shape.ranks *= mesh ? mesh.getAxisSize(axis) : 1;
  shape.count = std::max(in.getNumElements(), out.getNumElements());
  std::optional<ArrayRef<int64_t>> segments;
  if (auto list = op->getAttrOfType<DenseI64ArrayAttr>("segments"))
    segments = list.asArrayRef();
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    shape.kind = plan::CollectiveKind::ReduceScatter;
    shape.layout = layoutOf(in, scatter.getDim(), segments);
  } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
    shape.kind = plan::CollectiveKind::AllGather;
    shape.layout = layoutOf(out, gather.getDim(), segments);
  } else if (isa<dist::RotateOp>(op)) {
    shape.kind = plan::CollectiveKind::Rotate;
  } else if (auto exchange = dyn_cast<dist::AllToAllOp>(op)) {
    shape.kind = plan::CollectiveKind::AllToAll;
    // The segments belong to the dimension of the features, the last one.
    bool splitsLast =
        static_cast<int64_t>(exchange.getSplitDim()) == in.getRank() - 1;
    shape.layout = layoutOf(in, exchange.getSplitDim(),
                            splitsLast ? segments : std::nullopt);
    shape.concat = layoutOf(out, exchange.getConcatDim(),
                            splitsLast ? std::nullopt : segments);
  }
  return shape;
}

Storage::Storage(FunctionOpInterface function, const SymbolTable &symbols,
                 bool library, function_ref<int64_t(StringRef)> frameOf)
    : function(function), symbols(symbols), library(library) {
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
  root.interval.bytes = dist::byteSize(root.type);
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
    auto kind = step ? Root::Kind::Port : Root::Kind::Argument;
    int64_t root = addRoot(kind, argument, number);
    if (step)
      roots[root].input = cast<nn::PortAttr>(step.getInputs()[number]);
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

int64_t Storage::stateRoot(StringRef name) {
  auto [entry, isNew] = stateRoots.try_emplace(name, roots.size());
  if (isNew) {
    Root root;
    root.kind = Root::Kind::State;
    root.name = entry->getKey();
    root.type = symbols.lookup<nn::StateOp>(name).getTensorType();
    roots.push_back(root);
  }
  return entry->second;
}

void Storage::addSlice(Value value, int64_t of, Value number, ArrayAttr axes) {
  Root &root = roots[addRoot(Root::Kind::Slice, value, of)];
  root.number = number;
  root.axes = axes;
}

void Storage::assignUnpack(nn::UnpackOp unpack) {
  int64_t element = 0;
  for (Value member : unpack.getMembers()) {
    Root &root =
        roots[addRoot(Root::Kind::Part, member, indexOf(unpack.getFlat()))];
    root.element = element;
    element += nn::paddedElements(root.type.getNumElements());
  }
}

/// Whether nothing reads the value's bytes after `reader`: it has no other use,
/// and if it is a state's, no later operation reads the state.
bool Storage::isLastRead(Operation *reader, Value value) {
  const Root &root = rootOf(value);
  if (!value.hasOneUse() || reader->getParentOp() != function)
    return false;
  if (root.kind == Root::Kind::Frame)
    return true;
  if (root.kind != Root::Kind::State)
    return false;
  auto isLater = [&](nn::GetOp get) {
    return get->getBlock() == reader->getBlock() &&
           reader->isBeforeInBlock(get);
  };
  return llvm::none_of(statesOf(root.name), [&](StringRef state) {
    return llvm::any_of(reads[state], isLater);
  });
}

/// A sum takes the place of what it is a sum of where nobody reads that again;
/// a rank's part of a state's sum, that part of the state.
void Storage::assignCollective(Operation *op) {
  Value input = op->getOperand(0), output = op->getResult(0);
  bool inPlace = isLastRead(op, input);
  if (isa<dist::AllReduceOp>(op) && inPlace)
    return share(output, input);
  auto scatter = dyn_cast<dist::ReduceScatterOp>(op);
  if (scatter && inPlace && rootOf(input).kind == Root::Kind::State &&
      rootOf(input).type.getRank() == 1)
    return addSlice(output, indexOf(input), Value(), scatter.getAxes());
  addRoot(Root::Kind::Frame, output);
}

void Storage::assign(Block &block) {
  for (Operation &op : block) {
    if (auto get = dyn_cast<nn::GetOp>(op)) {
      bool stale = isStale(get);
      if (get.getSlot() && !stale)
        addSlice(get.getValue(), stateRoot(get.getState()), get.getSlot());
      else
        addRoot(stale ? Root::Kind::Frame : Root::Kind::State, get.getValue(),
                0, stale ? "" : get.getState());
      if (stale)
        copies.insert({get, 0});
    }
    if (auto slice = dyn_cast<nn::MicroBatchOp>(op))
      addSlice(slice.getOutput(), indexOf(slice.getInput()), slice.getIndex());
    if (auto slice = dyn_cast<dist::SliceOp>(op))
      addSlice(slice.getOutput(), indexOf(slice.getInput()), Value(),
               slice.getAxes());
    if (auto unpack = dyn_cast<nn::UnpackOp>(op))
      assignUnpack(unpack);
    if (auto pack = dyn_cast<nn::PackOp>(op))
      addRoot(Root::Kind::Frame, pack.getFlat());
    if (auto received = dyn_cast<dist::RecvOp>(op))
      addRoot(Root::Kind::Frame, received.getValue());
    if (auto wait = dyn_cast<dist::WaitOp>(op))
      share(wait.getOutput(), wait.getInput());
    if (isCollective(&op))
      assignCollective(&op);
    if (auto launch = dyn_cast<planir::LaunchOp>(op))
      assignResults(
          &op, symbols.lookup<planir::KernelOp>(launch.getKernel()).getTies());
    if (auto call = dyn_cast<nn::CallOp>(op))
      assignResults(&op,
                    *symbols.lookup<nn::FuncOp>(call.getCallee()).getTies());
    for (Region &body : bodiesOf(&op))
      assign(body.front());
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
    if (auto pack = dyn_cast<nn::PackOp>(op))
      forwardPack(pack);
    for (Region &body : bodiesOf(&op))
      forward(body.front());
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
SmallVector<Value> Storage::sharing(Value value) {
  SmallVector<Value> values = {value};
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      Operation *op = use.getOwner();
      std::optional<ArrayRef<int64_t>> tied;
      if (auto launch = dyn_cast<planir::LaunchOp>(op))
        tied = symbols.lookup<planir::KernelOp>(launch.getKernel()).getTies();
      if (auto call = dyn_cast<nn::CallOp>(op))
        tied = symbols.lookup<nn::FuncOp>(call.getCallee()).getTies();
      for (auto [result, tie] :
           llvm::zip(op->getResults(), tied.value_or(ArrayRef<int64_t>())))
        if (tie == use.getOperandNumber())
          values.push_back(result);
    }
  return values;
}

bool Storage::isStale(nn::GetOp get) {
  Block *block = get->getBlock();
  DenseSet<Operation *> seen;
  SmallVector<Value> values = sharing(get.getValue());
  for (StringRef state : statesOf(get.getState()))
    for (nn::SetOp set : writes[state]) {
      Operation *written = block->findAncestorOpInBlock(*set);
      if (!seen.insert(set).second || !written ||
          !get->isBeforeInBlock(written))
        continue;
      for (Value value : values) {
        if (value == set.getValue())
          continue; // Which is what the state holds from then on.
        for (Operation *user : value.getUsers()) {
          Operation *here = block->findAncestorOpInBlock(*user);
          // A loop that writes the state reads it again in its next iteration.
          if (written == set ? written->isBeforeInBlock(here)
                             : !here->isBeforeInBlock(written))
            return true;
        }
      }
    }
  return false;
}

bool Storage::readLater(nn::SetOp set, Operation *definition) {
  DenseSet<Operation *> seen;
  for (StringRef state : statesOf(set.getState()))
    for (nn::GetOp get : reads[state]) {
      if (!seen.insert(get).second || get->getBlock() != set->getBlock() ||
          copies.contains({get, 0}))
        continue;
      for (Value value : sharing(get.getValue()))
        for (Operation *user : value.getUsers()) {
          Operation *here = set->getBlock()->findAncestorOpInBlock(*user);
          if (here && get->isBeforeInBlock(set) &&
              (definition->getBlock() != set->getBlock() ||
               !here->isBeforeInBlock(definition)))
            return true;
        }
    }
  return false;
}

SmallVector<std::pair<int64_t, int64_t>> Storage::gapsOf(nn::PackOp pack) {
  SmallVector<std::pair<int64_t, int64_t>> gaps;
  int64_t begin = 0;
  for (Type type : pack.getMembers().getTypes()) {
    int64_t elements = cast<RankedTensorType>(type).getNumElements();
    int64_t padded = nn::paddedElements(elements);
    if (padded != elements)
      gaps.push_back({begin + elements, padded - elements});
    begin += padded;
  }
  int64_t whole =
      cast<RankedTensorType>(pack.getFlat().getType()).getNumElements();
  if (whole != begin)
    gaps.push_back({begin, whole - begin});
  return gaps;
}

/// Members are made in the packed value; what cannot be is copied there.
void Storage::forwardPack(nn::PackOp pack) {
  int64_t element = 0, flat = indexOf(pack.getFlat());
  for (auto [number, member] : llvm::enumerate(pack.getMembers())) {
    Root &root = rootOf(member);
    Operation *definition = root.value.getDefiningOp();
    bool movable = root.kind == Root::Kind::Frame && definition &&
                   definition->getBlock() == pack->getBlock();
    if (movable) {
      root.kind = Root::Kind::Part;
      root.index = flat;
      root.element = element;
    } else {
      copies.insert({pack, number});
    }
    element += nn::paddedElements(
        cast<RankedTensorType>(member.getType()).getNumElements());
  }
}

bool Storage::isSentFromSlot(dist::SendOp send) {
  const Root &root = rootOf(send.getValue());
  return root.kind == Root::Kind::Slice && root.number &&
         roots[root.index].kind == Root::Kind::State;
}

/// Whether the value is still read when the state has been written again.
bool Storage::outlives(nn::SetOp set) {
  Block *block = set->getBlock();
  for (Operation *user : set.getValue().getUsers()) {
    Operation *here = block->findAncestorOpInBlock(*user);
    if (user == set || !here || !set->isBeforeInBlock(here))
      continue;
    for (StringRef state : statesOf(set.getState()))
      for (nn::SetOp other : writes[state]) {
        Operation *written = block->findAncestorOpInBlock(*other);
        if (other != set && written && set->isBeforeInBlock(written) &&
            !here->isBeforeInBlock(written))
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
      !readLater(set, definition) && !outlives(set)) {
    if (set.getSlot()) {
      int64_t state = stateRoot(set.getState());
      Root &moved = rootOf(set.getValue());
      moved.kind = Root::Kind::Slice;
      moved.index = state;
      moved.number = set.getSlot();
      return;
    }
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
  port.input = {};
  port.output = nn::portOfKept(kept);
  port.value = Value();
  if (int64_t count = pipe::microBatchesAt(kept)) {
    SmallVector<int64_t> shape = {count};
    llvm::append_range(shape, port.type.getShape());
    port.type = RankedTensorType::get(shape, port.type.getElementType());
  }
  port.interval.bytes = dist::byteSize(port.type);
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
    auto output =
        step ? cast<nn::PortAttr>(step.getOutputs()[number]) : nn::PortAttr();
    auto kind = step ? Root::Kind::Port : Root::Kind::Output;
    if (root.kind == Root::Kind::Frame) {
      root.kind = kind;
      root.index = number;
      root.output = output;
      continue;
    }
    Root place = root;
    place.kind = kind;
    place.index = number;
    place.input = {};
    place.output = output;
    place.value = Value();
    roots.push_back(place);
    copies.insert({terminator, number});
    ports[{terminator, number}] = roots.size() - 1;
  }
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

/// How many commands the operation becomes, without those of its regions.
int64_t Storage::commandsOf(Operation *op) {
  if (isa<planir::LaunchOp, nn::CallOp, nn::MicroBatchesOp, pipe::FragmentsOp,
          dist::RecvOp, dist::WaitOp>(op))
    return 1;
  if (isCollective(op)) // The start, and the wait unless that comes later.
    return op->hasAttr("pending") ? 1 : 2;
  if (auto send = dyn_cast<dist::SendOp>(op))
    return isSentFromSlot(send) ? 1 : 2;
  int64_t count = 0;
  if (auto pack = dyn_cast<nn::PackOp>(op))
    count += gapsOf(pack).size();
  bool many = isa<nn::PackOp>(op) ||
              (isa<nn::ReturnOp>(op) && op->getParentOp() == function);
  for (unsigned number = 0; number < (many ? op->getNumOperands() : 1);
       ++number)
    count += copies.contains({op, number});
  return count;
}

void Storage::number(Block &block) {
  for (Operation &op : block) {
    positions[&op] = commands;
    commands += commandsOf(&op);
    for (Region &body : bodiesOf(&op)) {
      // A fragment first makes sure that the slots it sends from are free.
      for (auto send : body.getOps<dist::SendOp>())
        commands += isSentFromSlot(send);
      number(body.front());
    }
    if (!bodiesOf(&op).empty())
      loopEnds[&op] = commands - 1;
  }
}

/// Extends the lifetime of the value's bytes to the user: to the end of a loop
/// that the user is in and the value is not.
void Storage::use(Value value, Operation *user) {
  if (!isa<RankedTensorType>(value.getType()))
    return;
  Root *root = &rootOf(value);
  while (root->kind == Root::Kind::Slice || root->kind == Root::Kind::Part)
    root = &roots[root->index];
  if (root->kind != Root::Kind::Frame)
    return;
  Operation *definition = root->value.getDefiningOp();
  int64_t position = positions.lookup(user);
  root->interval.first = std::min(root->interval.first, position);
  position += std::max<int64_t>(commandsOf(user) - 1, 0);
  if (isa<nn::ReturnOp>(user))
    position = commands;
  for (Operation *loop = user->getParentOp(); loop && loop != function;
       loop = loop->getParentOp())
    if (!loop->isProperAncestor(definition))
      position = std::max(position, loopEnds.lookup(loop));
  root->interval.last = std::max(root->interval.last, position);
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
    // What a command writes is in use at the command, too: a part of a packed
    // value is written before that is there as a whole.
    if (isa<planir::LaunchOp, nn::CallOp, dist::RecvOp>(op) || isCollective(op))
      for (Value result : op->getResults())
        use(result, op);
    bool reads = isa<planir::LaunchOp, nn::CallOp, nn::ReturnOp, nn::PackOp,
                     dist::SendOp, dist::WaitOp>(op) ||
                 isCollective(op) || copies.contains({op, 0});
    if (reads)
      for (Value operand : op->getOperands())
        use(operand, op);
    if (auto pack = dyn_cast<nn::PackOp>(op))
      use(pack.getFlat(), op);
    Operation *start = op;
    if (auto wait = dyn_cast<dist::WaitOp>(op)) {
      start = wait.getInput().getDefiningOp();
      use(start->getOperand(0), op);
    }
    if (isCollective(start)) {
      Interval &bytes = staging[start];
      bytes.bytes = plan::stagingBytes(shapeOf(start, symbols), library);
      bytes.first = positions.lookup(start);
      bytes.last = positions.lookup(op) + commandsOf(op) - 1;
    }
  });
}

void Storage::packFrame() {
  SmallVector<Interval *> places;
  for (Root &root : roots)
    if (root.kind == Root::Kind::Frame || root.kind == Root::Kind::Port)
      places.push_back(&root.interval);
  for (auto &[call, frame] : frames)
    places.push_back(&frame);
  for (auto &[collective, bytes] : staging)
    places.push_back(&bytes);
  SmallVector<Interval> intervals;
  for (Interval *place : places)
    intervals.push_back(*place);
  frameBytes = pack(intervals);
  for (auto [place, packed] : llvm::zip(places, intervals))
    *place = packed;
}
