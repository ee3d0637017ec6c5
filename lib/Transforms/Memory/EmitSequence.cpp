//===- EmitSequence.cpp - Emits command sequences -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmitSequence.h"
#include "Collectives.h"
#include "Layout.h"
#include "dialects/NN/Conditions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

bool heddle::memory::isSplit(nn::BucketOp bucket) {
  return bucket.getElements().has_value();
}

SequenceEmitter::SequenceEmitter(FunctionOpInterface function,
                                 const SymbolTable &symbols, Storage &storage,
                                 planir::ProgramOp program, bool library)
    : function(function), symbols(symbols), storage(storage), program(program),
      library(library), builder(OpBuilder::atBlockEnd(program.getBodyBlock())),
      overlap(symbols) {}

planir::SequenceOp SequenceEmitter::emit() {
  auto step = dyn_cast<nn::StepOp>(function.getOperation());
  SmallVector<Type> inputs;
  if (!step) {
    for (Type type : function.getArgumentTypes()) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      inputs.push_back(tensor ? Type(dist::memoryOf(tensor)) : type);
    }
    for (auto [type, tie] : llvm::zip(function.getResultTypes(), storage.ties))
      if (tie < 0)
        inputs.push_back(dist::memoryOf(cast<RankedTensorType>(type)));
  }
  sequence = builder.create<planir::SequenceOp>(
      function.getLoc(), function.getName(),
      builder.getFunctionType(inputs, {}), /*frameBytes=*/0);
  if (step) {
    sequence.setKindAttr(step.getKindAttr());
    sequence.setPhaseAttr(step.getPhaseAttr());
    sequence.setPortsAttr(step.getPortsAttr());
  }
  Block *body = builder.createBlock(
      &sequence.getBody(), {}, inputs,
      SmallVector<Location>(inputs.size(), function.getLoc()));
  Operation *end = builder.create<planir::EndOp>(function.getLoc());

  // The caller allocates the memory of a function's arguments and results, and
  // passes it as arguments of the function's plan.sequence.
  unsigned next = step ? 0 : function.getNumArguments();
  SmallVector<Value> outputs;
  for (int64_t tie : storage.ties)
    outputs.push_back(!step && tie < 0 ? Value(body->getArgument(next++))
                                       : Value());
  if (!step)
    for (BlockArgument argument : function.getArguments())
      if (argument.getType().isIndex())
        scalars.map(argument, body->getArgument(argument.getArgNumber()));
  for (Root &root : storage.all()) {
    if (root.kind == Root::Kind::Argument)
      buffers[&root] = body->getArgument(root.index);
    if (root.kind == Root::Kind::Output)
      buffers[&root] = outputs[root.index];
    if (root.kind == Root::Kind::Port)
      bufferOf(root);
  }
  builder.setInsertionPoint(end);
  // Fetches of this step wait for the stores that the previous step left
  // unfinished.
  function->walk([&](dist::CarryOp carry) { numCarried = carry.getStores(); });
  if (numCarried > 0)
    builder.create<planir::SettleOp>(function.getLoc(), numCarried - 1,
                                     planir::Stream::Copy);
  emitBlock(function.getFunctionBody().front());
  return sequence;
}

/// Moves the insertion point to the beginning of the plan.sequence, where
/// buffers and references to states are defined, in the order of their first
/// use.
void SequenceEmitter::insertAtTop() {
  if (lastAtTop)
    builder.setInsertionPointAfter(lastAtTop);
  else
    builder.setInsertionPointToStart(&sequence.getBody().front());
}

Value SequenceEmitter::bufferOf(Root &root) {
  Location loc = root.value ? root.value.getLoc() : function.getLoc();
  if (root.kind == Root::Kind::State) {
    Value &state = states[root.name];
    if (!state) {
      OpBuilder::InsertionGuard guard(builder);
      insertAtTop();
      // A bucket that is not split over ranks has no offset of its own: it
      // begins where its first member does. A bucket that is split has an
      // offset, and its members have none.
      auto bucket = symbols.lookup<nn::BucketOp>(root.name);
      state = builder.create<planir::StateRefOp>(
          loc, dist::memoryOf(root.type),
          bucket && !isSplit(bucket)
              ? cast<FlatSymbolRefAttr>(bucket.getMembers()[0]).getValue()
              : root.name);
      lastAtTop = state.getDefiningOp();
    }
    return state;
  }
  if (Value buffer = buffers.lookup(&root))
    return buffer;
  if (root.kind == Root::Kind::Slice || root.kind == Root::Kind::Part)
    return buffers[&root] = partOf(root, loc);
  OpBuilder::InsertionGuard guard(builder);
  insertAtTop();
  auto buffer = builder.create<planir::BufferOp>(
      loc, dist::memoryOf(root.type, root.leadingDimension), /*offset=*/0,
      root.memory,
      /*first=*/0, /*last=*/0, ownerOf(root), root.input, root.output,
      /*settled=*/IntegerAttr());
  lastAtTop = buffer;
  return insertedAtTop[&root] = buffers[&root] = buffer;
}

