//===- SequenceReader.cpp - Sequences as command lists --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SequenceReader.h"
#include "ModuleShares.h"
#include "dialects/Dist/ByteSize.h"
#include "dialects/Plan/Lifetimes.h"
#include "heddle/Transforms/Memory/Packing.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::emit;

void SequenceReader::read() {
  // In the plan's list of sequences, those of plan.sequence operations come
  // first. The bodies of loops follow, as sequences too.
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
    readBuffers(op, memory::alignmentFor(program.getStrategy().getValue()),
                sequence);
    plan.sequences[index] = std::move(sequence);
  }
}

void SequenceReader::readBlock(Block &block, plan::Sequence &sequence) {
  for (Operation &op : block) {
    auto described = dyn_cast<planir::CommandOpInterface>(op);
    if (!described)
      continue;
    plan::Command command = read(op, sequence);
    command.stream = planir::streamOf(described.getOwnStream());
    command.guard = guardOf(op);
    if (Value token = described.getSignal())
      tokens[token] = sequence.commands.size();
    sequence.commands.push_back(std::move(command));
  }
}

/// Describes the buffers of the sequence's frame, with the offsets and
/// lifetimes that `memory-plan` has written.
void SequenceReader::readBuffers(planir::SequenceOp op, int64_t alignment,
                                 plan::Sequence &sequence) {
  DenseSet<Value> transferred = planir::transferBuffersOf(op);
  for (auto of : op.getBody().getOps<planir::BufferOp>()) {
    plan::FrameBuffer &buffer = sequence.buffers.emplace_back();
    std::vector<std::string> modules = moduleNamesOf(of.getLoc());
    if (!modules.empty())
      buffer.path = modules.front();
    buffer.owner = of.getOwner().str();
    buffer.memory = planir::memoryOf(of.getMemory());
    buffer.offset = of.getOffset();
    buffer.bytes = dist::byteSize(of.getBuffer().getType());
    buffer.reserved =
        memory::alignTo(transferred.contains(of.getBuffer())
                            ? memory::alignTo(buffer.bytes, memory::pageBytes)
                            : buffer.bytes,
                        alignment);
    buffer.first = of.getFirst();
    buffer.last = of.getLast();
    buffer.settled = static_cast<int64_t>(of.getSettled().value_or(-1));
  }
}

plan::Command SequenceReader::read(Operation &op,
                                   const plan::Sequence &sequence) {
  namespace command = plan::command;
  return llvm::TypeSwitch<Operation *, plan::Command>(&op)
      .Case([&](planir::LaunchOp op) { return launch(op); })
      .Case([&](planir::CallOp op) { return call(op); })
      .Case([&](planir::LoopOp op) { return loop(op, sequence); })
      .Case([&](planir::FragmentsOp op) { return fragments(op, sequence); })
      .Case([&](planir::CopyOp op) {
        return plan::Command{
            command::Copy{refOf(op.getTarget()), refOf(op.getSource())}};
      })
      .Case([&](planir::CopyRowsOp op) {
        auto source = cast<MemRefType>(op.getSource().getType());
        command::CopyRows copy{refOf(op.getTarget()), refOf(op.getSource()),
                               refOf(op.getIds()),
                               dist::byteSize(source) / source.getDimSize(0)};
        if (op.getFirst())
          copy.first = scalarOf(op.getFirst());
        return plan::Command{std::move(copy)};
      })
      .Case([&](planir::FillOp op) {
        return plan::Command{command::Fill{refOf(op.getTarget())}};
      })
      .Case([&](planir::CollectiveOp op) { return collective(op); })
      .Case([&](planir::RecordOp op) {
        command::Record record;
        if (op.getCarried())
          record.carried = static_cast<int64_t>(*op.getCarried());
        return plan::Command{record};
      })
      .Case([&](planir::SettleOp op) {
        return plan::Command{
            command::Settle{static_cast<int64_t>(op.getNumber())}};
      })
      .Case([&](planir::WaitOp op) {
        return plan::Command{command::Wait{tokens.lookup(op.getToken())}};
      })
      .Case([&](planir::SendOp op) { return message<command::Send>(op); })
      .Case([&](planir::RecvOp op) { return message<command::Receive>(op); })
      .Case([&](planir::FlushOp op) {
        return plan::Command{
            command::Flush{op.getChannel().str(), int64_t(op.getLeft())}};
      });
}

plan::Command SequenceReader::collective(planir::CollectiveOp op) {
  plan::Command started{
      plan::command::Collective{planir::collectiveOf(op), refOf(op.getTarget()),
                                refOf(op.getSource()), refOf(op.getStaging())}};
  started.path = op.getReason().str();
  return started;
}

