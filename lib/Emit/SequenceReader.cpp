//===- SequenceReader.cpp - Sequences as command lists --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SequenceReader.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::emit;

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
    auto described = dyn_cast<planir::CommandOpInterface>(op);
    if (!described)
      continue;
    plan::Command command = read(op, sequence);
    command.stream = planir::streamOf(described.getOwnStream());
    if (Value token = described.getSignal())
      tokens[token] = sequence.commands.size();
    sequence.commands.push_back(std::move(command));
  }
}

plan::Command SequenceReader::read(Operation &op,
                                   const plan::Sequence &sequence) {
  using Kind = plan::Command::Kind;
  return llvm::TypeSwitch<Operation *, plan::Command>(&op)
      .Case([&](planir::LaunchOp op) { return launch(op); })
      .Case([&](planir::CallOp op) { return call(op); })
      .Case([&](planir::LoopOp op) { return loop(op, sequence); })
      .Case([&](planir::FragmentsOp op) { return fragments(op, sequence); })
      .Case([&](planir::CopyOp op) {
        return command(Kind::Copy, {op.getTarget(), op.getSource()});
      })
      .Case([&](planir::FillOp op) {
        return command(Kind::Fill, {op.getTarget()});
      })
      .Case([&](planir::CollectiveOp op) { return collective(op); })
      .Case([&](planir::RecordOp) { return command(Kind::Record, {}); })
      .Case([&](planir::WaitOp op) {
        plan::Command wait = command(Kind::Wait, {});
        wait.target = tokens.lookup(op.getToken());
        return wait;
      })
      .Case([&](planir::SendOp op) { return message(Kind::Send, op); })
      .Case([&](planir::RecvOp op) { return message(Kind::Receive, op); })
      .Case([&](planir::FlushOp op) {
        plan::Command flush = command(Kind::Flush, {});
        flush.channel = plan::Channel{"", 0, op.getChannel().str()};
        flush.count = op.getLeft();
        return flush;
      });
}

plan::Command SequenceReader::command(plan::Command::Kind kind,
                                      ValueRange buffers) {
  plan::Command command;
  command.kind = kind;
  for (Value buffer : buffers)
    command.refs.push_back(refOf(buffer));
  return command;
}

plan::Command SequenceReader::collective(planir::CollectiveOp op) {
  plan::Command started =
      command(plan::Command::Kind::Collective,
              {op.getTarget(), op.getSource(), op.getStaging()});
  started.collective = planir::collectiveOf(op);
  started.path = op.getReason().str();
  return started;
}

template <typename MessageOp>
plan::Command SequenceReader::message(plan::Command::Kind kind, MessageOp op) {
  plan::Command result = command(kind, {op.getBuffer()});
  result.channel =
      plan::Channel{op.getAxis().str(), static_cast<int64_t>(op.getDelta()),
                    op.getChannel().str()};
  result.path = op.getChannel().str();
  return result;
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

/// A region becomes a sequence in the same frame. It reaches the outer
/// sequence's arguments as its own.
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

/// Hands the arguments of the outer sequence on.
static void passArguments(const plan::Sequence &outer, plan::Command &command) {
  for (int64_t index = 0; index < outer.numArgs; ++index) {
    plan::Ref ref;
    ref.space = plan::Space::Arg;
    ref.index = index;
    command.refs.push_back(ref);
  }
  for (int64_t index = 0; index < outer.numScalarArgs; ++index)
    command.scalars.push_back(
        {0, {plan::Term{plan::Term::Kind::Arg, index, 1, {}}}});
}

plan::Command SequenceReader::loop(planir::LoopOp op,
                                   const plan::Sequence &outer) {
  plan::Command command;
  command.kind = plan::Command::Kind::Loop;
  command.count = op.getCount();
  command.target = readBody(op.getBody().front(), outer, "loop");
  passArguments(outer, command);
  return command;
}

plan::Command SequenceReader::fragments(planir::FragmentsOp op,
                                        const plan::Sequence &outer) {
  plan::Command command;
  command.kind = plan::Command::Kind::Fragments;
  command.line = op.getLine().str();
  for (auto [body, kind, slots] :
       llvm::zip(op.getBodies(), op.getKinds().getAsRange<StringAttr>(),
                 op.getSlots()))
    command.fragments.push_back(
        {kind.str(), readBody(body.front(), outer, kind.getValue()), slots});
  passArguments(outer, command);
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

/// How often a schedule's line runs the fragment: `F` is in `F0` and `F12`,
/// `F/1` in `F0/1`.
static double runsOf(StringRef line, StringRef kind) {
  auto [letter, chunk] = kind.split('/');
  double runs = 0;
  for (StringRef action : llvm::split(line, ' '))
    runs += action.starts_with(letter) && action.split('/').second == chunk;
  return runs;
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
    for (const plan::Fragment &fragment : command.fragments)
      count(fragment.sequence, times * runsOf(command.line, fragment.kind),
            launches);
  }
}

void SequenceReader::countCalls() {
  const plan::Program *train = plan.findProgram(plan::ProgramKind::Train);
  if (!train)
    return;
  std::vector<double> launches(plan.kernels.size());
  count(train->sequence, 1, launches);
  plan.kernelCalls.assign(launches.begin(), launches.end());
}

double SequenceReader::modelFlops(const plan::Program &of) {
  const plan::Program *forward = of.kind == plan::ProgramKind::Train
                                     ? plan.findProgram(plan::ProgramKind::Eval)
                                     : &of;
  if (!forward)
    return 0;
  std::vector<double> launches(plan.kernels.size());
  count(forward->sequence, 1, launches);
  double flops = 0;
  for (auto [kernel, times] : llvm::zip(plan.kernels, launches))
    flops += kernel.modelFlops * times;
  return of.kind == plan::ProgramKind::Train
             ? 3 * flops * static_cast<double>(plan.accumulate)
             : flops;
}
