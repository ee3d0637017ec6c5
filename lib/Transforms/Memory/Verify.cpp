//===- Verify.cpp - Checks the bytes of a plan ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Shares no code with the planner: it reads the plan's text, nothing else.
//
//===----------------------------------------------------------------------===//

#include "Packing.h"
#include "VerifyText.h"
#include "heddle/Transforms/Memory/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringMap.h"
#include <deque>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_MEMORYVERIFY
#include "include/heddle/Transforms/Memory/Passes.h.inc"
} // namespace heddle

namespace {

/// Bytes [offset, offset + bytes) that are in use from command first to last.
struct Region {
  Operation *op;
  int64_t offset, bytes, first, last;
};

/// Where bytes end that may reach beyond every region.
uint64_t endOf(int64_t offset, int64_t bytes) {
  return static_cast<uint64_t>(offset) + static_cast<uint64_t>(bytes);
}

struct Verify : heddle::impl::MemoryVerifyBase<Verify> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<planir::ProgramOp>())
      if (failed(verify(program)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(planir::ProgramOp program) {
    if (failed(memory::verifyText(program)) || failed(verifyStates(program)))
      return failure();
    SymbolTable symbols(program);
    if (failed(verifyStateRefs(symbols, program)))
      return failure();
    DenseMap<Operation *, bool> finished;
    int64_t frames = 0;
    for (auto sequence : program.getOps<planir::SequenceOp>()) {
      if (!finished.contains(sequence) &&
          failed(verifyCalls(symbols, sequence, finished)))
        return failure();
      if (failed(verifySequence(symbols, sequence)))
        return failure();
      if (sequence.getKind())
        frames = std::max<int64_t>(frames, sequence.getFrameBytes());
    }
    auto threads = program.getStrategy().getValue().threads;
    int64_t scratchOffset = program.getScratchOffset();
    if (scratchOffset % memory::alignment)
      return program.emitError("H0913: scratch begins at ")
             << scratchOffset << ", which is no multiple of "
             << memory::alignment;
    if (scratchOffset < frames)
      return program.emitError("H0913: scratch begins at ")
             << scratchOffset << ", inside the frames of " << frames
             << " bytes";
    int64_t arena = program.getArenaBytes(), scratch = 0;
    if (llvm::MulOverflow<int64_t>(program.getScratchBytesPerThread(), threads,
                                   scratch) ||
        scratchOffset > arena || scratch > arena - scratchOffset)
      return program.emitError("H0913: the arena has ")
             << arena << " bytes, frames and scratch need "
             << endOf(scratchOffset, scratch);
    return verifyScratch(program);
  }

  /// A run of states ends inside the persistent region.
  LogicalResult verifyStateRefs(const SymbolTable &symbols,
                                planir::ProgramOp program) {
    WalkResult walk = program.walk([&](planir::StateRefOp reference) {
      auto begin = symbols.lookup(reference.getState())
                       ->getAttrOfType<IntegerAttr>("offset")
                       .getInt();
      int64_t bytes = dist::byteSize(reference.getBuffer().getType());
      int64_t size = program.getPersistentBytes();
      if (bytes <= size && begin <= size - bytes)
        return WalkResult::advance();
      reference.emitError("H0913: bytes [")
          << begin << ", " << endOf(begin, bytes)
          << ") leave the persistent region of " << size << " bytes";
      return WalkResult::interrupt();
    });
    return failure(walk.wasInterrupted());
  }

  /// Sequences run others, never, through any of them, themselves.
  LogicalResult verifyCalls(const SymbolTable &symbols,
                            planir::SequenceOp sequence,
                            DenseMap<Operation *, bool> &finished) {
    finished[sequence] = false;
    WalkResult walk = sequence.walk([&](planir::CallOp call) {
      auto callee = symbols.lookup<planir::SequenceOp>(call.getSequence());
      auto known = finished.find(callee);
      if (known == finished.end())
        return failed(verifyCalls(symbols, callee, finished))
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      if (known->second)
        return WalkResult::advance();
      call.emitError("H0913: is in a circle of calls: ")
          << call.getSequenceAttr() << " calls itself";
      return WalkResult::interrupt();
    });
    finished[sequence] = true;
    return failure(walk.wasInterrupted());
  }

  LogicalResult verifyScratch(planir::ProgramOp program) {
    for (auto kernel : program.getOps<planir::KernelOp>())
      if (kernel.getScratchBytes().value_or(0) >
          program.getScratchBytesPerThread())
        return kernel.emitError("H0913: needs ")
               << *kernel.getScratchBytes() << " bytes of scratch, there are "
               << program.getScratchBytesPerThread();
    return success();
  }

  LogicalResult verifyStates(planir::ProgramOp program) {
    SmallVector<Region> regions;
    for (auto state : program.getOps<planir::StateOp>())
      if (!state.getFlat())
        regions.push_back({state, static_cast<int64_t>(state.getOffset()),
                           dist::byteSize(state.getType()), 0, 0});
    for (auto flat : program.getOps<planir::FlatOp>())
      regions.push_back({flat, static_cast<int64_t>(flat.getOffset()),
                         dist::byteSize(flat.getType()), 0, 0});
    return verifyRegions(regions, program.getPersistentBytes(),
                         "the persistent region");
  }

  /// Regions lie inside, are aligned, and do not overlap while in use.
  LogicalResult verifyRegions(MutableArrayRef<Region> regions, int64_t size,
                              StringRef where) {
    llvm::sort(regions, [](const Region &a, const Region &b) {
      return a.offset < b.offset;
    });
    for (auto [index, a] : llvm::enumerate(regions)) {
      if (a.offset < 0 || a.bytes > size || a.offset > size - a.bytes)
        return a.op->emitError("H0913: bytes [")
               << a.offset << ", " << endOf(a.offset, a.bytes) << ") leave "
               << where << " of " << size << " bytes";
      if (a.offset % 64 != 0)
        return a.op->emitError("H0913: offset ")
               << a.offset << " is not a multiple of 64";
      for (const Region &b : regions.drop_front(index + 1)) {
        if (b.offset >= a.offset + a.bytes)
          break;
        if (a.first > b.last || b.first > a.last || a.bytes == 0 ||
            b.bytes == 0)
          continue;
        auto diagnostic = a.op->emitError("H0913: bytes [")
                          << a.offset << ", " << a.offset + a.bytes
                          << ") are shared with another buffer that is in use "
                             "at the same command";
        diagnostic.attachNote(b.op->getLoc()) << "the other one";
        return diagnostic;
      }
    }
    return success();
  }

  LogicalResult verifySequence(const SymbolTable &symbols,
                               planir::SequenceOp sequence) {
    SmallVector<Region> regions;
    Lives lives;
    for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
      int64_t first = buffer.getFirst(), last = buffer.getLast();
      regions.push_back({buffer, static_cast<int64_t>(buffer.getOffset()),
                         dist::byteSize(buffer.getBuffer().getType()), first,
                         last});
      lives[buffer.getBuffer()] = {first, last};
    }
    int64_t command = 0;
    Sent sent;
    WalkResult walk = sequence.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (!isa<planir::LaunchOp, planir::CallOp, planir::CopyOp, planir::FillOp,
               planir::LoopOp, planir::FragmentsOp, planir::CollectiveOp,
               planir::WaitOp, planir::SendOp, planir::RecvOp, planir::FlushOp>(
              op))
        return WalkResult::advance();
      int64_t here = command++;
      if (auto call = dyn_cast<planir::CallOp>(op)) {
        auto callee = symbols.lookup<planir::SequenceOp>(call.getSequence());
        regions.push_back({op, static_cast<int64_t>(call.getFrameOffset()),
                           static_cast<int64_t>(callee.getFrameBytes()), here,
                           here});
      }
      bool fits = succeeded(verifyUses(op, op, here, lives)) &&
                  succeeded(verifyEnd(op, here, sent, lives));
      return fits ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
    // A step ends when all that was sent is received.
    for (auto &channel : sent)
      for (planir::SendOp send : channel.second)
        if (failed(verifyUses(send, send, command - 1, lives)))
          return failure();
    return verifyRegions(regions, sequence.getFrameBytes(), "the frame");
  }

  /// First and last command of each buffer.
  using Lives = DenseMap<Value, std::pair<int64_t, int64_t>>;
  /// What was sent on each channel and not flushed, the oldest first.
  using Sent = llvm::StringMap<std::deque<planir::SendOp>>;

  /// What a wait or a flush ends has used its buffers until then.
  LogicalResult verifyEnd(Operation *op, int64_t here, Sent &sent,
                          Lives &lives) {
    if (auto wait = dyn_cast<planir::WaitOp>(op))
      if (Operation *start = wait.getToken().getDefiningOp())
        return verifyUses(op, start, here, lives);
    if (auto send = dyn_cast<planir::SendOp>(op))
      sent[send.getChannel()].push_back(send);
    if (auto flush = dyn_cast<planir::FlushOp>(op)) {
      auto &sends = sent[flush.getChannel()];
      for (; sends.size() > flush.getLeft(); sends.pop_front())
        if (failed(verifyUses(op, sends.front(), here, lives)))
          return failure();
    }
    return success();
  }

  /// The operands of `user` are live at command `here`, which is `op`.
  LogicalResult verifyUses(Operation *op, Operation *user, int64_t here,
                           Lives &lives) {
    for (Value operand : user->getOperands()) {
      while (isa_and_nonnull<planir::SliceOp, planir::ViewOp>(
          operand.getDefiningOp()))
        operand = operand.getDefiningOp()->getOperand(0);
      auto found = lives.find(operand);
      if (found == lives.end())
        continue;
      auto [first, last] = found->second;
      if (here < first || here > last)
        return op->emitError("H0913: command ")
               << here << " uses a buffer that is live in [" << first << ", "
               << last << "]";
    }
    return success();
  }
};

} // namespace