/// Returns the index that selects a slice of a buffer: the rank's index, the
/// index of a micro-batch, or the index of a slot (memory of one micro-batch's
/// saved values, which later micro-batches use again).
Value SequenceEmitter::numberOf(const Root &root) {
  if (root.axes)
    return builder.create<planir::RankOp>(function.getLoc(),
                                          builder.getIndexType(), root.axes);
  return scalars.lookup(root.number);
}

Value SequenceEmitter::partOf(Root &root, Location loc) {
  Root &whole = storage.all()[root.index];
  Value source = bufferOf(whole);
  if (root.kind == Root::Kind::Slice)
    return slice(loc, source, numberOf(root), root.type);
  // Define the view directly after its buffer, because several regions may use
  // the view.
  OpBuilder::InsertionGuard guard(builder);
  if (Operation *definition = source.getDefiningOp())
    builder.setInsertionPointAfter(definition);
  else
    builder.setInsertionPointToStart(&sequence.getBody().front());
  auto view = builder.create<planir::ViewOp>(loc, dist::memoryOf(root.type),
                                             source, root.element);
  if (lastAtTop == source.getDefiningOp())
    lastAtTop = view;
  if (view->getParentOp() == sequence)
    insertedAtTop[&root] = view;
  return view;
}

Value SequenceEmitter::valueFor(Value value) {
  if (isa<RankedTensorType>(value.getType()))
    return bufferOf(storage.rootOf(value));
  return scalars.lookup(value);
}

Value SequenceEmitter::slice(Location loc, Value whole, Value index,
                             RankedTensorType part) {
  return builder.create<planir::SliceOp>(loc, dist::memoryOf(part), whole,
                                         index);
}

void SequenceEmitter::copy(Location loc, Value target, Value source) {
  builder.create<planir::CopyOp>(loc, target, source);
  ++numCopies;
}

/// Whether the host runs a kernel of the MLIR block.
static bool hasWorkOfHost(Block &block, const SymbolTable &symbols) {
  return llvm::any_of(block.getOps<planir::LaunchOp>(), [&](auto launch) {
    return symbols.lookup<planir::KernelOp>(launch.getKernel()).getOnHost();
  });
}

void SequenceEmitter::emitBlock(Block &block) {
  emitCommands(block);
  if (!hasWorkOfHost(block, symbols))
    return;
  Location loc = block.getParentOp()->getLoc();
  auto done = builder.create<planir::RecordOp>(
      loc, planir::TokenType::get(builder.getContext()), planir::Stream::Host);
  builder.create<planir::WaitOp>(loc, done);
  onHost.clear();
}

void SequenceEmitter::emitCommands(Block &block) {
  for (Operation &op : block) {
    Block *target = builder.getInsertionBlock();
    auto at = builder.getInsertionPoint();
    Operation *before = at == target->begin() ? nullptr : &*std::prev(at);
    emitOperation(op);
    if (FlatSymbolRefAttr condition = nn::conditionOf(&op))
      guardNew(condition, before);
  }
}

/// Lets the commands after `before`, up to the insertion point, be skipped if
/// the condition is false. Commands that have a guard keep it. `before` is null
/// if the commands begin the MLIR block.
void SequenceEmitter::guardNew(FlatSymbolRefAttr condition, Operation *before) {
  Block *block = builder.getInsertionBlock();
  auto first = before ? std::next(before->getIterator()) : block->begin();
  for (Operation &op : llvm::make_range(first, builder.getInsertionPoint()))
    if (isa<planir::CommandOpInterface>(op) && !planir::guardOf(&op))
      planir::setGuard(&op, {condition});
}

