//===- SequenceReader.cpp - Sequences as command lists --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SequenceReader.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::emit;

static int64_t bytesOf(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

void SequenceReader::read() {
  // Names first: loops append sequences of their own behind these.
  for (auto op : program.getOps<planir::SequenceOp>()) {
    indices[op.getSymName()] = plan.sequences.size();
    plan::Sequence sequence;
    sequence.name = op.getSymName().str();
    sequence.frameBytes = op.getFrameBytes();
    for (Type type : op.getArgumentTypes())
      ++(type.isIndex() ? sequence.numScalarArgs : sequence.numArgs);
    plan.sequences.push_back(std::move(sequence));
  }
  for (auto op : program.getOps<planir::SequenceOp>()) {
    int64_t index = indexOf(op.getSymName());
    plan::Sequence sequence = plan.sequences[index];
    readBlock(op.getBody().front(), sequence);
    plan.sequences[index] = std::move(sequence);
  }
}

void SequenceReader::readBlock(Block &block, plan::Sequence &sequence) {
  for (Operation &op : block) {
    if (auto launched = dyn_cast<planir::LaunchOp>(op))
      sequence.commands.push_back(launch(launched));
    if (auto called = dyn_cast<planir::CallOp>(op))
      sequence.commands.push_back(call(called));
    if (auto looped = dyn_cast<planir::LoopOp>(op))
      sequence.commands.push_back(loop(looped, sequence));
    if (auto copied = dyn_cast<planir::CopyOp>(op)) {
      plan::Command command;
      command.kind = plan::Command::Kind::Copy;
      command.refs = {refOf(copied.getTarget()), refOf(copied.getSource())};
      sequence.commands.push_back(std::move(command));
    }
  }
}

/// The module path that a location names; "" when it names none.
static std::string pathOf(Location loc) {
  std::string path;
  loc->walk([&](Location inner) {
    if (auto name = dyn_cast<NameLoc>(inner); name && path.empty())
      path = name.getName().str();
    return WalkResult::advance();
  });
  return path;
}

plan::Command SequenceReader::launch(planir::LaunchOp op) {
  plan::Command command;
  command.kind = plan::Command::Kind::Launch;
  command.target = kernels.lookup(op.getKernel());
  command.path = op.getPath() ? op.getPath()->str() : pathOf(op.getLoc());
  addOperands(op.getOperands(), command);
  return command;
}

plan::Command SequenceReader::call(planir::CallOp op) {
  plan::Command command;
  command.kind = plan::Command::Kind::Call;
  command.target = indexOf(op.getSequence());
  command.frameOffset = op.getFrameOffset();
  command.path = op.getPath().str();
  addOperands(op.getOperands(), command);
  return command;
}

/// The body becomes a sequence in the same frame. It reaches the outer
/// sequence's arguments as its own.
plan::Command SequenceReader::loop(planir::LoopOp op,
                                   const plan::Sequence &outer) {
  plan::Sequence body;
  body.name = outer.name + ".loop";
  body.frameBytes = outer.frameBytes;
  body.numArgs = outer.numArgs;
  body.numScalarArgs = outer.numScalarArgs;
  readBlock(op.getBody().front(), body);

  plan::Command command;
  command.kind = plan::Command::Kind::Loop;
  command.count = op.getCount();
  command.target = plan.sequences.size();
  for (int64_t index = 0; index < outer.numArgs; ++index) {
    plan::Ref ref;
    ref.space = plan::Space::Arg;
    ref.index = index;
    command.refs.push_back(ref);
  }
  for (int64_t index = 0; index < outer.numScalarArgs; ++index)
    command.scalars.push_back({plan::Scalar::Kind::Arg, index});
  plan.sequences.push_back(std::move(body));
  return command;
}

void SequenceReader::addOperands(ValueRange operands, plan::Command &command) {
  for (Value operand : operands) {
    if (operand.getType().isIndex())
      command.scalars.push_back(scalarOf(operand));
    else
      command.refs.push_back(refOf(operand));
  }
}

/// The number of the argument among those of its kind.
static int64_t numberOf(BlockArgument argument) {
  bool scalar = argument.getType().isIndex();
  int64_t number = 0;
  for (BlockArgument other :
       argument.getOwner()->getArguments().take_front(argument.getArgNumber()))
    number += other.getType().isIndex() == scalar;
  return number;
}

plan::Scalar SequenceReader::scalarOf(Value value) {
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return {plan::Scalar::Kind::Constant,
            cast<IntegerAttr>(constant.getValue()).getInt()};
  auto argument = cast<BlockArgument>(value);
  if (isa<planir::LoopOp>(argument.getOwner()->getParentOp()))
    return {plan::Scalar::Kind::LoopIndex, 0};
  return {plan::Scalar::Kind::Arg, numberOf(argument)};
}

plan::Ref SequenceReader::refOf(Value buffer) {
  plan::Ref ref;
  if (auto slice = buffer.getDefiningOp<planir::SliceOp>()) {
    ref = refOf(slice.getSource());
    ref.stride = bytesOf(buffer);
  } else if (auto frame = buffer.getDefiningOp<planir::BufferOp>()) {
    ref.space = plan::Space::Frame;
    ref.offset = frame.getOffset();
  } else if (auto state = buffer.getDefiningOp<planir::StateRefOp>()) {
    ref.space = plan::Space::Persistent;
    ref.offset = plan.states[states.lookup(state.getState())].offset;
  } else {
    ref.space = plan::Space::Arg;
    ref.index = numberOf(cast<BlockArgument>(buffer));
  }
  ref.bytes = bytesOf(buffer);
  return ref;
}

bool SequenceReader::isWritten(Value buffer) {
  for (OpOperand &use : buffer.getUses()) {
    if (auto slice = dyn_cast<planir::SliceOp>(use.getOwner())) {
      if (isWritten(slice.getBuffer()))
        return true;
    } else if (isa<planir::CopyOp>(use.getOwner())) {
      if (use.getOperandNumber() == 0)
        return true;
    } else if (auto launched = dyn_cast<planir::LaunchOp>(use.getOwner())) {
      auto kernel =
          program.lookupSymbol<planir::KernelOp>(launched.getKernelAttr());
      if (use.getOperandNumber() >= kernel.getArgumentTypes().size())
        return true;
    }
  }
  return false;
}

void SequenceReader::count(int64_t sequence, double times,
                           std::vector<double> &launches) {
  for (const plan::Command &command : plan.sequences[sequence].commands) {
    if (command.kind == plan::Command::Kind::Launch)
      launches[command.target] += times;
    if (command.kind == plan::Command::Kind::Call)
      count(command.target, times, launches);
    if (command.kind == plan::Command::Kind::Loop)
      count(command.target, times * command.count, launches);
  }
}

void SequenceReader::countCalls() {
  const plan::Program *train = plan.findProgram("train");
  if (!train)
    return;
  std::vector<double> launches(plan.kernels.size());
  count(train->sequence, 1, launches);
  for (auto [kernel, times] : llvm::zip(plan.kernels, launches))
    kernel.calls = static_cast<int64_t>(times);
}

double SequenceReader::modelFlops(const plan::Program &of) {
  const plan::Program *forward =
      of.kind == "train" ? plan.findProgram("eval") : &of;
  if (!forward)
    return 0;
  std::vector<double> launches(plan.kernels.size());
  count(forward->sequence, 1, launches);
  double flops = 0;
  for (auto [kernel, times] : llvm::zip(plan.kernels, launches))
    if (kernel.ops.find("linear") != std::string::npos ||
        kernel.ops.find("attention") != std::string::npos)
      flops += kernel.flops * times;
  return of.kind == "train" ? 3 * flops * static_cast<double>(plan.accumulate)
                            : flops;
}
