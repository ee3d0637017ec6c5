//===- Storage.cpp - Which values share memory ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Storage.h"
#include "Collectives.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Memory/Packing.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

MutableArrayRef<Region> heddle::memory::bodiesOf(Operation *op) {
  if (isa<nn::MicroBatchesOp, pipe::FragmentsOp>(op))
    return op->getRegions();
  return {};
}

Storage::Storage(FunctionOpInterface function, const SymbolTable &symbols)
    : function(function), symbols(symbols),
      operandAlignment(operandAlignmentFor(
          function->getParentOfType<nn::ModelOp>().getStrategy().getValue())) {
  Block &body = function.getFunctionBody().front();
  findAccesses();
  assignArguments();
  assign(body);
  forward(body);
}

int64_t Storage::addRoot(Root::Kind kind, Value value, int64_t index,
                         StringRef name) {
  Root root;
  root.kind = kind;
  root.index = index;
  root.name = name;
  root.value = value;
  root.type = cast<RankedTensorType>(value.getType());
  roots.push_back(root);
  return rootIndex[value] = roots.size() - 1;
}

//===----------------------------------------------------------------------===//
// Where values are stored
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

void Storage::assignLaunch(planir::LaunchOp launch) {
  auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
  assignResults(launch, kernel.getTies());
  for (auto [result, tie] : llvm::zip(launch->getResults(), kernel.getTies())) {
    Root &root = rootOf(result);
    root.leadingDimension = kernel.getLeadingDimension(
        kernel.getLaunchOperandOf(cast<OpResult>(result).getResultNumber()));
    if (kernel.getOnHost() && tie < 0)
      root.memory = nn::MemoryKind::Pinned;
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

/// Whether the value is only sent to other ranks. A slice for which this holds
/// need not be aligned, because a message may begin at any address.
static bool isOnlySent(Value value) {
  return !value.use_empty() &&
         llvm::all_of(value.getUsers(), llvm::IsaPred<dist::SendOp>);
}

void Storage::assignSlice(Operation *op, int64_t of, Value number,
                          ArrayAttr axes) {
  Value part = op->getResult(0);
  if (isAligned(part.getType()) || isOnlySent(part))
    return addSlice(part, of, number, axes);
  addRoot(Root::Kind::Frame, op->getResult(0));
  copies.insert({op, 0});
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

/// Finds out whether `pack` joins all tensors that were unpacked from one flat
/// buffer, in their original order. The buffer itself can then be the result of
/// `pack`. Returns the index of the buffer in `roots`, or -1.
int64_t Storage::unpackedOf(nn::PackOp pack) {
  int64_t element = 0;
  const Root &first = rootOf(pack.getMembers().front());
  if (first.kind != Root::Kind::Part ||
      roots[first.index].type != pack.getFlat().getType())
    return -1;
  for (Value member : pack.getMembers()) {
    const Root &root = rootOf(member);
    if (root.kind != Root::Kind::Part || root.index != first.index ||
        root.element != element)
      return -1;
    element += nn::paddedElements(root.type.getNumElements());
  }
  return first.index;
}

/// If `pack` joins all tensors that were unpacked from one flat buffer and
/// changed in place, the result of `pack` is this buffer. Otherwise the result
/// gets a new buffer.
void Storage::assignPack(nn::PackOp pack) {
  int64_t whole = unpackedOf(pack);
  if (whole < 0)
    roots[addRoot(Root::Kind::Frame, pack.getFlat())].memory =
        rootOf(pack.getMembers().front()).memory;
  else
    rootIndex[pack.getFlat()] = whole;
}

/// Whether nothing reads the value's bytes after `reader`. The value must have
/// no other use. If it was read from a state, no later operation may read that
/// state.
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

/// Chooses where the result of a collective is stored. If nothing reads the
/// operand later, an all-reduce is done in place. In the same case, a
/// reduce-scatter of a one-dimensional state writes to this rank's shard within
/// the state. Otherwise the result gets a buffer.
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
        assignSlice(get, stateRoot(get.getState()), get.getSlot());
      else
        addRoot(stale ? Root::Kind::Frame : Root::Kind::State, get.getValue(),
                0, stale ? "" : get.getState());
      if (stale)
        copies.insert({get, 0});
    }
    if (auto slice = dyn_cast<nn::MicroBatchOp>(op))
      assignSlice(slice, indexOf(slice.getInput()), slice.getIndex());
    if (auto slice = dyn_cast<dist::SliceOp>(op))
      assignSlice(slice, indexOf(slice.getInput()), Value(), slice.getAxes());
    if (auto unpack = dyn_cast<nn::UnpackOp>(op))
      assignUnpack(unpack);
    if (auto pack = dyn_cast<nn::PackOp>(op))
      assignPack(pack);
    if (auto fetch = dyn_cast<dist::FetchOp>(op))
      addRoot(Root::Kind::Frame, fetch.getOutput());
    if (auto rows = dyn_cast<dist::FetchRowsOp>(op))
      addRoot(Root::Kind::Frame, rows.getOutput());
    if (auto move = dyn_cast<dist::MoveOp>(op))
      roots[addRoot(Root::Kind::Frame, move.getOutput())].memory =
          move.getToHost() ? nn::MemoryKind::Pinned : nn::MemoryKind::Device;
    if (auto received = dyn_cast<dist::RecvOp>(op))
      addRoot(Root::Kind::Frame, received.getValue());
    if (auto wait = dyn_cast<dist::WaitOp>(op))
      share(wait.getOutput(), wait.getInput());
    if (isCollective(&op))
      assignCollective(&op);
    if (auto launch = dyn_cast<planir::LaunchOp>(op))
      assignLaunch(launch);
    if (auto call = dyn_cast<nn::CallOp>(op))
      assignResults(&op,
                    *symbols.lookup<nn::FuncOp>(call.getCallee()).getTies());
    for (Region &body : bodiesOf(&op))
      assign(body.front());
  }
}