void SequenceEmitter::emitOperation(Operation &op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    scalars.map(constant.getResult(), builder.clone(op)->getResult(0));
  if (auto launch = dyn_cast<planir::LaunchOp>(op))
    emitLaunch(launch);
  if (auto call = dyn_cast<nn::CallOp>(op))
    emitCall(call);
  if (auto loop = dyn_cast<nn::MicroBatchesOp>(op))
    emitLoop(loop);
  if (auto fragments = dyn_cast<pipe::FragmentsOp>(op))
    emitFragments(fragments);
  // Operations that compute indices become no commands: they are cloned, and
  // launches get their results as scalar arguments.
  bool isNumber = op.getNumResults() == 1 && op.getNumOperands() > 0 &&
                  op.getResult(0).getType().isIndex();
  if (isNumber)
    scalars.map(op.getResult(0), builder.clone(op, scalars)->getResult(0));
  if (auto rank = dyn_cast<dist::RankOp>(op))
    scalars.map(rank.getIndex(),
                builder.create<planir::RankOp>(
                    rank.getLoc(), builder.getIndexType(), rank.getAxes()));
  if (emitCommunication(op))
    return;
  emitState(op);
  if (auto kept = dyn_cast<nn::KeepOp>(op)) {
    Value port = bufferOf(storage.portOf(kept));
    if (loopIndex)
      port = slice(kept.getLoc(), port, loopIndex,
                   cast<RankedTensorType>(kept.getValue().getType()));
    copy(kept.getLoc(), port, valueFor(kept.getValue()));
  }
  if (auto terminator = dyn_cast<nn::ReturnOp>(op);
      terminator && terminator->getParentOp() == function)
    emitReturn(terminator);
}

/// Emits a copy for a read or write of a state, or for a slice, if the analysis
/// in Storage.h found that the copy is necessary.
void SequenceEmitter::emitState(Operation &op) {
  auto state = [&](StringRef name, Value like, Value slot) {
    Root root = storage.rootOf(like);
    root.kind = Root::Kind::State;
    root.name = name;
    if (!slot)
      return bufferOf(root);
    root.type = symbols.lookup<nn::StateOp>(name).getTensorType();
    return slice(op.getLoc(), bufferOf(root), scalars.lookup(slot),
                 cast<RankedTensorType>(like.getType()));
  };
  auto copyPart = [&](Value part, Value whole, Value index) {
    copy(op.getLoc(), valueFor(part),
         slice(op.getLoc(), valueFor(whole), index,
               cast<RankedTensorType>(part.getType())));
  };
  if (auto part = dyn_cast<nn::MicroBatchOp>(op);
      part && storage.needsCopy(part))
    copyPart(part.getOutput(), part.getInput(),
             scalars.lookup(part.getIndex()));
  if (auto part = dyn_cast<dist::SliceOp>(op); part && storage.needsCopy(part))
    copyPart(part.getOutput(), part.getInput(),
             builder.create<planir::RankOp>(
                 part.getLoc(), builder.getIndexType(), part.getAxes()));
  if (auto get = dyn_cast<nn::GetOp>(op); get && storage.needsCopy(get))
    copy(get.getLoc(), valueFor(get.getValue()),
         state(get.getState(), get.getValue(), get.getSlot()));
  if (auto set = dyn_cast<nn::SetOp>(op); set && storage.needsCopy(set))
    copy(set.getLoc(), state(set.getState(), set.getValue(), set.getSlot()),
         valueFor(set.getValue()));
}

/// Limits how many kernels of the host's stream are launched but not finished,
/// because pinned memory has to hold the operands of all of them. No limit is
/// needed here if a dist.move copies a result of the kernel to the device: the
/// GPU's stream `compute` waits for that copy anyway. Otherwise `compute` waits
/// for the kernel that was launched `mostUnderWay` such launches earlier.
void SequenceEmitter::boundHost(planir::LaunchOp launch) {
  // The number of kernels on the host that may be unfinished. After one more
  // launch, the stream `compute` waits for the oldest of them. The number
  // equals the default of the option `in-flight` of the pass spmd-host-updates.
  constexpr size_t mostUnderWay = 8;
  bool comesBack = llvm::any_of(launch->getUsers(), [](Operation *user) {
    return isa<dist::MoveOp>(user);
  });
  if (comesBack)
    return;
  Location loc = launch.getLoc();
  if (onHost.size() == mostUnderWay) {
    builder.create<planir::WaitOp>(loc, onHost.front());
    onHost.pop_front();
  }
  onHost.push_back(builder.create<planir::RecordOp>(
      loc, planir::TokenType::get(builder.getContext()), planir::Stream::Host));
}

void SequenceEmitter::emitLaunch(planir::LaunchOp launch) {
  auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
  SmallVector<Value> operands = llvm::map_to_vector(
      launch.getOperands(), [&](Value v) { return valueFor(v); });
  for (auto [result, tie] : llvm::zip(launch.getResults(), kernel.getTies()))
    if (tie < 0)
      operands.push_back(valueFor(result));
  builder.create<planir::LaunchOp>(
      launch.getLoc(), TypeRange(), launch.getKernel(), operands,
      launch.getPathAttr(),
      kernel.getOnHost() ? planir::Stream::Host : planir::Stream::Compute);
  if (kernel.getOnHost())
    boundHost(launch);
}

