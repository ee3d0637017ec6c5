//===- PlanInterpreter.cpp - Executes a plan on bytes -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes command sequences: launches kernels, copies bytes, and waits for
// streams and collectives. With --poison it also fills buffers with NaN when
// their lifetime ends.
//
//===----------------------------------------------------------------------===//

#include "PlanInterpreter.h"

#include "PortBatch.h"
#include "dialects/NN/ProgramPorts.h"
#include "heddle/Eval/Files.h"
#include "heddle/runtime/io/RowChoice.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstring>

using namespace mlir;

namespace heddle::eval {

Tensor readMemory(Type type, const char *memory) {
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
  info.role = planir::roleOf(op);
  info.parameter = text("parameter");
  if (auto source = like.getAs<nn::SourceAttr>("source"))
    info.sources = source.getLayout().pieces;
  info.kind = *kindOf(type.getElementType());
  info.shape = type.getShape().vec();
  info.init = planir::initOf(like.getAs<nn::InitAttr>("init"));
  if (DenseIntElementsAttr value = like.getAs<DenseIntElementsAttr>("value"))
    info.value.assign(value.value_begin<int32_t>(), value.value_end<int32_t>());
  if (auto packed = like.getAs<nn::PackedAttr>("packed"))
    info.packed.push_back(packed.toPlan());
  if (auto quantizer = like.getAs<nn::QuantizerAttr>("quantizer"))
    info.quantizer.push_back(quantizer.toPlan());
  auto whole = like.getAs<TypeAttr>("whole");
  auto storage = like.getAs<dist::TensorShardingAttr>("storage");
  if (whole && storage) {
    info.placement = placementOf(cast<ShapedType>(whole.getValue()), storage,
                                 like.getAs<DenseI64ArrayAttr>("segments"));
  }
  return info;
}

PlanInterpreter::PlanInterpreter(planir::ProgramOp program, const Rank &rank,
                                 const InterpreterOptions &options,
                                 std::shared_ptr<KernelRunner> kernels)
    : RankInterpreter(rank, options), program(program), symbols(program),
      kernels(std::move(kernels)) {}

bool PlanInterpreter::mapStates() {
  auto isInside = [&](auto op) {
    int64_t begin = op.getOffset(), end = begin + dist::byteSize(op.getType());
    int64_t size = program.getPersistentBytes().of(op.getMemory());
    if (begin >= 0 && end <= size)
      return true;
    op->emitError("leaves the persistent region of ") << size << " bytes";
    return false;
  };
  for (auto op : program.getOps<planir::FlatOp>())
    if (!isInside(op))
      return false;
  for (auto op : program.getOps<planir::StateOp>()) {
    StateInfo info = describe(op);
    if (op.getFlat()) {
      auto flat = symbols.lookup<planir::FlatOp>(*op.getFlat());
      if (!flat) {
        op.emitError("lies in unknown tensor @") << *op.getFlat();
        return false;
      }
      info.placement.flatAxes = planir::namesOf(flat.getAxes());
      info.placement.flatFirst = op.getOffset();
      info.placement.flatElements = flat.getElements();
    } else if (!isInside(op)) {
      return false;
    }
    stateInfos.push_back(std::move(info));
  }
  return true;
}

bool PlanInterpreter::mapMemory() {
  auto map = [&](std::shared_ptr<char> &memory, int64_t bytes) {
    if (bytes == 0)
      return true;
    Diagnostic error;
    memory = mapGuarded(bytes, error);
    if (!memory)
      program.emitError("cannot have its memory: ") << error.message;
    return bool(memory);
  };
  for (planir::MemoryKind kind : planir::memoryKinds)
    if (!map(persistent[planir::memoryOf(kind)],
             program.getPersistentBytes().of(kind)) ||
        !map(arena[planir::memoryOf(kind)], program.getArenaBytes().of(kind)))
      return false;
  return true;
}

std::unique_ptr<PlanInterpreter>
PlanInterpreter::create(planir::ProgramOp program, const Rank &rank,
                        const InterpreterOptions &options,
                        std::shared_ptr<KernelRunner> kernels) {
  std::unique_ptr<PlanInterpreter> result(
      new PlanInterpreter(program, rank, options, std::move(kernels)));
  if (!result->mapStates() || !result->mapMemory())
    return nullptr;
  int64_t scratchEnd = program.getScratchOffset() + result->scratchBytes();
  if (scratchEnd > program.getArenaBytes().of(planir::MemoryKind::Device)) {
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

void PlanInterpreter::findLifetimes(planir::SequenceOp sequence) {
  SmallVector<Operation *> commands;
  sequence.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<planir::CommandOpInterface>(op))
      commands.push_back(op);
  });
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
    if (buffer.getPort() || buffer.getLast() >= commands.size())
      continue;
    lifetimes[commands[buffer.getFirst()]].begin.push_back(buffer);
    // A buffer with the attribute `settled` is not filled with NaN when its
    // lifetime ends, because a store of its bytes may run until the next run of
    // the program waits for the store.
    if (!buffer.getSettled())
      lifetimes[commands[buffer.getLast()]].end.push_back(buffer);
  }
}

