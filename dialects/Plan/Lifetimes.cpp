//===- Lifetimes.cpp - Lifetimes of buffers in a sequence -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/Lifetimes.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::planir;

Value heddle::planir::rootOf(Value buffer) {
  while (isa_and_nonnull<SliceOp, ViewOp>(buffer.getDefiningOp()))
    buffer = buffer.getDefiningOp()->getOperand(0);
  return buffer;
}

DenseSet<Value> heddle::planir::transferBuffersOf(SequenceOp sequence) {
  SymbolTable symbols(sequence->getParentOfType<ProgramOp>());
  auto isOffloaded = [&](Value root) {
    auto ref = root.getDefiningOp<StateRefOp>();
    Operation *state = ref ? symbols.lookup(ref.getState()) : nullptr;
    auto memory = state ? state->getAttrOfType<nn::MemoryKindAttr>("memory")
                        : nn::MemoryKindAttr();
    return memory && memory.getValue() != nn::MemoryKind::Device;
  };
  DenseSet<Value> transferred;
  sequence.walk([&](CopyOp copy) {
    Value target = rootOf(copy.getTarget());
    Value source = rootOf(copy.getSource());
    if (isOffloaded(source))
      transferred.insert(target);
    if (isOffloaded(target))
      transferred.insert(source);
  });
  return transferred;
}

LogicalResult Lifetimes::find(SequenceOp sequence) {
  if (failed(walk(sequence.getBody().front())))
    return failure();
  // The buffer of a send without a later plan.flush is in use until the end of
  // the command sequence, where all messages must have been received.
  for (auto &channel : sent)
    for (Operation *send : channel.second)
      endAt(send, send, next - 1);
  return endCarried();
}

/// Handles each plan.record (an event on a stream) with the attribute
/// `carried`. Commands before such a record may still run when this run of the
/// program ends, and the next run waits for them. So these commands count as
/// running until the end of the sequence. Fails unless the next run waits for
/// each such record.
LogicalResult Lifetimes::endCarried() {
  for (SettleOp settle : settles)
    if (settle.getNumber() >= carried.size())
      return settle.emitError("H0924: waits for point ")
             << settle.getNumber() << ", and a run leaves " << carried.size();
  for (auto [number, ops] : llvm::enumerate(carried))
    for (Operation *op : ops) {
      Span &span = spans[op];
      if (span.end != op)
        continue; // Something has waited for it.
      if (number >= settledAt.size()) {
        auto diagnostic = op->emitError("H0924: is left to the next run, where "
                                        "compute does not wait for it");
        diagnostic.attachNote()
            << "help: put plan.settle " << number << " before what uses its "
            << "bytes first";
        return diagnostic;
      }
      span.last = next - 1;
      span.settled = settledAt[number];
    }
  return success();
}

std::optional<size_t> Lifetimes::indexOf(Stream stream) {
  const Stream *found = llvm::find(asyncStreams, stream);
  if (found == std::end(asyncStreams))
    return std::nullopt;
  return found - std::begin(asyncStreams);
}

LogicalResult Lifetimes::walk(Block &block) {
  Work work;
  for (Operation &op : block)
    if (auto command = dyn_cast<CommandOpInterface>(op))
      if (failed(walk(command, work)))
        return failure();
  for (auto [stream, queue] : llvm::zip(asyncStreams, work.queues)) {
    if (queue.open.size() == queue.numCarried)
      continue;
    auto diagnostic =
        queue.open[queue.numCarried].op->emitError("H0924: is on the stream ")
        << stringifyStream(stream)
        << ", and compute does not wait for it before its block "
           "ends";
    diagnostic.attachNote()
        << "help: put %t = plan.record " << stringifyStream(stream)
        << " and plan.wait %t after it";
    return diagnostic;
  }
  return success();
}

void Lifetimes::endAt(Operation *op, Operation *end, int64_t here) {
  spans[op].last = here;
  spans[op].end = end;
}

void Lifetimes::Clock::add(const Clock &other) {
  begin = std::max(begin, other.begin);
  for (auto [mine, theirs] : llvm::zip(done, other.done))
    mine = std::max(mine, theirs);
}

Lifetimes::Clock Lifetimes::Knowledge::under(const Guard &guard) const {
  Clock clock = always;
  for (const auto &[other, known] : guarded)
    if (other == guard)
      clock.add(known);
  return clock;
}