template <typename Message, typename MessageOp>
plan::Command SequenceReader::message(MessageOp op) {
  plan::Channel channel{op.getAxis().str(), int64_t(op.getDelta()),
                        op.getChannel().str()};
  plan::Command result{Message{channel, refOf(op.getBuffer())}};
  result.path = channel.name;
  return result;
}

plan::Command SequenceReader::launch(planir::LaunchOp op) {
  plan::command::Launch launch;
  launch.kernel = kernels.lookup(op.getKernel());
  addOperands(op.getOperands(), launch);
  std::vector<std::string> modules = moduleNamesOf(op.getLoc());
  std::string path = modules.empty() ? "" : modules.front();
  if (op.getPath())
    path = op.getPath()->str();
  // The locations of a launch name the modules of the kernel's operations, in
  // their order. Launches of kernels that different groups of operations share
  // may name fewer modules than the kernel has shares. The first module then
  // gets all shares.
  if (size_t shares = plan.kernels[launch.kernel].shares.size(); shares > 1) {
    if (modules.size() != shares)
      modules.assign(shares, path);
    launch.modules = std::move(modules);
  }
  plan::Command command{std::move(launch)};
  command.path = std::move(path);
  command.stream = planir::streamOf(op.getStream());
  return command;
}

/// Returns in which steps a command is executed, with the index of the
/// condition in the plan.
plan::Guard SequenceReader::guardOf(Operation &op) {
  planir::Guard guard = planir::guardOf(&op);
  if (!guard)
    return {};
  auto found = llvm::find_if(plan.conditions, [&](const auto &known) {
    return known.name == guard.condition.getValue();
  });
  return {found - plan.conditions.begin(), guard.value};
}

plan::Command SequenceReader::call(planir::CallOp op) {
  plan::command::Call call;
  call.sequence = indexOf(op.getSequence());
  call.frameOffset = op.getFrameOffset();
  addOperands(op.getOperands(), call);
  plan::Command command{std::move(call)};
  command.path = op.getPath().str();
  return command;
}

/// Translates a region, such as the body of a loop, to a separate sequence. The
/// new sequence uses the frame (the buffers' memory) and the arguments of the
/// outer sequence.
int64_t SequenceReader::readBody(Block &block, const plan::Sequence &outer,
                                 StringRef suffix) {
  plan::Sequence body;
  body.name = outer.name + "." + suffix.str();
  body.frameBytes = outer.frameBytes;
  body.numArgs = outer.numArgs;
  body.numScalarArgs = outer.numScalarArgs;
  readBlock(block, body);
  plan.sequences.push_back(std::move(body));
  return plan.sequences.size() - 1;
}

/// Gives `to` the arguments of the outer sequence, in the same order.
static void passArguments(const plan::Sequence &outer,
                          plan::command::Operands &to) {
  for (int64_t index = 0; index < outer.numArgs; ++index) {
    plan::Ref ref;
    ref.space = plan::Space::Arg;
    ref.index = index;
    to.refs.push_back(ref);
  }
  for (int64_t index = 0; index < outer.numScalarArgs; ++index)
    to.scalars.push_back(
        {0, {plan::Term{plan::Term::Kind::Arg, index, 1, {}}}});
}

plan::Command SequenceReader::loop(planir::LoopOp op,
                                   const plan::Sequence &outer) {
  plan::command::Loop loop;
  loop.count = op.getCount();
  loop.sequence = readBody(op.getBody().front(), outer, "loop");
  passArguments(outer, loop);
  return {std::move(loop)};
}

plan::Command SequenceReader::fragments(planir::FragmentsOp op,
                                        const plan::Sequence &outer) {
  plan::command::Fragments all;
  pipe::LineAttr line = op.getLine();
  for (auto [body, kind, slots] :
       llvm::zip(op.getBodies(), line.getKinds(), op.getSlots()))
    all.fragments.push_back({kind.kind, kind.chunk,
                             readBody(body.front(), outer, kind.name()),
                             slots});
  for (const pipe::Action &action : line.getActions())
    all.order.push_back({int64_t(line.kindOf(action)), action.microBatch});
  passArguments(outer, all);
  return {std::move(all)};
}

void SequenceReader::addOperands(ValueRange operands,
                                 plan::command::Operands &to) {
  for (Value operand : operands) {
    if (operand.getType().isIndex())
      to.scalars.push_back(scalarOf(operand));
    else
      to.refs.push_back(refOf(operand));
  }
}

/// The index of an argument. Buffers and scalars are counted separately.
static int64_t numberOf(BlockArgument argument) {
  bool scalar = argument.getType().isIndex();
  int64_t number = 0;
  for (BlockArgument other :
       argument.getOwner()->getArguments().take_front(argument.getArgNumber()))
    number += other.getType().isIndex() == scalar;
  return number;
}