void SequenceEmitter::emitCall(nn::CallOp call) {
  auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
  SmallVector<Value> operands = llvm::map_to_vector(
      call.getOperands(), [&](Value v) { return valueFor(v); });
  for (auto [result, tie] : llvm::zip(call.getResults(), *callee.getTies()))
    if (tie < 0)
      operands.push_back(valueFor(result));
  if (call.getWhen())
    emitPasses(call);
  builder.create<planir::CallOp>(call.getLoc(), call.getCallee(), operands,
                                 /*frameOffset=*/0, call.getPath());
}

/// Emits copies that give a call's results their values if the call is skipped.
/// A result in the memory of the operand that it then equals needs no copy. The
/// copies come before the call, because the call may write its results over
/// other operands. A result that only operations with the same condition use
/// needs no value.
void SequenceEmitter::emitPasses(nn::CallOp call) {
  const planir::Guard skipped = {call.getWhenAttr(), /*value=*/false};
  for (auto [result, passed] :
       llvm::zip(call.getResults(), *call.getPasses())) {
    bool isUsed = llvm::any_of(result.getUses(), [&](OpOperand &use) {
      return nn::conditionOf(use) != skipped.condition;
    });
    if (!isUsed)
      continue;
    Operation *given = nullptr;
    if (passed == nn::CallOp::passesZeros) {
      given = builder.create<planir::FillOp>(call.getLoc(), valueFor(result));
    } else if (passed >= 0 && storage.indexOf(result) !=
                                  storage.indexOf(call.getOperand(passed))) {
      given = builder.create<planir::CopyOp>(call.getLoc(), valueFor(result),
                                             valueFor(call.getOperand(passed)));
      ++numCopies;
    }
    if (given)
      planir::setGuard(given, skipped);
  }
}

/// Emits the commands of `from` into `to`. `from` is the body of a loop, or of
/// a fragment (the forward or backward pass of a pipeline stage).
void SequenceEmitter::emitBody(Operation *planned, Region &from, Region &to) {
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Type> types(from.getNumArguments(), builder.getIndexType());
  Block *body = builder.createBlock(
      &to, {}, types, SmallVector<Location>(types.size(), planned->getLoc()));
  loopIndex = body->getArgument(0);
  for (auto [argument, number] :
       llvm::zip(from.getArguments(), body->getArguments()))
    scalars.map(argument, number);
  for (auto send : from.getOps<dist::SendOp>())
    if (storage.isSentFromSlot(send)) {
      auto slots = cast<pipe::FragmentsOp>(from.getParentOp()).getSlots();
      builder.create<planir::FlushOp>(send.getLoc(), send.getChannel(),
                                      slots[from.getRegionNumber()] - 1);
    }
  // A view that is defined in one region cannot be used in another.
  auto outside = buffers;
  emitBlock(from.front());
  buffers = std::move(outside);
  for (auto [root, buffer] : insertedAtTop)
    buffers[root] = buffer;
  loopIndex = Value();
}

void SequenceEmitter::emitLoop(nn::MicroBatchesOp loop) {
  auto planned = builder.create<planir::LoopOp>(loop.getLoc(), loop.getCount());
  emitBody(planned, loop.getBody(), planned.getBody());
}