void PlanInterpreter::poison(ArrayRef<planir::BufferOp> buffers, char *frame) {
  for (planir::BufferOp buffer : buffers)
    std::memset(frameOf(buffer, frame) + buffer.getOffset(), poisonByte,
                dist::byteSize(buffer.getType()));
}

int64_t PlanInterpreter::scratchBytes() {
  int64_t users = kernels ? kernels->scratchUsers() : options.threads;
  return users * program.getScratchBytesPerThread();
}

void PlanInterpreter::poisonScratch() {
  std::memset(deviceArena() + program.getScratchOffset(), poisonByte,
              scratchBytes());
}

std::pair<Type, char *> PlanInterpreter::stateMemory(StringRef name) const {
  auto state = symbols.lookup<planir::StateOp>(name);
  if (!state.getFlat())
    return {state.getType(), inPersistent(state)};
  auto flat = symbols.lookup<planir::FlatOp>(*state.getFlat());
  return {flat.getType(), inPersistent(flat)};
}

Tensor PlanInterpreter::stored(const std::string &name) const {
  (void)finishDeferred(); // Copies cannot fail.
  auto [type, memory] = stateMemory(name);
  return readMemory(type, memory);
}

void PlanInterpreter::store(const std::string &name, const Tensor &value) {
  auto [type, memory] = stateMemory(name);
  value.convertTo(*kindOf(cast<ShapedType>(type).getElementType()))
      .toBytes(memory);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

char *PlanInterpreter::frameOf(planir::BufferOp buffer, char *frame) const {
  return buffer.getMemory() == planir::MemoryKind::Device
             ? frame
             : arena[planir::memoryOf(buffer.getMemory())].get();
}

char *PlanInterpreter::inFrame(Operation *op, planir::MemoryKind memory,
                               char *frame, int64_t offset, int64_t bytes) {
  char *begin = frame + offset;
  char *first = arena[planir::memoryOf(memory)].get();
  int64_t size = program.getArenaBytes().of(memory);
  if (begin >= first && begin + bytes <= first + size)
    return begin;
  op->emitError("leaves the arena of ") << size << " bytes";
  return nullptr;
}

char *PlanInterpreter::bufferAddress(planir::BufferOp buffer, char *frame) {
  return inFrame(buffer, buffer.getMemory(), frameOf(buffer, frame),
                 buffer.getOffset(), dist::byteSize(buffer.getType()));
}

LogicalResult PlanInterpreter::runLaunch(planir::LaunchOp launch,
                                         const Environment &values) {
  auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
  if (!kernel)
    return launch.emitError("unknown kernel @") << launch.getKernel();
  if (!kernels)
    return kernel.emitError("is not compiled");
  SmallVector<void *> refs;
  SmallVector<int64_t> scalars;
  for (Value operand : launch.getOperands()) {
    Operand value = values.lookup(operand);
    if (isa<MemRefType>(operand.getType()))
      refs.push_back(value.address);
    else
      scalars.push_back(value.scalar);
  }
  auto run = [this, kernel, refs, scalars] {
    return kernels->launch(kernel, refs, scalars,
                           deviceArena() + program.getScratchOffset(),
                           program.getScratchBytesPerThread());
  };
  if (launch.getStream() == planir::Stream::Compute)
    return run();
  return runOn(launch.getStream(), [this, run] {
    if (failed(run()))
      hasFailed = true;
  });
}

//===----------------------------------------------------------------------===//
// Streams for copies and host computation
//===----------------------------------------------------------------------===//

/// Executes `work`. Work of the streams `copy` and `host` is instead queued and
/// executed as late as possible, so that bytes which are read or reused too
/// early give a different result.
LogicalResult PlanInterpreter::runOn(planir::Stream stream,
                                     std::function<void()> work) {
  if (stream == planir::Stream::Compute)
    work();
  else
    deferred.push_back(std::move(work));
  return success(!hasFailed);
}

LogicalResult PlanInterpreter::finishDeferred(int64_t count) const {
  for (; numDeferred < count && !deferred.empty(); ++numDeferred) {
    deferred.front()();
    deferred.pop_front();
  }
  return success(!hasFailed);
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

LogicalResult PlanInterpreter::runCall(planir::CallOp call, char *frame,
                                       const Environment &values) {
  auto sequence = symbols.lookup<planir::SequenceOp>(call.getSequence());
  if (!sequence)
    return call.emitError("unknown sequence @") << call.getSequence();
  char *inner = inFrame(call, planir::MemoryKind::Device, frame,
                        call.getFrameOffset(), sequence.getFrameBytes());
  if (!inner)
    return failure();
  Operands args;
  for (Value operand : call.getOperands())
    args.push_back(values.lookup(operand));
  return runSequence(sequence, args, inner);
}

LogicalResult PlanInterpreter::runAddressing(Operation *op, char *frame,
                                             Environment &values) {
  auto addressOf = [&](Value buffer) { return values.lookup(buffer).address; };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](planir::BufferOp buffer) {
        char *address = bufferAddress(buffer, frame);
        values[buffer.getBuffer()] = Operand{address, 0};
        return success(address != nullptr);
      })
      .Case([&](planir::StateRefOp ref) -> LogicalResult {
        Operation *state = symbols.lookup(ref.getState());
        if (auto flat = dyn_cast_or_null<planir::FlatOp>(state))
          values[ref.getBuffer()] = Operand{inPersistent(flat), 0};
        else if (auto own = dyn_cast_or_null<planir::StateOp>(state))
          values[ref.getBuffer()] = Operand{inPersistent(own), 0};
        else
          return ref.emitError("unknown state @") << ref.getState();
        return success();
      })
      .Case([&](planir::SliceOp slice) {
        int64_t index = values.lookup(slice.getIndex()).scalar;
        values[slice.getBuffer()] =
            Operand{addressOf(slice.getSource()) +
                        index * dist::byteSize(slice.getBuffer().getType()),
                    0};
        return success();
      })
      .Case([&](planir::ViewOp view) {
        auto source = cast<ShapedType>(view.getSource().getType());
        int64_t width = byteSize(*kindOf(source.getElementType()));
        values[view.getBuffer()] =
            Operand{addressOf(view.getSource()) + view.getElement() * width, 0};
        return success();
      })
      .Case([&](planir::CopyOp copy) {
        int64_t bytes = dist::byteSize(copy.getTarget().getType());
        return runOn(copy.getStream(), [=, target = addressOf(copy.getTarget()),
                                        source = addressOf(copy.getSource())] {
          std::memmove(target, source, bytes);
        });
      })
      .Case([&](planir::CopyRowsOp copy) {
        int64_t rows =
            cast<MemRefType>(copy.getSource().getType()).getDimSize(0);
        io::RowChoice choice = {
            dist::byteSize(copy.getSource().getType()) / rows, rows,
            reinterpret_cast<int32_t *>(addressOf(copy.getIds())),
            cast<MemRefType>(copy.getIds().getType()).getNumElements(),
            /*first=*/{}};
        if (copy.getFirst())
          choice.first = values.lookup(copy.getFirst()).scalar;
        return runOn(copy.getStream(), [=, target = addressOf(copy.getTarget()),
                                        source = addressOf(copy.getSource())] {
          choice.gather(target, source);
        });
      })
      .Case([&](planir::FillOp fill) {
        int64_t bytes = dist::byteSize(fill.getTarget().getType());
        return runOn(fill.getStream(),
                     [=, target = addressOf(fill.getTarget())] {
                       std::memset(target, 0, bytes);
                     });
      })
      .Default([&](Operation *other) {
        return other->emitError("the interpreter does not know '")
               << other->getName() << "'";
      });
}

