//===- EmitSequence.cpp - Functions become sequences ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmitSequence.h"
#include "Layout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

MemRefType heddle::memory::memrefOf(RankedTensorType type) {
  return MemRefType::get(type.getShape(), type.getElementType());
}

SequenceEmitter::SequenceEmitter(FunctionOpInterface function,
                                 const SymbolTable &symbols, Storage &storage,
                                 planir::ProgramOp program)
    : function(function), symbols(symbols), storage(storage), program(program),
      builder(OpBuilder::atBlockEnd(program.getBodyBlock())) {}

void SequenceEmitter::emit() {
  auto step = dyn_cast<nn::StepOp>(function.getOperation());
  SmallVector<Type> inputs;
  if (!step) {
    for (Type type : function.getArgumentTypes()) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      inputs.push_back(tensor ? Type(memrefOf(tensor)) : type);
    }
    for (auto [type, tie] : llvm::zip(function.getResultTypes(), storage.ties))
      if (tie < 0)
        inputs.push_back(memrefOf(cast<RankedTensorType>(type)));
  }
  sequence = builder.create<planir::SequenceOp>(
      function.getLoc(), function.getName(),
      builder.getFunctionType(inputs, {}), storage.frameBytes);
  if (step)
    sequence.setKindAttr(step.getKindAttr());
  Block *body = builder.createBlock(
      &sequence.getBody(), {}, inputs,
      SmallVector<Location>(inputs.size(), function.getLoc()));
  Operation *end = builder.create<planir::EndOp>(function.getLoc());

  // Where arguments and results are.
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
  emitBlock(function.getFunctionBody().front());
}

/// Buffers and states stand at the top, in the order of their first use.
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
      // A bucket begins where its first member does.
      auto bucket = symbols.lookup<nn::BucketOp>(root.name);
      state = builder.create<planir::StateRefOp>(
          loc, memrefOf(root.type),
          bucket ? cast<FlatSymbolRefAttr>(bucket.getMembers()[0]).getValue()
                 : root.name);
      lastAtTop = state.getDefiningOp();
    }
    return state;
  }
  if (Value buffer = buffers.lookup(&root))
    return buffer;
  if (root.kind == Root::Kind::Slice) {
    Value whole = bufferOf(storage.all()[root.index]);
    return buffers[&root] = slice(loc, whole, loopIndex, root.type);
  }
  OpBuilder::InsertionGuard guard(builder);
  insertAtTop();
  bool port = root.kind == Root::Kind::Port;
  auto buffer = builder.create<planir::BufferOp>(
      loc, memrefOf(root.type), root.interval.offset, root.interval.first,
      root.interval.last, ownerOf(root),
      port ? builder.getStringAttr(root.name) : StringAttr());
  lastAtTop = buffer;
  return buffers[&root] = buffer;
}

Value SequenceEmitter::valueFor(Value value) {
  if (isa<RankedTensorType>(value.getType()))
    return bufferOf(storage.rootOf(value));
  return scalars.lookup(value);
}

Value SequenceEmitter::slice(Location loc, Value whole, Value index,
                             RankedTensorType part) {
  return builder.create<planir::SliceOp>(loc, memrefOf(part), whole, index);
}

void SequenceEmitter::copy(Location loc, Value target, Value source) {
  builder.create<planir::CopyOp>(loc, target, source);
  ++numCopies;
}

void SequenceEmitter::emitBlock(Block &block) {
  for (Operation &op : block) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      scalars.map(constant.getResult(), builder.clone(op)->getResult(0));
    if (auto launch = dyn_cast<planir::LaunchOp>(op))
      emitLaunch(launch);
    if (auto call = dyn_cast<nn::CallOp>(op))
      emitCall(call);
    if (auto loop = dyn_cast<nn::MicroBatchesOp>(op))
      emitLoop(loop);
    if (auto get = dyn_cast<nn::GetOp>(op); get && storage.needsCopy(get)) {
      Root source = storage.rootOf(get.getValue());
      source.kind = Root::Kind::State;
      source.name = get.getState();
      copy(get.getLoc(), valueFor(get.getValue()), bufferOf(source));
    }
    if (auto set = dyn_cast<nn::SetOp>(op); set && storage.needsCopy(set)) {
      Root target = storage.rootOf(set.getValue());
      target.kind = Root::Kind::State;
      target.name = set.getState();
      copy(set.getLoc(), bufferOf(target), valueFor(set.getValue()));
    }
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
}

void SequenceEmitter::emitLaunch(planir::LaunchOp launch) {
  auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
  SmallVector<Value> operands = llvm::map_to_vector(
      launch.getOperands(), [&](Value v) { return valueFor(v); });
  for (auto [result, tie] : llvm::zip(launch.getResults(), kernel.getTies()))
    if (tie < 0)
      operands.push_back(valueFor(result));
  builder.create<planir::LaunchOp>(launch.getLoc(), TypeRange(),
                                   launch.getKernel(), operands,
                                   launch.getPathAttr());
}

void SequenceEmitter::emitCall(nn::CallOp call) {
  auto callee = symbols.lookup<nn::FuncOp>(call.getCallee());
  SmallVector<Value> operands = llvm::map_to_vector(
      call.getOperands(), [&](Value v) { return valueFor(v); });
  for (auto [result, tie] : llvm::zip(call.getResults(), *callee.getTies()))
    if (tie < 0)
      operands.push_back(valueFor(result));
  builder.create<planir::CallOp>(call.getLoc(), call.getCallee(), operands,
                                 storage.callFrame(call).offset,
                                 call.getPath());
}

void SequenceEmitter::emitLoop(nn::MicroBatchesOp loop) {
  auto planned = builder.create<planir::LoopOp>(loop.getLoc(), loop.getCount());
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&planned.getBody(), {},
                                    {builder.getIndexType()}, {loop.getLoc()});
  loopIndex = body->getArgument(0);
  scalars.map(loop.getBody().getArgument(0), loopIndex);
  emitBlock(loop.getBody().front());
  loopIndex = Value();
}

void SequenceEmitter::emitReturn(nn::ReturnOp terminator) {
  for (auto [number, value] : llvm::enumerate(terminator.getOperands()))
    if (storage.needsCopy(terminator, number))
      copy(terminator.getLoc(), bufferOf(storage.portOf(terminator, number)),
           valueFor(value));
}