//===----------------------------------------------------------------------===//
// Computing values in their final memory
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

/// The states that `name` refers to: the members of a bucket, or one state.
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

/// Records for every state which operations read and write it. An operation
/// that reads or writes a bucket counts for every member of the bucket.
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

/// Whether the value that `get` reads from a state is used after the state was
/// overwritten. The value must then be copied.
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
          // After this write the state holds the same value as before.
          continue;
        for (Operation *user : value.getUsers()) {
          Operation *here = block->findAncestorOpInBlock(*user);
          // If the write is in a loop, any use in the same loop counts as a use
          // after the write, because the next iteration runs it after the
          // write.
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

SmallVector<std::pair<int64_t, int64_t>> Storage::paddingOf(nn::PackOp pack) {
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

/// Lets the tensors that `pack` joins be computed directly in the memory of its
/// result. A tensor for which this is impossible is copied to the result.
void Storage::forwardPack(nn::PackOp pack) {
  if (rootOf(pack.getFlat()).value != pack.getFlat())
    return; // The members were computed in place already.
  int64_t element = 0, flat = indexOf(pack.getFlat());
  for (auto [number, member] : llvm::enumerate(pack.getMembers())) {
    Root &root = rootOf(member);
    Operation *definition = root.value.getDefiningOp();
    bool movable = root.kind == Root::Kind::Frame && definition &&
                   definition->getBlock() == pack->getBlock() &&
                   root.memory == roots[flat].memory;
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

/// Whether the value that `set` writes is still used after the state is written
/// again.
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

/// Returns the operation that writes the bytes of a value. An asynchronous
/// operation writes its result from its start on, not only when it is waited
/// for.
static Operation *makerOf(Value value) {
  auto wait = value.getDefiningOp<dist::WaitOp>();
  return (wait ? wait.getInput() : value).getDefiningOp();
}

/// Whether a value and a state are in the same kind of memory, so that the
/// value could be computed in the state.
bool Storage::isInMemoryOf(const Root &root, nn::SetOp set) const {
  nn::MemoryKind memory = memoryOf(symbols, set.getState());
  return (root.memory == nn::MemoryKind::Device) ==
         (memory == nn::MemoryKind::Device);
}

void Storage::forwardSet(nn::SetOp set) {
  Root &root = rootOf(set.getValue());
  if (root.kind == Root::Kind::State && root.name == set.getState())
    return;
  Operation *definition = root.value.getDefiningOp();
  // Tensors that nn.pack joins may be computed directly in the memory of its
  // result. This memory is then in use from the first of these computations on.
  if (auto pack = dyn_cast_or_null<nn::PackOp>(definition))
    for (Value member : pack.getMembers())
      if (Operation *made = makerOf(member);
          made && made->getBlock() == definition->getBlock() &&
          made->isBeforeInBlock(definition))
        definition = made;
  if (root.kind == Root::Kind::Frame && definition &&
      definition->getBlock() == set->getBlock() && isInMemoryOf(root, set) &&
      !readLater(set, definition) && !outlives(set)) {
    if (set.getSlot()) {
      if (!isAligned(set.getValue().getType())) {
        copies.insert({set, 0});
        return;
      }
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