LogicalResult PlanInterpreter::runCommand(Operation *op, char *frame,
                                          Environment &values) {
  auto numberOf = [&](Value value) { return values.lookup(value).scalar; };
  if (std::optional<int64_t> value = number(op, numberOf)) {
    values[op->getResult(0)] = Operand{nullptr, *value};
    return success();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](planir::CallOp call) { return runCall(call, frame, values); })
      .Case([&](planir::LoopOp loop) { return runLoop(loop, frame, values); })
      .Case([&](planir::FragmentsOp fragments) {
        return runFragments(
            fragments, [&](Block &body, int64_t microBatch, int64_t slot) {
              values[body.getArgument(0)] = Operand{nullptr, microBatch};
              values[body.getArgument(1)] = Operand{nullptr, slot};
              return runBlock(body, frame, values);
            });
      })
      .Case([&](planir::LaunchOp launch) { return runLaunch(launch, values); })
      .Case([&](planir::RecordOp record) {
        int64_t point = numDeferred + static_cast<int64_t>(deferred.size());
        values[record.getToken()] = Operand{nullptr, point};
        if (record.getCarried())
          carried[*record.getCarried()] = point;
        return success();
      })
      .Case([&](planir::SettleOp settle) {
        // With --poison, the queued copies are executed even if only the stream
        // `copy` waits for them. Otherwise buffers whose lifetime ends would be
        // filled with NaN before the copies read them.
        if (settle.getStream() == planir::Stream::Compute || options.poison)
          return finishDeferred(carried[settle.getNumber()]);
        return success();
      })
      .Case([&](planir::WaitOp wait) {
        if (!wait.getToken().getDefiningOp<planir::RecordOp>())
          return runWait(wait, values);
        if (wait.getStream() == planir::Stream::Compute)
          return finishDeferred(numberOf(wait.getToken()));
        return success();
      })
      .Case<planir::CollectiveOp, planir::SendOp, planir::RecvOp,
            planir::FlushOp>([&](Operation *communication) {
        return runCommunication(communication, values);
      })
      .Case([&](planir::EndOp) { return success(); })
      .Default([&](Operation *other) {
        return runAddressing(other, frame, values);
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
    planir::Guard guard = planir::guardOf(&op);
    if (holds(guard.condition) == guard.value &&
        failed(runCommand(&op, frame, values)))
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

planir::SequenceOp PlanInterpreter::findProgram(const ProgramName &name) {
  for (auto sequence : program.getOps<planir::SequenceOp>())
    if (name.isOf(sequence.getKind(), sequence.getSymName(),
                  sequence.getPhaseAttr()))
      return sequence;
  return nullptr;
}

int64_t PlanInterpreter::batchParts(const ProgramName &name,
                                    const TensorMap &inputs) {
  planir::SequenceOp sequence = findProgram(name);
  if (!sequence)
    return 1;
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>())
    if (nn::PortAttr port = buffer.getInputAttr())
      if (std::optional<int64_t> parts =
              partsOf(port, buffer.getType(), sequence.getPortsAttr(), inputs))
        return *parts;
  return 1;
}

std::optional<std::vector<std::string>>
PlanInterpreter::inputsOf(const ProgramName &name) {
  planir::SequenceOp sequence = findProgram(name);
  if (!sequence)
    return std::nullopt;
  std::vector<std::string> keys;
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>())
    if (nn::PortAttr port = buffer.getInputAttr())
      keys.push_back(port.getKey().str());
  return keys;
}