void Lifetimes::Knowledge::add(const Clock &clock, const Guard &guard) {
  if (!guard)
    return always.add(clock);
  for (auto &[other, known] : guarded)
    if (other == guard)
      return known.add(clock);
  guarded.push_back({guard, clock});
}

void Lifetimes::Knowledge::add(const Knowledge &other, const Guard &guard) {
  add(other.under(guard), guard);
  if (!guard)
    for (const auto &[also, known] : other.guarded)
      add(known, also);
}

Lifetimes::Knowledge Lifetimes::pointOf(RecordOp record, const Work &work,
                                        int64_t here) const {
  Clock own;
  Knowledge point;
  if (std::optional<size_t> index = indexOf(record.getStream())) {
    point = work.queues[*index].known;
    own.done[*index] = work.queues[*index].issued;
    if (record.getStream() == Stream::Copy)
      point.settled = settledForCopy.size();
  } else {
    point = work.compute;
    own.begin = here;
    point.settled = settledAt.size();
  }
  point.add(own, guardOf(record));
  return point;
}

/// Checks that `op`, which refers to the previous or the next run of the
/// program, is executed once in a run. It must be in the program's own command
/// sequence, because a sequence that the program calls may run several times.
/// It must not be in a loop with several iterations either, unless `again` is
/// true.
static LogicalResult requireOneRun(Operation *op, bool again) {
  Operation *parent = op->getParentOp();
  for (; isa<LoopOp>(parent); parent = parent->getParentOp())
    if (!again && cast<LoopOp>(parent).getCount() > 1)
      return op->emitError("H0924: leaves to the next run what a loop runs "
                           "again");
  auto sequence = dyn_cast<SequenceOp>(parent);
  if (sequence && sequence.getKind())
    return success();
  return op->emitError("H0924: is of the next run of a program or of the one "
                       "before, and is in no program's own commands");
}

LogicalResult Lifetimes::walk(CommandOpInterface command, Work &work) {
  int64_t here = next++;
  Operation *op = command;
  spans[op] = {op, here, here, here, op};
  Stream stream = command.getOwnStream();
  if (auto record = dyn_cast<RecordOp>(op)) {
    points[command.getSignal()] = pointOf(record, work, here);
    if (record.getCarried())
      return carry(record, work);
  } else if (auto settling = dyn_cast<SettleOp>(op)) {
    // A plan.settle names by an index the plan.record of the previous run for
    // which it waits. If a user has edited the plan, this index can be huge.
    // Limit it, because `settle` resizes a vector to the index. endCarried
    // reports an index that is too large.
    constexpr uint64_t most = 1 << 20;
    settles.push_back(settling);
    settle(stream == Stream::Copy ? settledForCopy : settledAt,
           std::min(settling.getNumber(), most) + 1, here);
    return requireOneRun(op, /*again=*/true);
  } else if (auto waiting = dyn_cast<WaitOp>(op)) {
    return wait(waiting, here, work);
  } else if (std::optional<size_t> index = indexOf(stream)) {
    AsyncQueue &queue = work.queues[*index];
    const Clock clock = queue.known.under(guardOf(op));
    if (clock.begin < 0) {
      auto diagnostic = op->emitError("H0924: is on the stream ")
                        << stringifyStream(stream)
                        << ", which waits for nothing of this block before it";
      diagnostic.attachNote() << "help: put %t = plan.record compute and "
                                 "plan.wait %t on "
                              << stringifyStream(stream) << " before it";
      return diagnostic;
    }
    spans[op].first = clock.begin;
    queue.open.push_back({queue.issued++, op});
  }
  if (StringRef channel = command.getSendingChannel(); !channel.empty())
    sent[channel].push_back(op);
  if (auto flush = dyn_cast<FlushOp>(op))
    for (auto &sends = sent[flush.getChannel()]; sends.size() > flush.getLeft();
         sends.pop_front())
      endAt(sends.front(), op, here);
  for (Region &region : op->getRegions())
    if (failed(walk(region.front())))
      return failure();
  if (op->getNumRegions() > 0)
    ends[op] = next - 1;
  return success();
}

