//===- PlanInterpreter.cpp - Executes a plan on bytes -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/PlanInterpreter.h"

#include "heddle/Eval/Files.h"
#include "heddle/Eval/PortBatch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstring>

using namespace mlir;

namespace heddle::eval {

/// Bytes of a memref's or tensor's elements.
static int64_t bytesOf(Type type) {
  auto shaped = cast<ShapedType>(type);
  return shaped.getNumElements() * byteSize(*kindOf(shaped.getElementType()));
}

static Tensor readMemory(Type type, const char *memory) {
  auto shaped = cast<ShapedType>(type);
  return Tensor::fromBytes(*kindOf(shaped.getElementType()), shaped.getShape(),
                           memory);
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

static StateInfo describe(planir::StateOp op) {
  StateInfo info;
  DictionaryAttr like = op.getLike();
  auto text = [&](StringRef key) {
    auto value = like.getAs<StringAttr>(key);
    return value ? value.str() : std::string();
  };
  auto type = cast<ShapedType>(op.getType());
  info.name = op.getSymName().str();
  info.role = text("role");
  info.parameter = text("parameter");
  info.source = text("source");
  info.kind = *kindOf(type.getElementType());
  info.shape = type.getShape().vec();
  info.setInit(like.getAs<nn::InitAttr>("init"));
  return info;
}

PlanInterpreter::PlanInterpreter(planir::ProgramOp program,
                                 const InterpreterOptions &options)
    : program(program), options(options), symbols(program),
      kernels(KernelRunner::create(program, options.threads)) {
  setStrategy(
      dist::Strategy::fromDictionary(program.getStrategy().getValues()));
  setWeights(program.getWeights());
}

bool PlanInterpreter::mapStates() {
  for (auto op : program.getOps<planir::StateOp>()) {
    int64_t begin = op.getOffset(), end = begin + bytesOf(op.getType());
    if (begin < 0 || end > static_cast<int64_t>(program.getPersistentBytes())) {
      op.emitError("leaves the persistent region of ")
          << program.getPersistentBytes() << " bytes";
      return false;
    }
    addState(describe(op));
  }
  return true;
}

bool PlanInterpreter::mapMemory() {
  Diagnostic error;
  persistent = mapGuarded(program.getPersistentBytes(), error);
  arena = mapGuarded(program.getArenaBytes(), error);
  if (persistent && arena)
    return true;
  program.emitError("cannot have its memory: ") << error.message;
  return false;
}

std::unique_ptr<PlanInterpreter>
PlanInterpreter::create(planir::ProgramOp program,
                        const InterpreterOptions &options) {
  std::unique_ptr<PlanInterpreter> result(
      new PlanInterpreter(program, options));
  if (!result->kernels || !result->mapStates() || !result->mapMemory())
    return nullptr;
  int64_t scratchEnd = program.getScratchOffset() +
                       options.threads * program.getScratchBytesPerThread();
  if (scratchEnd > static_cast<int64_t>(program.getArenaBytes())) {
    program.emitError("has no scratch memory for ")
        << options.threads << " threads";
    return nullptr;
  }
  if (options.poison)
    for (auto sequence : program.getOps<planir::SequenceOp>())
      result->findLifetimes(sequence);
  return result;
}

//===----------------------------------------------------------------------===//
// Dead bytes
//===----------------------------------------------------------------------===//

/// Every byte of an element of ones: NaN in all float types.
static constexpr int poisonByte = 0xff;

void PlanInterpreter::findLifetimes(planir::SequenceOp sequence) {
  SmallVector<Operation *> commands;
  sequence.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<planir::LaunchOp, planir::CallOp, planir::CopyOp, planir::LoopOp>(
            op))
      commands.push_back(op);
  });
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
    if (buffer.getPort() || buffer.getLast() >= commands.size())
      continue;
    lifetimes[commands[buffer.getFirst()]].begin.push_back(buffer);
    lifetimes[commands[buffer.getLast()]].end.push_back(buffer);
  }
}