static plan::Scalar scaled(plan::Scalar scalar, int64_t factor) {
  scalar.constant *= factor;
  for (plan::Term &term : scalar.terms)
    term.factor *= factor;
  return scalar;
}

plan::Scalar SequenceReader::scalarOf(Value value) {
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return {cast<IntegerAttr>(constant.getValue()).getInt(), {}};
  if (auto rank = value.getDefiningOp<planir::RankOp>())
    return {0,
            {plan::Term{plan::Term::Kind::Coordinate, 0, 1,
                        planir::namesOf(rank.getAxes())}}};
  if (auto product = value.getDefiningOp<arith::MulIOp>()) {
    plan::Scalar lhs = scalarOf(product.getLhs());
    plan::Scalar rhs = scalarOf(product.getRhs());
    return rhs.terms.empty() ? scaled(lhs, rhs.constant)
                             : scaled(rhs, lhs.constant);
  }
  if (auto sum = value.getDefiningOp<arith::AddIOp>()) {
    plan::Scalar lhs = scalarOf(sum.getLhs());
    plan::Scalar rhs = scalarOf(sum.getRhs());
    lhs.constant += rhs.constant;
    lhs.terms.insert(lhs.terms.end(), rhs.terms.begin(), rhs.terms.end());
    return lhs;
  }
  auto argument = cast<BlockArgument>(value);
  Operation *parent = argument.getOwner()->getParentOp();
  auto kind = plan::Term::Kind::Arg;
  if (isa<planir::LoopOp, planir::FragmentsOp>(parent))
    kind = argument.getArgNumber() == 0 ? plan::Term::Kind::LoopIndex
                                        : plan::Term::Kind::Slot;
  int64_t number = kind == plan::Term::Kind::Arg ? numberOf(argument) : 0;
  return {0, {plan::Term{kind, number, 1, {}}}};
}

plan::Ref SequenceReader::refOf(Value buffer) {
  plan::Ref ref;
  if (auto slice = buffer.getDefiningOp<planir::SliceOp>()) {
    ref = refOf(slice.getSource());
    plan::Scalar place =
        scaled(scalarOf(slice.getIndex()), dist::byteSize(buffer.getType()));
    ref.offset += place.constant;
    ref.terms.insert(ref.terms.end(), place.terms.begin(), place.terms.end());
  } else if (auto view = buffer.getDefiningOp<planir::ViewOp>()) {
    ref = refOf(view.getSource());
    auto type = cast<MemRefType>(buffer.getType());
    ref.offset += view.getElement() * dist::byteSize(type.getElementType());
  } else if (auto frame = buffer.getDefiningOp<planir::BufferOp>()) {
    ref.space = plan::Space::Frame;
    ref.memory = planir::memoryOf(frame.getMemory());
    ref.offset = frame.getOffset();
  } else if (auto state = buffer.getDefiningOp<planir::StateRefOp>()) {
    ref.space = plan::Space::Persistent;
    std::tie(ref.memory, ref.offset) = places.lookup(state.getState());
  } else {
    ref.space = plan::Space::Arg;
    ref.index = numberOf(cast<BlockArgument>(buffer));
  }
  ref.bytes = dist::byteSize(buffer.getType());
  return ref;
}

void SequenceReader::count(int64_t sequence, double times,
                           std::vector<double> &launches,
                           const std::string *path) {
  for (const plan::Command &command : plan.sequences[sequence].commands) {
    const auto *launch = command.as<plan::command::Launch>();
    if (launch && !path)
      launches[launch->kernel] += times;
    bool isCounted =
        command.as<plan::command::Call>() && path && command.path == *path;
    for (plan::SequenceRuns runs : runsOf(command))
      count(runs.sequence, times * static_cast<double>(runs.times), launches,
            isCounted ? nullptr : path);
  }
}

void SequenceReader::countCalls() {
  for (const plan::Program *train : plan.trainPrograms()) {
    std::vector<double> launches(plan.kernels.size());
    count(train->sequence, 1, launches);
    plan.kernelCalls.resize(launches.size());
    for (auto [most, times] : llvm::zip(plan.kernelCalls, launches))
      most = std::max(most, static_cast<int64_t>(times));
  }
}

double SequenceReader::modelFlops(const plan::Program &of,
                                  const std::string *path) {
  const plan::Program *forward = of.kind == plan::ProgramKind::Train
                                     ? plan.findProgram(plan::ProgramKind::Eval)
                                     : &of;
  if (!forward)
    return 0;
  std::vector<double> launches(plan.kernels.size());
  count(forward->sequence, 1, launches, path);
  double flops = 0;
  for (auto [kernel, times] : llvm::zip(plan.kernels, launches))
    flops += kernel.modelFlops * times;
  return of.kind == plan::ProgramKind::Train
             ? 3 * flops * static_cast<double>(plan.accumulate)
             : flops;
}