/// Handles a plan.record with `carried`. Notes that the earlier commands of its
/// stream that nothing has waited for may still run in the next run of the
/// program.
LogicalResult Lifetimes::carry(RecordOp op, Work &work) {
  if (*op.getCarried() != carried.size())
    return op.emitError("H0924: has the number ")
           << *op.getCarried() << ", where " << carried.size() << " is next";
  AsyncQueue &queue = work.queues[*indexOf(op.getStream())];
  auto &left = carried.emplace_back();
  for (; queue.numCarried < queue.open.size(); ++queue.numCarried)
    left.push_back(queue.open[queue.numCarried].op);
  return requireOneRun(op, /*again=*/false);
}

LogicalResult Lifetimes::wait(WaitOp op, int64_t here, Work &work) {
  Operation *start = op.getToken().getDefiningOp();
  auto found = points.find(op.getToken());
  if (found == points.end()) {
    if (start && spans.count(start))
      endAt(start, op, here);
    return success();
  }
  if (start->getBlock() != op->getBlock())
    return op.emitError("H0924: waits for a point of another block");
  // A step that does not record the point does not wait for it either.
  const Guard recorded = guardOf(start);
  const Guard guard = guardOf(op) ? guardOf(op) : recorded;
  if (recorded && !(guard == recorded))
    return success();
  const Knowledge &point = found->second;
  const bool isAlways = !guard;
  if (std::optional<size_t> index = indexOf(op.getStream())) {
    work.queues[*index].known.add(point, guard);
    if (isAlways && op.getStream() == Stream::Copy)
      settle(settledForCopy, point.settled, here);
    return success();
  }
  work.compute.add(point, guard);
  if (isAlways)
    settle(settledAt, point.settled, here);
  for (auto [stream, queue] : llvm::enumerate(work.queues))
    endDone(queue, stream, work.compute, op, here);
  return success();
}

/// Ends the commands of a queue, the one of `asyncStreams[stream]`, that are
/// done by what is known when `compute` reaches the command `end` with index
/// `here`.
void Lifetimes::endDone(AsyncQueue &queue, size_t stream,
                        const Knowledge &known, Operation *end, int64_t here) {
  auto isDone = [&](const Issued &issued) {
    return issued.number < known.under(guardOf(issued.op)).done[stream];
  };
  for (size_t place = 0; place < queue.open.size();) {
    const Issued issued = queue.open[place];
    if (isDone(issued)) {
      endAt(issued.op, end, here);
      queue.open.erase(queue.open.begin() + place);
      queue.numCarried -= place < queue.numCarried;
    } else if (known.guarded.empty()) {
      return; // Commands of a stream are done in order.
    } else {
      ++place;
    }
  }
}

/// The innermost block that contains all of the operations, directly or in
/// regions.
static Block *commonBlock(ArrayRef<Operation *> ops) {
  Block *block = ops.front()->getBlock();
  for (Operation *op : ops)
    while (!block->findAncestorOpInBlock(*op))
      block = block->getParentOp()->getBlock();
  return block;
}

Span Lifetimes::useIn(Block *block, Operation *user) const {
  Operation *here = block->findAncestorOpInBlock(*user);
  const Span &span = spans.find(here)->second;
  if (here == user)
    return span;
  Span around = {here, span.number, span.first, ends.lookup(here), here};
  if (const Span &own = spans.find(user)->second; own.settled >= 0) {
    around.last = own.last;
    around.settled = own.settled;
  }
  return around;
}

llvm::MapVector<Value, SmallVector<Span>> Lifetimes::uses() const {
  llvm::MapVector<Value, SmallVector<Operation *>> users;
  for (const auto &[op, span] : spans)
    for (Value operand : op->getOperands())
      if (Value root = rootOf(operand); root.getDefiningOp<BufferOp>())
        users[root].push_back(op);
  llvm::MapVector<Value, SmallVector<Span>> uses;
  for (const auto &[buffer, ops] : users) {
    Block *block = commonBlock(ops);
    for (Operation *op : ops)
      uses[buffer].push_back(useIn(block, op));
  }
  return uses;
}

bool Lifetimes::followsCarried(ArrayRef<Span> uses) const {
  const Span &write = *llvm::min_element(
      uses, [](const Span &a, const Span &b) { return a.number < b.number; });
  auto command = dyn_cast<CommandOpInterface>(write.op);
  return command && command.getOwnStream() == Stream::Copy &&
         settledForCopy.size() >= carried.size() && !carried.empty() &&
         write.number > settledForCopy[carried.size() - 1] &&
         llvm::all_of(uses, [&](const Span &use) {
           return use.op == write.op || use.first >= write.last;
         });
}