void SequenceEmitter::emitFragments(pipe::FragmentsOp fragments) {
  auto planned = builder.create<planir::FragmentsOp>(
      fragments.getLoc(), fragments.getLineAttr(), fragments.getSlotsAttr(),
      fragments.getBodies().size());
  for (auto [from, to] :
       llvm::zip(fragments.getBodies(), planned.getBodies())) {
    emitBody(planned, from, to);
    OpBuilder::atBlockEnd(&to.front())
        .create<planir::EndOp>(fragments.getLoc());
  }
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

void SequenceEmitter::emitCollective(Operation *op) {
  plan::CollectiveShape shape = shapeOf(op, symbols);
  int64_t bytes = plan::stagingBytes(shape, library);
  Value staging;
  {
    OpBuilder::InsertionGuard guard(builder);
    insertAtTop();
    staging = builder.create<planir::BufferOp>(
        op->getLoc(), MemRefType::get({bytes}, builder.getI8Type()),
        /*offset=*/0, planir::MemoryKind::Device, /*first=*/0, /*last=*/0,
        "communication", nn::PortAttr(), nn::PortAttr(),
        /*settled=*/IntegerAttr());
    lastAtTop = staging.getDefiningOp();
  }
  bool exchange = shape.kind == plan::CollectiveKind::AllToAll;
  const plan::PartLayout &layout = exchange ? shape.concat : shape.layout;
  auto list = [&](const std::vector<int64_t> &segments) {
    return segments.empty() ? DenseI64ArrayAttr()
                            : builder.getDenseI64ArrayAttr(segments);
  };
  auto start = builder.create<planir::CollectiveOp>(
      op->getLoc(), planir::TokenType::get(builder.getContext()),
      *planir::symbolizeCollectiveKind(plan::nameOf(shape.kind)),
      op->getAttrOfType<ArrayAttr>("axes"), valueFor(op->getResult(0)),
      valueFor(op->getOperand(0)), staging, layout.outer,
      exchange ? builder.getI64IntegerAttr(shape.layout.outer) : IntegerAttr(),
      exchange ? list(shape.layout.segments) : DenseI64ArrayAttr(),
      list(layout.segments), op->getAttrOfType<TypeAttr>("wire"),
      op->getAttrOfType<StringAttr>("reason").getValue());
  started[op] = start;
  if (op->hasAttr("pending"))
    tokens[op->getResult(0)] = start.getToken();
  else
    builder.create<planir::WaitOp>(op->getLoc(), start.getToken());
}

void SequenceEmitter::emitSend(dist::SendOp send) {
  builder.create<planir::SendOp>(send.getLoc(), valueFor(send.getValue()),
                                 send.getAxisAttr(), send.getDeltaAttr(),
                                 send.getChannelAttr());
  if (!storage.isSentFromSlot(send))
    builder.create<planir::FlushOp>(send.getLoc(), send.getChannel(), 0);
}

void SequenceEmitter::emitPack(nn::PackOp pack) {
  if (storage.rootOf(pack.getFlat()).value != pack.getFlat())
    return; // The members were computed in place.
  Value flat = valueFor(pack.getFlat());
  Type element = cast<MemRefType>(flat.getType()).getElementType();
  for (auto [first, count] : Storage::paddingOf(pack)) {
    Value gap = builder.create<planir::ViewOp>(
        pack.getLoc(), MemRefType::get({count}, element), flat, first);
    builder.create<planir::FillOp>(pack.getLoc(), gap);
  }
  int64_t first = 0;
  for (auto [number, member] : llvm::enumerate(pack.getMembers())) {
    auto type = cast<RankedTensorType>(member.getType());
    if (storage.needsCopy(pack, number)) {
      Value place = builder.create<planir::ViewOp>(
          pack.getLoc(), dist::memoryOf(type), flat, first);
      copy(pack.getLoc(), place, valueFor(member));
    }
    first += nn::paddedElements(type.getNumElements());
  }
}

bool SequenceEmitter::emitCommunication(Operation &op) {
  if (isCollective(&op))
    emitCollective(&op);
  else if (auto wait = dyn_cast<dist::WaitOp>(op))
    emitWait(wait);
  else if (auto move = dyn_cast<dist::MoveOp>(op))
    emitMove(move);
  else if (auto send = dyn_cast<dist::SendOp>(op))
    emitSend(send);
  else if (auto received = dyn_cast<dist::RecvOp>(op))
    builder.create<planir::RecvOp>(
        op.getLoc(), valueFor(received.getValue()), received.getAxisAttr(),
        received.getDeltaAttr(), received.getChannelAttr());
  else if (auto pack = dyn_cast<nn::PackOp>(op))
    emitPack(pack);
  else if (auto fetch = dyn_cast<dist::FetchOp>(op))
    emitFetch(fetch);
  else if (auto rows = dyn_cast<dist::FetchRowsOp>(op))
    emitFetchRows(rows);
  else if (auto store = dyn_cast<dist::StoreOp>(op))
    emitStore(store);
  else if (auto flush = dyn_cast<dist::FlushOp>(op))
    emitFlush(flush);
  else if (auto carry = dyn_cast<dist::CarryOp>(op))
    emitCarry(carry);
  else if (auto settle = dyn_cast<dist::SettleOp>(op))
    builder.create<planir::SettleOp>(
        op.getLoc(), numCarried - 1 - static_cast<int64_t>(settle.getLeft()),
        planir::Stream::Compute);
  else
    return false;
  return true;
}

void SequenceEmitter::emitReturn(nn::ReturnOp terminator) {
  for (auto [number, value] : llvm::enumerate(terminator.getOperands()))
    if (storage.needsCopy(terminator, number))
      copy(terminator.getLoc(), bufferOf(storage.portOf(terminator, number)),
           valueFor(value));
}