DictionaryAttr PlanInterpreter::portsOf(const ProgramName &name) {
  planir::SequenceOp sequence = findProgram(name);
  return sequence ? sequence.getPortsAttr() : DictionaryAttr();
}

LogicalResult PlanInterpreter::run(const ProgramName &name,
                                   const TensorMap &inputs,
                                   const BatchSlice &batch,
                                   TensorMap &outputs) {
  planir::SequenceOp sequence = findProgram(name);
  if (!sequence)
    return program.emitError("has no program ") << name.str();
  if (lastRun != sequence) {
    if (failed(finishDeferred()))
      return failure();
    carried.clear();
  }
  if (options.poison && deferred.empty())
    for (planir::MemoryKind kind : planir::memoryKinds)
      if (int64_t bytes = program.getArenaBytes().of(kind))
        std::memset(arena[planir::memoryOf(kind)].get(), poisonByte, bytes);
  SmallVector<planir::BufferOp> results;
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
    if (!buffer.getPort())
      continue;
    char *memory = bufferAddress(buffer, deviceArena());
    if (!memory)
      return failure();
    if (!buffer.getInput()) {
      results.push_back(buffer);
      continue;
    }
    auto type = cast<ShapedType>(buffer.getType());
    FailureOr<Tensor> value =
        inputOf(buffer, buffer.getPort().getKey(), type,
                sequence.getPortsAttr(), inputs, batch, rank);
    if (failed(value))
      return failure();
    value->convertTo(*kindOf(type.getElementType())).toBytes(memory);
  }
  setOutcomes(inputs);
  if (failed(runSequence(sequence, {}, deviceArena())))
    return failure();
  lastRun = sequence;
  if (carried.empty() && failed(finishDeferred()))
    return failure();
  SmallVector<PortValue> given;
  for (planir::BufferOp result : results)
    given.push_back(
        {result.getPort(),
         readMemory(result.getType(), bufferAddress(result, deviceArena()))});
  addOutputs(given, batch, outputs);
  return success();
}

} // namespace heddle::eval