void PlanInterpreter::poison(ArrayRef<planir::BufferOp> buffers, char *frame) {
  for (planir::BufferOp buffer : buffers)
    std::memset(frame + buffer.getOffset(), poisonByte,
                bytesOf(buffer.getType()));
}

void PlanInterpreter::poisonScratch() {
  std::memset(arena.get() + program.getScratchOffset(), poisonByte,
              program.getScratchBytesPerThread() * kernels->threads());
}

Tensor PlanInterpreter::state(const std::string &name) const {
  auto op = symbols.lookup<planir::StateOp>(name);
  return readMemory(op.getType(), persistent.get() + op.getOffset());
}

void PlanInterpreter::setState(const std::string &name, const Tensor &value) {
  auto op = symbols.lookup<planir::StateOp>(name);
  Type element = cast<ShapedType>(op.getType()).getElementType();
  value.convertTo(*kindOf(element)).toBytes(persistent.get() + op.getOffset());
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

char *PlanInterpreter::inFrame(Operation *op, char *frame, int64_t offset,
                               int64_t bytes) {
  char *begin = frame + offset;
  char *end = arena.get() + program.getArenaBytes();
  if (begin >= arena.get() && begin + bytes <= end)
    return begin;
  op->emitError("leaves the arena of ") << program.getArenaBytes() << " bytes";
  return nullptr;
}

LogicalResult PlanInterpreter::runLaunch(planir::LaunchOp launch,
                                         const Environment &values) {
  auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
  if (!kernel)
    return launch.emitError("unknown kernel @") << launch.getKernel();
  SmallVector<void *> refs;
  SmallVector<int64_t> scalars;
  for (Value operand : launch.getOperands()) {
    Operand value = values.lookup(operand);
    if (isa<MemRefType>(operand.getType()))
      refs.push_back(value.address);
    else
      scalars.push_back(value.scalar);
  }
  return kernels->launch(kernel, refs, scalars,
                         arena.get() + program.getScratchOffset(),
                         program.getScratchBytesPerThread());
}

LogicalResult PlanInterpreter::runLoop(planir::LoopOp loop, char *frame,
                                       Environment &values) {
  Block &body = loop.getBody().front();
  for (int64_t i = 0; i < static_cast<int64_t>(loop.getCount()); ++i) {
    values[body.getArgument(0)] = Operand{nullptr, i};
    if (failed(runBlock(body, frame, values)))
      return failure();
  }
  return success();
}

LogicalResult PlanInterpreter::runCommand(Operation *op, char *frame,
                                          Environment &values) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](planir::BufferOp buffer) {
        char *address = inFrame(buffer, frame, buffer.getOffset(),
                                bytesOf(buffer.getType()));
        values[buffer.getBuffer()] = Operand{address, 0};
        return success(address != nullptr);
      })
      .Case([&](planir::StateRefOp ref) -> LogicalResult {
        auto state = symbols.lookup<planir::StateOp>(ref.getState());
        if (!state)
          return ref.emitError("unknown state @") << ref.getState();
        values[ref.getBuffer()] =
            Operand{persistent.get() + state.getOffset(), 0};
        return success();
      })
      .Case([&](planir::SliceOp slice) {
        int64_t index = values.lookup(slice.getIndex()).scalar;
        char *source = values.lookup(slice.getSource()).address;
        values[slice.getBuffer()] =
            Operand{source + index * bytesOf(slice.getBuffer().getType()), 0};
        return success();
      })
      .Case([&](planir::CallOp call) -> LogicalResult {
        auto sequence = symbols.lookup<planir::SequenceOp>(call.getSequence());
        if (!sequence)
          return call.emitError("unknown sequence @") << call.getSequence();
        char *inner = inFrame(call, frame, call.getFrameOffset(),
                              sequence.getFrameBytes());
        if (!inner)
          return failure();
        Operands args;
        for (Value operand : call.getOperands())
          args.push_back(values.lookup(operand));
        return runSequence(sequence, args, inner);
      })
      .Case([&](planir::LoopOp loop) { return runLoop(loop, frame, values); })
      .Case([&](planir::CopyOp copy) {
        std::memmove(values.lookup(copy.getTarget()).address,
                     values.lookup(copy.getSource()).address,
                     bytesOf(copy.getTarget().getType()));
        return success();
      })
      .Case([&](planir::LaunchOp launch) { return runLaunch(launch, values); })
      .Case([&](arith::ConstantOp constant) -> LogicalResult {
        auto value = dyn_cast<IntegerAttr>(constant.getValue());
        if (!value)
          return constant.emitError("is no integer");
        values[constant.getResult()] = Operand{nullptr, value.getInt()};
        return success();
      })
      .Case([&](planir::EndOp) { return success(); })
      .Default([&](Operation *other) {
        return other->emitError("the interpreter does not know '")
               << other->getName() << "'";
      });
}

LogicalResult PlanInterpreter::runBlock(Block &block, char *frame,
                                        Environment &values) {
  for (Operation &op : block) {
    auto lives = lifetimes.find(&op);
    if (lives != lifetimes.end())
      poison(lives->second.begin, frame);
    if (options.poison && isa<planir::LaunchOp>(op))
      poisonScratch();
    if (failed(runCommand(&op, frame, values)))
      return failure();
    if (lives != lifetimes.end())
      poison(lives->second.end, frame);
  }
  return success();
}

LogicalResult PlanInterpreter::runSequence(planir::SequenceOp sequence,
                                           ArrayRef<Operand> args,
                                           char *frame) {
  Environment values;
  Block &body = sequence.getBody().front();
  for (auto [argument, value] : llvm::zip(body.getArguments(), args))
    values[argument] = value;
  return runBlock(body, frame, values);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The ports that are written before a program runs; all others are read.
static bool isInputPort(StringRef name) {
  static const llvm::StringSet<> inputs = {
      "ids",     "labels", "rng", "lr", "bias_correction1", "bias_correction2",
      "position"};
  return inputs.contains(name);
}

static LogicalResult writePort(planir::BufferOp port, char *frame,
                               const TensorMap &inputs, int64_t part,
                               int64_t parts) {
  auto type = cast<ShapedType>(port.getType());
  auto found = inputs.find(port.getPort()->str());
  if (found == inputs.end())
    return port.emitError("input '") << *port.getPort() << "' is missing";
  std::optional<Tensor> value =
      partOfInput(found->second, type.getShape(), part, parts);
  if (!value)
    return port.emitError("input '")
           << *port.getPort() << "' does not fit " << type;
  value->convertTo(*kindOf(type.getElementType()))
      .toBytes(frame + port.getOffset());
  return success();
}

LogicalResult PlanInterpreter::run(StringRef kind, const TensorMap &inputs,
                                   TensorMap &outputs) {
  planir::SequenceOp sequence;
  for (auto candidate : program.getOps<planir::SequenceOp>())
    if (candidate.getKind() == kind)
      sequence = candidate;
  if (!sequence)
    return program.emitError("has no program of kind ") << kind;
  int64_t parts = 1;
  SmallVector<planir::BufferOp> ports;
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
    if (!buffer.getPort())
      continue;
    if (!inFrame(buffer, arena.get(), buffer.getOffset(),
                 bytesOf(buffer.getType())))
      return failure();
    ports.push_back(buffer);
    auto found = inputs.find("ids");
    if (*buffer.getPort() == "ids" && found != inputs.end())
      parts = found->second.numElements() /
              cast<ShapedType>(buffer.getType()).getNumElements();
  }
  outputs.clear();
  if (options.poison)
    std::memset(arena.get(), poisonByte, program.getArenaBytes());
  for (int64_t part = 0; part < parts; ++part) {
    for (planir::BufferOp port : ports)
      if (isInputPort(*port.getPort()) &&
          failed(writePort(port, arena.get(), inputs, part, parts)))
        return failure();
    if (failed(runSequence(sequence, {}, arena.get())))
      return failure();
    for (planir::BufferOp port : ports)
      if (!isInputPort(*port.getPort()))
        addOutput(port.getPort()->str(),
                  readMemory(port.getType(), arena.get() + port.getOffset()),
                  parts, outputs);
  }
  return success();
}

} // namespace heddle::eval
